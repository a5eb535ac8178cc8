"""Is an effect told from the rounds' own spread? (article, 8-3 and 9-3)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from runner.analysis.cell import concurrencies
from runner.analysis.comparison import comparison
from runner.analysis.value import Absent
from runner.engine.batch import BATCH_LIMIT
from runner.plan.model import PlannedPhase
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
    record: Record,
    arm: str,
    level: int,
    metric: str = "throughput",
    bound: float = 1.0,
    base: str | None = None,
) -> Separation | Absent:
    """Whether the ranges of the arm and of `base` (the baseline) are apart, at this concurrency and at every other
    one that runs the same batch. Absent where this one cannot be judged, and where it is apart and another one, which
    would have to confirm it, cannot be judged."""
    base = record.plan.baseline if base is None else base
    own = _own(record, arm, level, metric, bound, base)
    if isinstance(own, Absent) or own == "overlaps":
        return own if isinstance(own, Absent) else Separation("overlaps")
    others = {
        other: _own(record, arm, other, metric, bound, base)
        for other in same_batch(record, (base, arm), level)
        if other != level
    }
    unconfirmed = tuple(other for other, how in others.items() if not isinstance(how, Absent) and how != own)
    if unconfirmed:
        return Separation("overlaps", unconfirmed)
    unknown = [other for other, how in others.items() if isinstance(how, Absent)]
    if unknown:
        return Absent("same-batch-unknown", {"levels": ", ".join(f"C={other}" for other in unknown)})
    return Separation(own)


def same_batch(record: Record, arms: Iterable[str], level: int) -> list[int]:
    """The concurrencies that fill one and the same batch as this one in all of the arms, itself included: at or above
    every arm's `max-num-seqs`, with the same prompts. None where that limit is not an argument of all of them, or
    this concurrency does not reach it."""
    limits = [record.plan.arm(one).argument(BATCH_LIMIT) for one in arms]
    if any(isinstance(limit, bool) or not isinstance(limit, int) for limit in limits):
        return []
    full = max(limits)
    load = workload(record, level)
    found = [other for other in concurrencies(record) if other >= full and workload(record, other) == load]
    return found if level in found else []


def workload(record: Record, level: int) -> tuple[tuple[str, ...], bool]:
    """What a concurrency's phase sends: its prompts, and whether it streams. Others' rounds say nothing about it."""
    phase: PlannedPhase = next(phase for phase, other in record.plan.grid if other == level)
    return tuple(phase.prompts), phase.stream


def _own(
    record: Record, arm: str, level: int, metric: str, bound: float, base: str
) -> Literal["faster", "slower", "overlaps"] | Absent:
    pair = comparison(record, arm, level, base)
    lowest, highest = pair.lowest_ratio(metric), pair.highest_ratio(metric)
    if isinstance(lowest, Absent):
        return lowest
    if isinstance(highest, Absent):
        return highest
    if lowest > bound:
        return "faster"
    return "slower" if highest < bound else "overlaps"
