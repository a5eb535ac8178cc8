"""Times that were measured, and between which bounds they truly lie."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple


class Interval(NamedTuple):
    """Seconds: what the stamps say, and the least and the most that it can have been."""

    low: float
    value: float
    high: float


@dataclass(frozen=True, slots=True)
class Intervals:
    """Many of them, side by side: a cell can have millions. The three have one length, and nobody changes them."""

    lows: Sequence[float] = ()
    values: Sequence[float] = ()
    highs: Sequence[float] = ()

    @staticmethod
    def of(*those: Interval) -> "Intervals":
        """These, in this order."""
        return Intervals(*zip(*those, strict=True)) if those else Intervals()

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Interval]:
        return map(Interval, self.lows, self.values, self.highs)

    def __getitem__(self, number: int) -> Interval:
        return Interval(self.lows[number], self.values[number], self.highs[number])

    def gaps(self, drift: float) -> "Intervals":
        """From each moment to the next one. `drift` is how far two stamps may be apart from the truth."""
        return Intervals(
            [max(after - before - drift, 0.0) for before, after in zip(self.highs, self.lows[1:], strict=False)],
            [after - before for before, after in pairwise(self.values)],
            [after - before + drift for before, after in zip(self.lows, self.highs[1:], strict=False)],
        )

    def shared(self, among: Sequence[int]) -> "Intervals":
        """Each divided by its number, and so many times."""
        if all(number == 1 for number in among):
            return self
        return Intervals(
            *([one / n for one, n in zip(side, among, strict=True) for _ in range(n)] for side in self._all)
        )

    def picked(self, numbers: Sequence[int]) -> "Intervals":
        """Those at these numbers."""
        return Intervals(*([side[number] for number in numbers] for side in self._all))

    @property
    def _all(self) -> tuple[Sequence[float], Sequence[float], Sequence[float]]:
        return self.lows, self.values, self.highs


def joined(parts: Sequence[Intervals]) -> Intervals:
    """All of several, in order."""
    return Intervals(
        [one for part in parts for one in part.lows],
        [one for part in parts for one in part.values],
        [one for part in parts for one in part.highs],
    )
