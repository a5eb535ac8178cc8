"""An asyncio event loop whose clock stands still while anything runs and leaps to the next timer when nothing does.

Waiting costs no time and nothing depends on the machine's speed. There is no input and no output: a loop in which
no timer is left would wait for ever, so that raises.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class _Leaping(selectors.SelectSelector):
    """Waits for nothing; the wait that was asked for passes at once."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("everything waits and no timer is left")
        self.now += timeout
        return super().select(0)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Starts at 0 seconds."""

    def __init__(self) -> None:
        self._leaping = _Leaping()
        super().__init__(self._leaping)
        # Timers within this of each other fire in one turn; the default of 1 ns is a microsecond at a scale of 0.001.
        self._clock_resolution = 1e-12

    def time(self) -> float:
        return self._leaping.now

    def busy(self, seconds: float) -> None:
        """Called from a callback: it took so long, and timers due meanwhile come late."""
        self._leaping.now += seconds


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """`asyncio.run` in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
