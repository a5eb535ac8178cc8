"""A cell's latency metrics: quantiles over its ok measured requests."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from runner.analysis.cell import Cell
from runner.analysis.chunk_gap import chunk_gap
from runner.analysis.e2e_latency import e2e_latency
from runner.analysis.interval import Interval, Intervals, joined
from runner.analysis.itl import itl
from runner.analysis.quantile import percentiles
from runner.analysis.stamps import ClockError, clock_error
from runner.analysis.tpot import tpot
from runner.analysis.ttft import ttft
from runner.analysis.value import Absent
from runner.record.events import RequestDone

Metric = Callable[[RequestDone, ClockError], Intervals | Absent]
"""The values of one request, in seconds, each between its bounds; none where it has none to give."""

OF_TOKENS: Final[Mapping[str, Metric]] = {"ttft": ttft, "tpot": tpot, "itl": itl, "chunk-gap": chunk_gap}
"""What only a stream tells."""
METRICS: Final[Mapping[str, Metric]] = {**OF_TOKENS, "e2e-latency": e2e_latency}


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Percentiles of one metric in seconds, over `n` values. `bounded`: whether the clock's error is known."""

    n: int
    percentiles: Mapping[int, Interval | Absent]
    bounded: bool


def quantiles(cell: Cell, metric: str) -> Quantiles | Absent:
    """One metric over the ok measured requests of all rounds of a cell, pooled: a mean of the rounds' quantiles would
    be no quantile.

    Absent where the cell is incomplete, where the client was the limit, where nothing was streamed, and where one of
    the requests does not tell: a quantile of the others would be another figure. Of a clock whose error is not known
    (records of runners before 0.2) the end-to-end latency is given, and nothing of tokens.
    """
    if metric in OF_TOKENS and not cell.phase.stream:
        return Absent("not-streamed")
    void = cell.incomplete or cell.client_limit
    if void is not None:
        return void
    parts: list[Intervals] = []
    bounded = True
    for round_ in cell.rounds:
        for request in round_.ok:
            error = clock_error(round_, request)
            if error is None and metric in OF_TOKENS:
                return Absent("clock-unknown")
            bounded = bounded and error is not None
            values = METRICS[metric](request, error or ClockError())
            if isinstance(values, Absent):
                return values
            parts.append(values)
    pool = joined(parts)
    return Quantiles(len(pool), percentiles(pool, bounded=bounded), bounded) if pool else Absent("nothing-to-time")
