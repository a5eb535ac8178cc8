"""Does the speed-up change from one concurrency to the next, beyond the rounds' own spread? (article, 8-3, 9-3)."""

from collections.abc import Sequence
from typing import Literal

from runner.analysis.comparison import Comparison
from runner.analysis.throughput import throughput
from runner.analysis.value import Absent, Value, ratio

Step = Literal["falls", "rises", "overlaps"]


def round_ratios(pair: Comparison) -> list[Value]:
    """Throughput of the other's i-th round ÷ the baseline's i-th, as many as both have. Rounds are paired by their
    number only: no round of one arm belongs to one of the other."""
    if pair.void is not None:
        return [pair.void]
    return [
        ratio(throughput(other), throughput(base))
        for base, other in zip(pair.base.rounds, pair.other.rounds, strict=False)
    ]


def step(earlier: Sequence[Value], later: Sequence[Value]) -> Step | Absent:
    """How the second group of ratios lies to the first: wholly below, wholly above, or overlapping. Absent with
    fewer than two a side: one round has no spread."""
    one, two = _known(earlier), _known(later)
    if isinstance(one, Absent):
        return one
    if isinstance(two, Absent):
        return two
    if min(len(one), len(two)) < 2:
        return Absent("one-round", {"n": min(len(one), len(two))})
    if max(two) < min(one):
        return "falls"
    return "rises" if min(two) > max(one) else "overlaps"


def _known(values: Sequence[Value]) -> list[float] | Absent:
    found: list[float] = []
    for value in values:
        if isinstance(value, Absent):
            return value
        found.append(value)
    return found
