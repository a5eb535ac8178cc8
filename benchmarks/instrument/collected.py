"""The figures of several runs together: the median, and the range between runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from instrument.figures import Figures


@dataclass(frozen=True, slots=True)
class Point:
    """One program in one cell: what each run of it gave, and the words of those that gave nothing."""

    program: str
    concurrency: int
    runs: Sequence[Figures]
    troubles: Sequence[str]
    notes: Sequence[dict[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of the runs, the least and the most."""

    middle: float
    least: float
    most: float

    def __format__(self, spec: str) -> str:
        """`spec` is for each number: 12.3 (11.9 to 13.0)."""
        middle, least, most = (_signless(format(each, spec)) for each in (self.middle, self.least, self.most))
        return middle if least == most else f"{middle} ({least} to {most})"


def _signless(text: str) -> str:
    return text[1:] if text.startswith("-") and not text.strip("-0.,") else text


def spread(point: Point | None, name: str) -> Spread | None:
    """Of one figure; None where no run has it."""
    if point is None:
        return None
    values = [value for run in point.runs if (value := run.get(name)) is not None]
    return Spread(median(values), min(values), max(values)) if values else None


def ratio(over: Point | None, under: Point | None, name: str) -> float | None:
    """Between the medians of two programs; None where one has none or is 0."""
    top, bottom = spread(over, name), spread(under, name)
    if top is None or bottom is None or not bottom.middle:
        return None
    return top.middle / bottom.middle
