"""What a condition costs in GPU memory per running request (article, 8-5)."""

from runner.analysis.cell import Cell
from runner.analysis.gauges import gauge, gpu_gauge
from runner.analysis.value import Absent, Value, combine, ratio


def gpu_memory_mib(cell: Cell) -> Value:
    """Median of the steady samples, in MiB, summed over the engine's GPUs; absent where no GPU is sampled."""
    found = gpu_gauge(cell.rounds, lambda sample: sample.memory_mib)
    return found if isinstance(found, Absent) else found.median


def running_requests(cell: Cell) -> Value:
    """Median of the steady samples."""
    found = gauge(cell.rounds, lambda sample: sample.running)
    return found if isinstance(found, Absent) else found.median


def memory_per_running(base: Cell, other: Cell) -> Value:
    """(memory of the other − memory of the baseline) ÷ the other's running requests, in MiB."""
    more = combine(lambda one, two: two - one, gpu_memory_mib(base), gpu_memory_mib(other))
    return ratio(more, running_requests(other))
