"""Quantiles of times that are only known between bounds, over all requests of a cell together."""

from collections.abc import Sequence

from runner.analysis.interval import Interval, Intervals
from runner.analysis.value import Absent

PERCENTILES = (50, 90, 99)
NEEDED = {50: 1, 90: 10, 99: 100}
"""How many values a percentile needs: with fewer, p90 and p99 are the maximum under another name."""
CARRIED = 0.05
"""A clock carries a quantile whose bounds are this near to it."""
FLOOR = 20e-6
"""Or this near, in seconds: an error below it is that of the stamps themselves, whatever the clock."""


def quantile(ordered: Sequence[float], percent: float) -> float:
    """The quantile of sorted values: linear between the two nearest ranks, (n − 1) × p from the smallest one.

    Raises IndexError without any value.
    """
    rank = (len(ordered) - 1) * percent / 100
    below = int(rank)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (rank - below)


def percentiles(pool: Intervals, *, bounded: bool = True) -> dict[int, Interval | Absent]:
    """The percentiles of a pool of values: each of the values themselves, between the same percentile of their lower
    and of their upper bounds.

    Absent where the values are too few, and where the clock cannot carry it: the bounds are not within 5 % (or 20 µs).
    `bounded`: whether the bounds are known; where they are not, nothing is said of what the clock carries.
    """
    lows, values, highs = sorted(pool.lows), sorted(pool.values), sorted(pool.highs)
    found: dict[int, Interval | Absent] = {}
    for percent in PERCENTILES:
        if len(pool) < NEEDED[percent]:
            found[percent] = Absent("too-few-values", {"n": len(pool), "needed": NEEDED[percent]})
            continue
        one = Interval(*(quantile(ordered, percent) for ordered in (lows, values, highs)))
        found[percent] = one if carried(one) or not bounded else _not_carried(one)
    return found


def carried(one: Interval) -> bool:
    """Whether the bounds are near enough to the value for it to be printed."""
    allowed = max(CARRIED * one.value, FLOOR)
    return one.value - one.low <= allowed and one.high - one.value <= allowed


def _not_carried(one: Interval) -> Absent:
    return Absent("clock-cannot-carry", {"low": one.low, "high": one.high})
