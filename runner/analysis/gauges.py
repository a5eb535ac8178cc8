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
    steady = [steady_samples(round_) for round_ in rounds]
    return _over(steady, read, lambda sample: sample.error, failed="scrapes-failed", absent="gauge-absent")


def gpu_gauge(rounds: Sequence[Round], read: Callable[[GpuSampled], float | None]) -> Spread | Absent:
    """The same of the GPUs' samples; of a round whose last ones failed nothing counts: its GPUs were lost on the way,
    and what came before is not the whole of it."""
    if not any(round_.gpu_samples for round_ in rounds):
        return Absent("gpu-not-sampled")
    steady = [_steady(round_, round_.gpu_samples) for round_ in rounds]
    for samples in steady:
        if samples and read(samples[-1]) is None and (why := samples[-1].why) is not None:
            return Absent("gpu-unread", {"why": why})
    return _over(steady, read, lambda sample: sample.why, failed="gpu-unread", absent="gpu-figure-absent")


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


def _over(
    rounds: Sequence[Sequence[S]],
    read: Callable[[S], float | None],
    error: Callable[[S], str | None],
    *,
    failed: str,
    absent: str,
) -> Spread | Absent:
    """Over each round's steady samples. Where one's have no value: `failed` with their first error, else `absent`."""
    values: list[float] = []
    for steady in rounds:
        known = _known(steady, read)
        if steady and not known:
            errors = [why for sample in steady if (why := error(sample)) is not None]
            return Absent(failed, {"why": errors[0]}) if errors else Absent(absent)
        if len(known) < ENOUGH_SAMPLES:
            return Absent("too-few-samples", {"n": len(known), "needed": ENOUGH_SAMPLES})
        values += known
    return _spread(values) or Absent("not-measured")


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
