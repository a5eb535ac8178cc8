"""What existed before the run is in force again (article, section 6)."""

from collections.abc import Iterator

from runner.analysis.restoration import unproved, unrestored
from runner.checks.finding import Finding, Judgement
from runner.checks.registry import check
from runner.record.record import Baseline, Record
from runner.spec.invariants import BaselineRestored


@check(BaselineRestored, due=lambda record: bool(record.baselines))
def baseline_restored(record: Record, parameters: BaselineRestored) -> Iterator[Finding]:
    """Per thing that was saved before anything was changed: fails where it was never put back, could not be, or a
    fact or field of it is not as it was; inconclusive where a fact could not be compared, or none was. What did not
    exist passes once it is removed. Not applicable where the target changed nothing that existed before: never a
    pass."""
    del parameters
    if not record.baselines:
        yield Finding(Judgement.NOT_APPLICABLE, "nothing-to-restore", {"target": record.started.target})
    for one in record.baselines:
        yield _judge(one)


def _judge(one: Baseline) -> Finding:
    what, by_hand = one.saved.what, {"by_hand": one.by_hand}
    if (wrong := unrestored(one)) is not None:
        return Finding(Judgement.FAIL, wrong.reason, {**wrong.figures, **by_hand}, what)
    if (open_ := unproved(one)) is not None:
        return Finding(Judgement.INCONCLUSIVE, open_.reason, {**open_.figures, **by_hand}, what)
    if not one.saved.existed:
        return Finding(Judgement.PASS, "baseline-removed", subject=what)
    equal = 0 if one.restored is None else len(one.restored.compared)
    return Finding(Judgement.PASS, "baseline-equal", {"n": equal}, what)
