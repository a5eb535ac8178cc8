"""What a process of the load generator sees of itself while a round runs: was it the limit?"""

import gc
import resource
import sys
import time
from array import array
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

_SCHEDSTAT = Path("/proc/self/schedstat")


class SelfWatch:
    """Over one round: how late timers fire, and how much of a processor was used and waited for.

    While it is entered no garbage is collected: a collection is a pause, and what a round makes has no cycles.
    """

    def __init__(self) -> None:
        self.loop_lags = array("q")
        self.seconds = self.cpu_seconds = 0.0
        self.queued_seconds: float | None = None

    def __enter__(self) -> Self:
        gc.collect()
        gc.freeze()
        gc.disable()
        self._queued = _queued_ns()
        self._cpu, self._began = time.process_time_ns(), time.monotonic_ns()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.seconds = (time.monotonic_ns() - self._began) / 1e9
        self.cpu_seconds = (time.process_time_ns() - self._cpu) / 1e9
        queued = _queued_ns()
        if queued is not None and self._queued is not None:
            self.queued_seconds = (queued - self._queued) / 1e9
        gc.enable()
        gc.unfreeze()

    def late(self, nanoseconds: int) -> None:
        """Hear of a timer: how late it fired, beyond its resolution."""
        self.loop_lags.append(nanoseconds)


def quantile(values: Sequence[int], share: float) -> int | None:
    """The value below which this share of them lies; None of none."""
    return sorted(values)[min(int(len(values) * share), len(values) - 1)] if values else None


def peak_memory_bytes() -> int:
    """The most memory that this process ever had."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _queued_ns() -> int | None:
    """Nanoseconds for which this thread was runnable and had no processor; None where the system does not say."""
    try:
        return int(_SCHEDSTAT.read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return None
