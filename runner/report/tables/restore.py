"""`restore`: was the baseline put back? (article, section 6)."""

from collections.abc import Sequence
from dataclasses import replace

from runner.analysis.restoration import unproved, unrestored
from runner.record.parts import Compared
from runner.record.record import Baseline
from runner.report.markdown import code, escape
from runner.report.table import Source, Table, table


@table("restore")
def restore(source: Source) -> list[Table]:
    """Per thing that was saved before anything was changed: a row per fact of it: what it was before the run, what it
    was found to be after the restore, and whether the two are equal; unknown is never equal. Below: what the check
    `baseline-restored` says of it, how it was put back, each field of it that is not as it was or that somebody else
    changed meanwhile, the command that puts it back by hand where it may not be as it was, and the warnings that came
    from where the engines run. What did not exist before has no facts, and is to be removed.

    A target that starts engines of its own and changes nothing has nothing to restore: which is not a pass."""
    words = source.words
    baselines = source.record.baselines
    if not baselines:
        return [_result(source, words("baseline"), words("nothing-to-restore", target=source.record.started.target))]
    tables = [_table(source, one, several=len(baselines) > 1) for one in baselines]
    tables[-1] = replace(tables[-1], notes=[*tables[-1].notes, *_warnings(source)])
    return tables


def _table(source: Source, one: Baseline, *, several: bool) -> Table:
    words = source.words
    subject = escape(one.saved.what) if several else ""
    facts = _facts(one)
    if not facts:
        return _result(source, escape(one.saved.what), _outcome(source, one), subject, _notes(source, one))
    rows = [
        [
            escape(fact.fact),
            words("unknown") if fact.before is None else code(fact.before),
            words("unknown") if fact.after is None else code(fact.after),
            words("unknown" if fact.equal is None else "yes" if fact.equal else "no"),
        ]
        for fact in facts
    ]
    columns = [words("fact"), words("before"), words("after"), words("equal")]
    notes = [f"{code(one.saved.what)}: {_outcome(source, one)}.", *_notes(source, one)]
    return Table("restore", columns, rows, ["left"] * 4, notes, subject)


def _result(source: Source, item: str, result: str, subject: str = "", notes: Sequence[str] = ()) -> Table:
    words = source.words
    return Table("restore", [words("item"), words("result")], [[item, result]], ["left"] * 2, notes, subject)


def _facts(one: Baseline) -> list[Compared]:
    """The facts that were compared; where nothing was put back, those that were saved, with nothing after them."""
    if one.restored is not None:
        return one.restored.compared
    return [Compared(fact=name, before=value, after=None, equal=None) for name, value in one.saved.facts.items()]


def _outcome(source: Source, one: Baseline) -> str:
    """What became of it, in the words of the check."""
    words = source.words
    wrong = unrestored(one) or unproved(one)
    if wrong is not None:
        return escape(words(wrong.reason, **wrong.figures))
    if not one.saved.existed:
        return words("baseline-removed")
    return words("baseline-equal", n=len(_facts(one)))


def _notes(source: Source, one: Baseline) -> list[str]:
    words, after = source.words, one.restored
    if after is None:
        notes = [words("note-restore-meant", how=escape(one.saved.how))]
    else:
        notes = [words("note-restore-how", how=escape(after.how), seconds=source.numbers.seconds(after.seconds))]
        notes += [words("note-restore-field", field=code(field)) for field in after.differences]
    if unrestored(one) or unproved(one):
        notes.append(words("by-hand", command=code(one.by_hand)))
    return notes


def _warnings(source: Source) -> list[str]:
    return [
        source.words("note-warning", source=escape(one.source), about=code(one.about), text=escape(one.text))
        for one in source.record.warnings
    ]
