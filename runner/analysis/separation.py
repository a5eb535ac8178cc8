"""Is an effect told from the rounds' own spread? (article, 8-3 and 9-3)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from runner.analysis.cell import concurrencies
from runner.analysis.comparison import comparison
from runner.analysis.value import Absent
from runner.engine.batch import BATCH_LIMIT
from runner.record.record import Record


@dataclass(frozen=True, slots=True)
class Separation:
    """`faster`: the worst pair of samples is above the bound; `slower`: the best pair is below it; `overlaps`: neither.

    `unconfirmed`: concurrencies at which the same batch runs and which do not say the same; with any of them the
    verdict is `overlaps`, for an effect that the same batch does not show again is the host's noise.
    """

    verdict: Literal["faster", "slower", "overlaps"]
    unconfirmed: tuple[int, ...] = ()


def separation(
    record: Record, arm: str, level: int, metric: str = "throughput", bound: float = 1.0
) -> Separation | Absent:
    """Whether the ranges of the arm and of the baseline are apart, at this concurrency and at every other one that
    runs the same batch: those at or above both arms' `max-num-seqs`. Absent where this one cannot be judged."""
    own = _own(record, arm, level, metric, bound)
    if isinstance(own, Absent) or own == "overlaps":
        return own if isinstance(own, Absent) else Separation("overlaps")
    full = same_batch(record, arm, concurrencies(record))
    others = [other for other in full if other != level] if level in full else []
    unconfirmed = tuple(other for other in others if _own(record, arm, other, metric, bound) != own)
    return Separation("overlaps", unconfirmed) if unconfirmed else Separation(own)


def _own(
    record: Record, arm: str, level: int, metric: str, bound: float
) -> Literal["faster", "slower", "overlaps"] | Absent:
    pair = comparison(record, arm, level)
    lowest, highest = pair.lowest_ratio(metric), pair.highest_ratio(metric)
    if isinstance(lowest, Absent):
        return lowest
    if isinstance(highest, Absent):
        return highest
    if lowest > bound:
        return "faster"
    return "slower" if highest < bound else "overlaps"


def same_batch(record: Record, arm: str, levels: Iterable[int]) -> list[int]:
    """Those concurrencies that fill one and the same batch in both arms: at or above both arms' `max-num-seqs`. None
    where that limit is not an argument of both."""
    limits = [record.plan.arm(one).argument(BATCH_LIMIT) for one in (record.plan.baseline, arm)]
    if any(isinstance(limit, bool) or not isinstance(limit, int) for limit in limits):
        return []
    return [level for level in levels if level >= max(limits)]
