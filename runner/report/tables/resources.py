"""`resources`: gauges while load ran (article, 7-4 and 8-5)."""

from collections.abc import Callable

from runner.analysis.cell import Cell, cells
from runner.analysis.gauges import Spread, gauge, gpu_gauge, gpu_observed, observed, waiting_reasons
from runner.analysis.value import Absent
from runner.record.events import GpuSampled, Sampled
from runner.report.markdown import escape
from runner.report.table import Source, Table, table
from runner.report.tables.rounds import cell_name


@table("resources")
def resources(source: Source) -> list[Table]:
    """Columns: condition, GPU utilization and memory, running and waiting requests, why they wait.

    From the samples between the first and the last sending: of the GPU the range, of requests the median, with the
    range where it moved. Fewer than ten samples a round is `too few samples`.
    """
    words = source.words
    rows = [
        [
            cell_name(source, cell) + " ※" * bool(cell.contaminated),
            _gpu(source, cell, lambda sample: sample.utilization, source.numbers.percent_range),
            _gpu(source, cell, lambda sample: sample.memory_mib, source.numbers.mebibytes_range),
            _gauge(source, cell, lambda sample: sample.running),
            _gauge(source, cell, lambda sample: sample.waiting),
            _reasons(source, cell),
        ]
        for cell in cells(source.record)
        if cell.rounds
    ]
    if not rows:
        return []
    columns = [
        words("condition"),
        words("gpu-utilization"),
        words("gpu-memory"),
        "running",
        "waiting",
        words("waiting-reason"),
    ]
    intervals = [
        (second.at_ns - first.at_ns) / 1e9
        for round_ in source.record.all_rounds()
        for first, second in zip(round_.samples, round_.samples[1:], strict=False)
    ]
    notes = [words("note-samples", low=round(min(intervals), 3), high=round(max(intervals), 3))] if intervals else []
    return [Table("resources", columns, rows, notes=notes)]


def waits(cell: Cell) -> bool | None:
    """Whether requests wait in this cell; None when that is not known."""
    waiting = gauge(cell.rounds, lambda sample: sample.waiting)
    return None if isinstance(waiting, Absent) else waiting.median > 0


def _reasons(source: Source, cell: Cell) -> str:
    found = waits(cell)
    if found is None:
        return "–"
    if not found:
        return source.words("none")
    reasons = waiting_reasons(cell.rounds)
    return escape(", ".join(reasons)) if reasons else source.numbers.absent(Absent("gauge-absent"))


def _gauge(source: Source, cell: Cell, read: Callable[[Sampled], float | None]) -> str:
    found = gauge(cell.rounds, read)
    few = observed(cell.rounds, read)
    return _shown(source, found, few, lambda one: source.numbers.spread(one.median, one.low, one.high))


def _gpu(
    source: Source,
    cell: Cell,
    read: Callable[[GpuSampled], float | None],
    write: Callable[[float, float], str],
) -> str:
    found = gpu_gauge(cell.rounds, read)
    return _shown(source, found, gpu_observed(cell.rounds, read), lambda one: write(one.low, one.high))


def _shown(source: Source, found: Spread | Absent, few: Spread | None, write: Callable[[Spread], str]) -> str:
    """A gauge; with too few samples what there is, and that they are too few."""
    if isinstance(found, Spread):
        return write(found)
    if found.reason != "too-few-samples" or few is None:
        return source.numbers.absent(found)
    return f"{write(few)}, {source.words(found.reason, **found.figures)}"
