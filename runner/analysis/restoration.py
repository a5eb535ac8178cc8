"""Is what existed before the run as it was? (article, section 6)."""

from runner.analysis.value import Absent
from runner.record.parts import Compared
from runner.record.record import Baseline


def unrestored(one: Baseline) -> Absent | None:
    """Why it is known not to be as it was; None where nothing says so. Where the record ends before it was put back,
    it was not."""
    after = one.restored
    if after is None:
        return Absent("never-restored")
    if not after.restored and after.reason is not None:
        return Absent("restore-failed", {"why": after.reason})
    differing = [fact for fact in after.compared if fact.equal is False]
    if differing:
        return Absent("baseline-differs", {"facts": "; ".join(map(_change, differing))})
    if after.differences:
        return Absent("baseline-fields-differ", {"fields": "; ".join(after.differences)})
    return None if after.restored else Absent("restore-failed", {"why": "?"})


def unproved(one: Baseline) -> Absent | None:
    """Why it is not known to be as it was: a fact that could not be compared, or no comparison at all; None where each
    is known to be equal, or there is nothing left to compare. Asked where it is not `unrestored`."""
    compared = [] if one.restored is None else one.restored.compared
    unknown = [fact.fact for fact in compared if fact.equal is None]
    if unknown:
        return Absent("baseline-unknown", {"facts": ", ".join(unknown)})
    if one.saved.existed and not compared:
        return Absent("baseline-uncompared")
    return None


def _change(fact: Compared) -> str:
    before, after = ("?" if value is None else value for value in (fact.before, fact.after))
    return f"{fact.fact}: {before} → {after}"
