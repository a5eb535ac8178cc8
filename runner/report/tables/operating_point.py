"""`operating-point`: where to run (article, 9-4)."""

from runner.analysis.cell import cell, concurrencies
from runner.analysis.comparison import comparison
from runner.analysis.gauges import Spread, gauge
from runner.analysis.knee import Knee, knee
from runner.plan.model import Arm
from runner.report.client_times import timed
from runner.report.table import Source, Table, table
from runner.report.tables.summary import doubt


@table("operating-point")
def operating_point(source: Source) -> list[Table]:
    """Per condition: a row per concurrency above 1: throughput of the baseline and of this condition in requests a
    second, its mean latency, its waiting requests (median of the steady samples). The operating point, in bold, is
    this condition's knee: the highest concurrency whose gain over the one before is above 10 % and that leaves no
    queue."""
    others = source.record.plan.others
    tables = [_table(source, arm, several=len(others) > 1) for arm in others]
    return [one for one in tables if one.rows]


def _table(source: Source, arm: Arm, *, several: bool) -> Table:
    words, numbers = source.words, source.numbers
    found = knee(source.record, arm.id)
    base, label = source.label(source.record.plan.baseline), source.label(arm.id)
    rows = []
    for level in sorted(concurrencies(source.record)):
        one, other = cell(source.record, source.record.plan.baseline, level), cell(source.record, arm.id, level)
        if level == 1 or not one.rounds or not other.rounds:
            continue
        here = isinstance(found, Knee) and found.concurrency == level
        waiting = gauge(other.rounds, lambda sample: sample.waiting)
        rows.append(
            [
                (f"**{level}**" if here else str(level)) + doubt(comparison(source.record, arm.id, level)),
                timed(numbers.plain(one.throughput, 3), one),
                timed(numbers.plain(other.throughput, 3), other),
                numbers.seconds(other.mean_latency),
                numbers.spread(waiting.median, waiting.low, waiting.high)
                if isinstance(waiting, Spread)
                else numbers.absent(waiting),
            ]
        )
    if isinstance(found, Knee):
        best = cell(source.record, arm.id, found.concurrency)
        rate = timed(numbers.rate(best.throughput), best)
        note = words("note-operating-point", label=label, level=found.concurrency, rate=rate)
    else:
        note = words("note-no-knee", label=source.named(arm.id), why=words(found.reason, **found.figures))
    columns = [
        words("concurrency"),
        words("throughput-of", label=base),
        words("throughput-of", label=label),
        words("latency-of", label=label),
        words("queue"),
    ]
    return Table("operating-point", columns, rows, notes=[note], subject=label if several else "")
