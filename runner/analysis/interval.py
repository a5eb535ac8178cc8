"""A time that was measured, and between which bounds it truly lies."""

from typing import NamedTuple


class Interval(NamedTuple):
    """Seconds: what the stamps say, and the least and the most that it can have been."""

    low: float
    value: float
    high: float
