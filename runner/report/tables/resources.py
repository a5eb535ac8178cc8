"""`resources`: gauges while load ran (article, 7-4 and 8-5)."""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from runner.analysis.cell import Cell, cells
from runner.analysis.gauges import Spread, gauge, gpu_gauge, gpu_observed, observed, waiting_reasons
from runner.analysis.neighbours import neighbours
from runner.analysis.value import Absent
from runner.record.events import GpuSampled, Sampled
from runner.record.parts import OtherProcess
from runner.report.markdown import escape
from runner.report.table import Source, Table, table
from runner.report.tables.rounds import cell_name


@table("resources")
def resources(source: Source) -> list[Table]:
    """Columns: condition, GPU utilization and memory, running and waiting requests, why they wait.

    From the samples between the first and the last sending: of the GPU the range, of requests the median, with the
    range where it moved. Fewer than ten samples a round is `too few samples`. Of several GPUs memory is the sum and
    utilization the mean. A cell with other processes on its GPUs is marked †.
    """
    words = source.words
    shown = [cell for cell in cells(source.record) if cell.rounds]
    rows = [
        [
            cell_name(source, cell) + " ※" * bool(cell.contaminated) + shared_mark(cell),
            _gpu(source, cell, lambda sample: sample.utilization, source.numbers.percent_range),
            _gpu(source, cell, lambda sample: sample.memory_mib, source.numbers.mebibytes_range),
            _gauge(source, cell, lambda sample: sample.running),
            _gauge(source, cell, lambda sample: sample.waiting),
            _reasons(source, cell),
        ]
        for cell in shown
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
    rounds = list(source.record.all_rounds())
    notes = [
        *_intervals(source, "note-samples", [[sample.at_ns for sample in round_.samples] for round_ in rounds]),
        *_intervals(source, "note-gpu-samples", [[sample.at_ns for sample in round_.gpu_samples] for round_ in rounds]),
        *_which_gpus(source),
        *shared_notes(source, shown),
        *_unknown_notes(source, shown),
    ]
    return [Table("resources", columns, rows, notes=notes)]


def shared_mark(*of: Cell) -> str:
    """† where strange processes were on the GPUs of any of these cells."""
    return " †" * any(sampled(cell) and neighbours(cell).found for cell in of)


def shared_notes(source: Source, shown: Iterable[Cell]) -> list[str]:
    """The strangers of each marked cell."""
    return [
        source.words(
            "note-gpu-shared",
            cell=f"{source.label(cell.arm.id)} C={cell.concurrency}",
            processes=", ".join(_process(source, one) for one in neighbours(cell).found),
        )
        for cell in shown
        if shared_mark(cell)
    ]


def _unknown_notes(source: Source, shown: Iterable[Cell]) -> list[str]:
    """Whose GPUs may have had strangers on them that were not seen; once a reason."""
    unknown: dict[str, list[str]] = {}
    for cell in shown:
        why = neighbours(cell).unknown
        if why is not None and sampled(cell):
            labels = unknown.setdefault(escape(source.words(why.reason, **why.figures)), [])
            if source.label(cell.arm.id) not in labels:
                labels.append(source.label(cell.arm.id))
    return [source.words("note-gpu-others", labels=", ".join(labels), why=why) for why, labels in unknown.items()]


def sampled(cell: Cell) -> bool:
    """Whether the cell has samples of a GPU."""
    return any(round_.gpu_samples for round_ in cell.rounds)


def _process(source: Source, one: OtherProcess) -> str:
    words = source.words
    name = words("gpu-process-unnamed") if one.name is None else escape(one.name)
    unknown = words("gpu-process-memory-unknown")
    memory = unknown if one.memory_mib is None else source.numbers.mebibytes(one.memory_mib)
    if one.pid is None:
        return words("gpu-tenant", gpu=one.gpu, name=name, memory=memory)
    return words("gpu-process", pid=one.pid, gpu=one.gpu, name=name, memory=memory)


def _which_gpus(source: Source) -> list[str]:
    """What the figures are of, where that is not one GPU beyond doubt."""
    words, notes = source.words, []
    for engine in source.record.engines:
        if engine.gpus is None:
            continue
        label = source.label(engine.arm)
        if len(engine.gpus.gpus) > 1:
            notes.append(words("note-gpus-several", label=label, n=len(engine.gpus.gpus)))
        if engine.gpus.doubt is not None:
            notes.append(words("note-gpu-doubt", label=label, why=escape(engine.gpus.doubt)))
    return list(dict.fromkeys(notes))


def _intervals(source: Source, note: str, stamps: Sequence[Sequence[int]]) -> list[str]:
    """How far samples were apart, in seconds."""
    apart = [(second - first) / 1e9 for of_round in stamps for first, second in pairwise(of_round)]
    return [source.words(note, low=round(min(apart), 3), high=round(max(apart), 3))] if apart else []


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
