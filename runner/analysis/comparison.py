"""A condition against the baseline, at one concurrency."""

from collections.abc import Callable
from dataclasses import dataclass

from runner.analysis.cell import Cell, cell
from runner.analysis.latency import latencies_by_body, mean_latency
from runner.analysis.throughput import throughput
from runner.analysis.value import Absent, Value, ratio
from runner.record.record import Record


@dataclass(frozen=True)
class Comparison:
    """Two cells at one concurrency."""

    base: Cell
    other: Cell

    @property
    def void(self) -> Absent | None:
        """Why the two must not be compared."""
        return self.base.incomplete or self.other.incomplete

    @property
    def throughput_ratio(self) -> Value:
        """Mean throughput of the other ÷ the baseline's: above 1 is faster."""
        return self.void or ratio(self.other.throughput, self.base.throughput)

    @property
    def latency_ratio(self) -> Value:
        """Mean latency of the baseline ÷ the other's: above 1 is faster."""
        return self.void or ratio(self.base.mean_latency, self.other.mean_latency)

    @property
    def speedup(self) -> Value:
        """What the summary prints: the throughput ratio, at concurrency 1 the latency ratio (article, section 4-3: the
        sequential requests are timed one by one, and a client's pauses between them are not the engine's)."""
        return self.latency_ratio if self.base.concurrency == 1 else self.throughput_ratio

    def lowest_ratio(self, metric: str) -> Value:
        """The smallest speed-up that any pair of samples shows: the other's worst against the baseline's best.

        Samples are single requests of one prompt at concurrency 1, and rounds above. Above 1 means that the two
        ranges do not overlap. Absent with fewer than two samples a side: one sample has no range.
        """
        return self._extreme(metric, min, lambda base, other: min(other) / max(base))

    def highest_ratio(self, metric: str) -> Value:
        """The largest speed-up that any pair of samples shows; below 1 the other is slower beyond any overlap."""
        return self._extreme(metric, max, lambda base, other: max(other) / min(base))

    def _extreme(
        self, metric: str, over: Callable[[list[float]], float], pick: Callable[[list[float], list[float]], float]
    ) -> Value:
        if self.void is not None:
            return self.void
        base, other = _samples(self.base, metric), _samples(self.other, metric)
        if isinstance(base, Absent):
            return base
        if isinstance(other, Absent):
            return other
        ratios = []
        for prompt in base:
            fewest = min(len(base[prompt]), len(other.get(prompt, ())))
            if fewest < 2:
                return Absent("one-round", {"n": fewest})
            ratios.append(pick(base[prompt], other[prompt]))
        return over(ratios) if ratios else Absent("not-measured")


def comparison(record: Record, arm: str, concurrency: int, base: str | None = None) -> Comparison:
    """The arm against `base`, the plan's baseline unless another is named."""
    return Comparison(cell(record, base or record.plan.baseline, concurrency), cell(record, arm, concurrency))


def _samples(one: Cell, metric: str) -> dict[str, list[float]] | Absent:
    """Speeds (larger is faster) of a cell, one per sample, by prompt at concurrency 1."""
    if one.concurrency == 1 and one.client_limit is not None:
        return one.client_limit
    speeds: dict[str, list[float]] = {}
    for round_ in one.rounds:
        if one.concurrency == 1:
            for body, times in latencies_by_body(round_).items():
                prompt = one.record.bodies[body].prompt
                speeds.setdefault(prompt, []).extend(1 / seconds for seconds in times if seconds > 0)
            continue
        value = throughput(round_) if metric == "throughput" else ratio(1.0, mean_latency(round_, one.phase))
        if isinstance(value, Absent):
            return value
        speeds.setdefault("", []).append(value)
    return speeds
