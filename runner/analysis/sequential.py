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


def mean_seconds(cell: Cell) -> Value:
    """Mean latency in seconds, as everywhere: of the rounds' means, each of its prompts' means."""
    return cell.incomplete or (cell.mean_latency if cell.latencies else Absent("no-ok-requests"))


def statistic(cell: Cell, function: Callable[[Sequence[float]], float]) -> Value:
    """`function` of the client's single latencies in seconds; absent for an incomplete cell, where the client was the
    limit, and where several prompts are mixed: a median or an extreme of a mix says nothing about any of them."""
    void = cell.incomplete or cell.client_limit
    if void is not None:
        return void
    if len(cell.phase.prompts) > 1:
        return Absent("several-prompts")
    return function(cell.latencies) if cell.latencies else Absent("no-ok-requests")
