"""`saturation`: the knee and the first grid point beyond it (article, 9-2)."""

from runner.analysis.cell import cell
from runner.analysis.knee import Knee, knee
from runner.analysis.value import Absent, ratio
from runner.plan.model import Arm
from runner.report.client_times import timed, timed_latency
from runner.report.table import Source, Table, table
from runner.report.tables.rounds import marks


@table("saturation")
def saturation(source: Source) -> list[Table]:
    """Two tables, `saturation` and `saturation-change`: condition, concurrency, throughput, mean latency at the knee
    and beyond; then the change of throughput (beyond ÷ knee − 1) and of latency (beyond ÷ knee). The knee is found
    per condition."""
    words, numbers = source.words, source.numbers
    found = [(arm, knee(source.record, arm.id)) for arm in source.record.plan.arms]
    known = [(arm, one) for arm, one in found if isinstance(one, Knee)]
    notes = [_note(source, arm, one) for arm, one in found]
    if not known:
        return []
    rows = []
    for arm, one in known:
        for level in (one.concurrency, one.beyond):
            own = cell(source.record, arm.id, level)
            rows.append(
                [
                    source.label(arm.id),
                    str(level) + marks(own),
                    timed(numbers.rate(own.throughput), own),
                    timed_latency(numbers.seconds(own.mean_latency), own),
                ]
            )
    values = Table(
        "saturation",
        [words("condition"), words("concurrency"), words("throughput"), words("mean-latency")],
        rows,
        notes=notes,
    )
    changes = Table(
        "saturation-change",
        [words("change"), *(source.label(arm.id) for arm, _ in known)],
        [
            [words("throughput"), *(_gain(source, arm, one) for arm, one in known)],
            [words("mean-latency"), *(_slowdown(source, arm, one) for arm, one in known)],
        ],
    )
    return [values, changes]


def _gain(source: Source, arm: Arm, one: Knee) -> str:
    here, beyond = (cell(source.record, arm.id, level) for level in (one.concurrency, one.beyond))
    grown = ratio(beyond.throughput, here.throughput)
    return timed(source.numbers.change(grown if isinstance(grown, Absent) else grown - 1), here)


def _slowdown(source: Source, arm: Arm, one: Knee) -> str:
    here, beyond = (cell(source.record, arm.id, level) for level in (one.concurrency, one.beyond))
    return timed_latency(source.numbers.ratio(ratio(beyond.mean_latency, here.mean_latency)), here)


def _note(source: Source, arm: Arm, one: Knee | Absent) -> str:
    label = source.named(arm.id)
    if isinstance(one, Absent):
        return source.words("note-no-knee", label=label, why=source.words(one.reason, **one.figures))
    return source.words("note-knee", label=label, knee=one.concurrency, beyond=one.beyond, gain=_gain(source, arm, one))
