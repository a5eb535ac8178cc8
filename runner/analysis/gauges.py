"""Gauges over the steady part of a round."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

from runner.analysis.value import Absent
from runner.record.events import GpuSampled, Sampled
from runner.record.record import Round

ENOUGH_SAMPLES = 10
"""Below this a cell says `too few samples`: a median of a handful is the luck of their moments."""


S = TypeVar("S", Sampled, GpuSampled)


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
    return _steady(round_, round_.samples)


def gauge(rounds: Sequence[Round], read: Callable[[Sampled], float | None]) -> Spread | Absent:
    """A gauge over the steady samples of a cell's rounds; each round needs enough of them."""
    values: list[float] = []
    for round_ in rounds:
        steady = steady_samples(round_)
        errors = [sample.error for sample in steady if sample.error is not None]
        nothing = Absent("scrapes-failed", {"why": errors[0]}) if errors else Absent("gauge-absent")
        known = _enough(steady, read, nothing)
        if isinstance(known, Absent):
            return known
        values += known
    return _spread(values) or Absent("not-measured")


def gpu_gauge(rounds: Sequence[Round], read: Callable[[GpuSampled], float | None]) -> Spread | Absent:
    """The same of the GPUs' samples."""
    values: list[float] = []
    if not any(round_.gpu_samples for round_ in rounds):
        return Absent("gpu-not-sampled")
    for round_ in rounds:
        steady = _steady(round_, round_.gpu_samples)
        errors = [sample.why for sample in steady if sample.why is not None]
        nothing = Absent("gpu-unread", {"why": errors[0]}) if errors else Absent("gpu-figure-absent")
        known = _enough(steady, read, nothing)
        if isinstance(known, Absent):
            return known
        values += known
    return _spread(values) or Absent("not-measured")


def observed(rounds: Sequence[Round], read: Callable[[Sampled], float | None]) -> Spread | None:
    """What the steady samples say however few they are; None without any. To be shown with that doubt beside it, and
    to decide nothing."""
    return _spread(_known([sample for round_ in rounds for sample in steady_samples(round_)], read))


def gpu_observed(rounds: Sequence[Round], read: Callable[[GpuSampled], float | None]) -> Spread | None:
    """The same of the GPUs' samples."""
    return _spread(_known([sample for round_ in rounds for sample in _steady(round_, round_.gpu_samples)], read))


def _steady(round_: Round, samples: Sequence[S]) -> list[S]:
    sent = [r.sent_ns for r in round_.of_role("excluded", "measured") if r.sent_ns is not None]
    if not sent:
        return []
    return [sample for sample in samples if min(sent) <= sample.at_ns <= max(sent)]


def _enough(steady: Sequence[S], read: Callable[[S], float | None], nothing: Absent) -> list[float] | Absent:
    """The values of one round's steady samples; `nothing` where they have none."""
    known = _known(steady, read)
    if steady and not known:
        return nothing
    if len(known) < ENOUGH_SAMPLES:
        return Absent("too-few-samples", {"n": len(known), "needed": ENOUGH_SAMPLES})
    return known


def _known(samples: Sequence[S], read: Callable[[S], float | None]) -> list[float]:
    return [value for sample in samples if (value := read(sample)) is not None]


def _spread(values: Sequence[float]) -> Spread | None:
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
