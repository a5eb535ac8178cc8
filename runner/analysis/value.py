"""A figure, or the reason why there is none. Absent is never zero."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from statistics import fmean


@dataclass(frozen=True, slots=True)
class Absent:
    """Why a figure does not exist. `reason` is a key of the report's words, `figures` fill its gaps."""

    reason: str
    figures: dict[str, str | float] = field(default_factory=dict)


Value = float | Absent


def mean(values: Iterable[Value]) -> Value:
    """The arithmetic mean; absent as soon as one value is, for a mean over what is left would be another figure."""
    known: list[float] = []
    for value in values:
        if isinstance(value, Absent):
            return value
        known.append(value)
    return fmean(known) if known else Absent("not-measured")


def combine(function: Callable[[float, float], float], first: Value, second: Value) -> Value:
    """`function` of two figures; absent when one is, or when it divides by zero."""
    if isinstance(first, Absent):
        return first
    if isinstance(second, Absent):
        return second
    try:
        return function(first, second)
    except ZeroDivisionError:
        return Absent("division-by-zero")


def ratio(numerator: Value, denominator: Value) -> Value:
    """numerator ÷ denominator, of unrounded values."""
    return combine(lambda a, b: a / b, numerator, denominator)
