"""`speedup-rounds`: the ratio round by round, and whether it changes (article, 8-3 and 9-3)."""

from runner.analysis.cell import concurrencies
from runner.analysis.comparison import comparison
from runner.analysis.trend import round_ratios, steps
from runner.analysis.value import Absent
from runner.plan.model import Arm
from runner.report.client_times import timed
from runner.report.table import Source, Table, table
from runner.report.tables.summary import doubt


@table("speedup-rounds")
def speedup_rounds(source: Source) -> list[Table]:
    """Per condition: a row per concurrency above 1, a column per round: throughput of the round ÷ the baseline's
    round of the same number. Below, from one concurrency to the next: whether the ratios overlap; where they do not,
    whether their means differ by more than the ratios of one and the same batch do (at or above max-num-seqs), and
    whether both are of that batch, when the difference is the host's noise."""
    others = source.record.plan.others
    tables = [_table(source, arm, several=len(others) > 1) for arm in others]
    return [one for one in tables if one.rows]


def _table(source: Source, arm: Arm, *, several: bool) -> Table:
    words, numbers = source.words, source.numbers
    levels = [level for level in sorted(concurrencies(source.record)) if level > 1]
    pairs = {level: comparison(source.record, arm.id, level) for level in levels}
    found = {level: round_ratios(pair) for level, pair in pairs.items() if pair.base.rounds and pair.other.rounds}
    width = max((len(values) for values in found.values()), default=0)
    rows = [
        [
            str(level) + doubt(pairs[level]),
            *(timed(numbers.ratio(value, 3), pairs[level].base, pairs[level].other) for value in values),
            *[""] * (width - len(values)),
        ]
        for level, values in found.items()
    ]
    notes = []
    for (low, high), how in steps(source.record, arm.id, found).items():
        if isinstance(how, Absent):
            notes.append(words("note-step-unknown", low=low, high=high, why=words(how.reason, **how.figures)))
        else:
            notes.append(words(f"note-step-{how}", low=low, high=high))
    columns = [words("concurrency"), *(words("round-number", n=n) for n in range(1, width + 1))]
    return Table("speedup-rounds", columns, rows, notes=notes, subject=source.label(arm.id) if several else "")
