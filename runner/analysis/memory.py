"""What a condition costs in GPU memory per running request (article, 8-5)."""

from collections.abc import Callable

from runner.analysis.cell import Cell
from runner.analysis.gauges import gauge
from runner.analysis.value import Absent, Value, combine, ratio
from runner.record.events import Sampled


def gpu_memory_mib(cell: Cell) -> Value:
    """Median of the steady samples, in MiB; absent where no GPU is sampled."""
    if not any(sample.gpu_memory_mib is not None for round_ in cell.rounds for sample in round_.samples):
        return Absent("gpu-not-sampled")
    return _median(cell, lambda sample: sample.gpu_memory_mib)


def running_requests(cell: Cell) -> Value:
    """Median of the steady samples."""
    return _median(cell, lambda sample: sample.running)


def memory_per_running(base: Cell, other: Cell) -> Value:
    """(memory of the other − memory of the baseline) ÷ the other's running requests, in MiB."""
    more = combine(lambda one, two: two - one, gpu_memory_mib(base), gpu_memory_mib(other))
    return ratio(more, running_requests(other))


def _median(cell: Cell, read: Callable[[Sampled], float | None]) -> Value:
    found = gauge(cell.rounds, read)
    return found if isinstance(found, Absent) else found.median
