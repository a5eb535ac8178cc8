"""The requests at concurrency 1, whose single times mean something (article, 4-3)."""

from collections.abc import Callable, Sequence

from runner.analysis.cell import Cell, cells
from runner.analysis.value import Absent, Value
from runner.record.record import Record


def sequential_cells(record: Record) -> tuple[Cell, list[Cell]] | None:
    """The baseline's cell at concurrency 1, and the others'; None where nothing was timed there."""
    own = [cell for cell in cells(record) if cell.concurrency == 1]
    if not any(cell.latencies for cell in own):
        return None
    base = next(cell for cell in own if cell.arm.id == record.plan.baseline)
    return base, [cell for cell in own if cell is not base]


def statistic(cell: Cell, function: Callable[[Sequence[float]], float]) -> Value:
    """`function` of the client's latencies in seconds; absent for an incomplete cell."""
    return cell.incomplete or (function(cell.latencies) if cell.latencies else Absent("no-ok-requests"))
