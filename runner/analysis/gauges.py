"""Gauges over the steady part of a round."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from runner.analysis.value import Absent
from runner.record.events import Sampled
from runner.record.record import Round

ENOUGH_SAMPLES = 10
"""Below this a cell says `too few samples`: a median of a handful is the luck of their moments."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A gauge over the steady samples: median, smallest, largest, and how many."""

    median: float
    low: float
    high: float
    samples: int


def steady_samples(round_: Round) -> list[Sampled]:
    """Samples between the sending of the first and of the last request. What comes later is ramp-down: the
    batch empties, and its gauges say nothing about this concurrency."""
    sent = [r.sent_ns for r in round_.of_role("excluded", "measured") if r.sent_ns is not None]
    if not sent:
        return []
    return [sample for sample in round_.samples if min(sent) <= sample.at_ns <= max(sent)]


def gauge(rounds: Sequence[Round], read: Callable[[Sampled], float | None]) -> Spread | Absent:
    """A gauge over the steady samples of a cell's rounds; each round needs enough of them."""
    values: list[float] = []
    for round_ in rounds:
        steady = steady_samples(round_)
        known = [value for sample in steady if (value := read(sample)) is not None]
        if steady and not known:
            errors = [sample.error for sample in steady if sample.error is not None]
            return Absent("scrapes-failed", {"why": errors[0]}) if errors else Absent("gauge-absent")
        if len(known) < ENOUGH_SAMPLES:
            return Absent("too-few-samples", {"n": len(known), "needed": ENOUGH_SAMPLES})
        values += known
    if not values:
        return Absent("not-measured")
    return Spread(median(values), min(values), max(values), len(values))


def observed(rounds: Sequence[Round], read: Callable[[Sampled], float | None]) -> Spread | None:
    """What the steady samples say however few they are; None without any. To be shown with that doubt beside it, and
    to decide nothing."""
    values = [value for round_ in rounds for sample in steady_samples(round_) if (value := read(sample)) is not None]
    return Spread(median(values), min(values), max(values), len(values)) if values else None


def waiting_reasons(rounds: Sequence[Round]) -> list[str]:
    """The reasons that the engine gives for waiting requests, over the steady samples, most frequent first."""
    counts: dict[str, int] = {}
    for round_ in rounds:
        for sample in steady_samples(round_):
            for reason, value in (sample.waiting_by_reason or {}).items():
                if value > 0:
                    counts[reason] = counts.get(reason, 0) + 1
    return sorted(counts, key=lambda reason: (-counts[reason], reason))
