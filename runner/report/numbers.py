"""How figures are written: the article's units and decimals, in both languages. Values are rounded here, last."""

from collections.abc import Callable

from runner.analysis.value import Absent, Value
from runner.report.words import Words


class Numbers:
    """Formats figures in one language; an absent figure says why."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self._korean = words.language == "ko"

    def seconds(self, value: Value) -> str:
        """`2.392초`, `2.392 s`."""
        return self._show(value, lambda v: f"{v:.3f}초" if self._korean else f"{v:.3f} s")

    def milliseconds(self, value: Value) -> str:
        """Seconds as `35.2ms`, `35.2 ms`."""
        return self._show(value, lambda v: f"{v * 1000:.1f}{'' if self._korean else ' '}ms")

    def duration(self, value: Value) -> str:
        """Seconds as `2.392 s`, below one second as `182.4 ms`, `35.21 ms`, `8.182 ms`, `0.042 ms`."""
        return self._show(value, self._duration)

    def _duration(self, seconds: float) -> str:
        if seconds >= 0.9995:  # which is 1.000 s, and would be 999.5 ms and more
            return self.seconds(seconds)
        digits = 1 if seconds >= 0.1 else 2 if seconds >= 0.01 else 3
        return f"{seconds * 1000:.{digits}f}{'' if self._korean else ' '}ms"

    def rate(self, value: Value) -> str:
        """`6.327 req/s`."""
        return self._show(value, lambda v: f"{v:.3f} req/s")

    def ratio(self, value: Value, digits: int = 2) -> str:
        """`1.91배`, `1.91×`."""
        return self._show(value, lambda v: f"{v:.{digits}f}{'배' if self._korean else '×'}")

    def percent(self, value: Value) -> str:
        """A share as `85.0%`."""
        return self._show(value, lambda v: f"{v:.1%}")

    def change(self, value: Value) -> str:
        """A relative change as `+2.0%`."""
        return self._show(value, lambda v: f"{v:+.1%}")

    def count(self, value: Value) -> str:
        """`2,600`; a broken count keeps its decimals."""
        return self._show(value, lambda v: f"{v:,.0f}" if v == int(v) else f"{v:,.2f}")

    def plain(self, value: Value, digits: int) -> str:
        """A bare number."""
        return self._show(value, lambda v: f"{v:,.{digits}f}")

    def mebibytes(self, value: Value, *, signed: bool = False) -> str:
        """`5,090 MiB`, `+96 MiB`."""
        return self._show(value, lambda v: f"{v:+,.0f} MiB" if signed else f"{v:,.0f} MiB")

    def mebibytes_range(self, low: float, high: float) -> str:
        """`5,090 MiB`; `5,186~5,546 MiB` where it moved."""
        return f"{low:,.0f} MiB" if low == high else f"{low:,.0f}~{high:,.0f} MiB"

    def percent_range(self, low: float, high: float) -> str:
        """Percentages, 0 to 100, as `25~29%`; `30%` where they did not move."""
        return f"{low:g}%" if low == high else f"{low:g}~{high:g}%"

    def spread(self, median: Value, low: float = 0, high: float = 0) -> str:
        """A median, with its range where it moved: `16 (14~16)`."""
        if isinstance(median, Absent):
            return self.absent(median)
        return f"{median:g}" if low == high else f"{median:g} ({low:g}~{high:g})"

    def absent(self, value: Absent) -> str:
        """Why there is no figure."""
        return f"– ({self._words(value.reason, **value.figures)})"

    def _show(self, value: Value, write: Callable[[float], str]) -> str:
        return self.absent(value) if isinstance(value, Absent) else write(value)
