"""Does the speed-up change from one concurrency to the next, beyond the rounds' own spread? (article, 8-3, 9-3)."""

import itertools
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Literal

from runner.analysis.comparison import Comparison
from runner.analysis.separation import same_batch, workload
from runner.analysis.throughput import throughput
from runner.analysis.value import Absent, Value, ratio
from runner.record.record import Record

Step = Literal["falls", "rises", "overlaps", "within-noise", "same-batch"]


def round_ratios(pair: Comparison) -> list[Value]:
    """Throughput of the other's i-th round ÷ the baseline's i-th, as many as both have. Rounds are paired by their
    number only: no round of one arm belongs to one of the other."""
    if pair.void is not None:
        return [pair.void]
    return [
        ratio(throughput(other), throughput(base))
        for base, other in zip(pair.base.rounds, pair.other.rounds, strict=False)
    ]


def steps(record: Record, arm: str, ratios: Mapping[int, Sequence[Value]]) -> dict[tuple[int, int], Step | Absent]:
    """How the round ratios change from each concurrency to the next.

    `falls`, `rises`: the ranges are apart, and their means by more than the noise; `within-noise`: apart, but by no
    more than the ratios of one and the same batch differ among themselves; `same-batch`: apart although the same
    batch runs at both, which is that noise; `overlaps`. Absent with fewer than two rounds a side.
    """
    found: dict[tuple[int, int], Step | Absent] = {}
    for low, high in itertools.pairwise(sorted(ratios)):
        if workload(record, low) != workload(record, high):
            found[low, high] = Absent("phases-differ")
            continue
        full = [one for one in same_batch(record, (record.plan.baseline, arm), max(ratios)) if one in ratios]
        noise = _range([value for level in full for value in ratios[level]])
        found[low, high] = _step(ratios[low], ratios[high], noise, same=low in full and high in full)
    return found


def _step(earlier: Sequence[Value], later: Sequence[Value], noise: float, *, same: bool) -> Step | Absent:
    one, two = _known(earlier), _known(later)
    if isinstance(one, Absent):
        return one
    if isinstance(two, Absent):
        return two
    if min(len(one), len(two)) < 2:
        return Absent("one-round", {"n": min(len(one), len(two))})
    if max(two) >= min(one) and min(two) <= max(one):
        return "overlaps"
    if same:
        return "same-batch"
    if abs(fmean(two) - fmean(one)) <= noise:
        return "within-noise"
    return "falls" if fmean(two) < fmean(one) else "rises"


def _range(values: Sequence[Value]) -> float:
    known = _known(values)
    return 0.0 if isinstance(known, Absent) or not known else max(known) - min(known)


def _known(values: Sequence[Value]) -> list[float] | Absent:
    found: list[float] = []
    for value in values:
        if isinstance(value, Absent):
            return value
        found.append(value)
    return found
