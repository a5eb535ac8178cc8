"""One monotonic clock for all stamps of a run."""

import time


class RunClock:
    """Nanoseconds since the run started. An adjustment of the wall clock does not move it.

    `origin_ns` is the start by the machine's monotonic clock, which all its processes share.
    """

    def __init__(self) -> None:
        self.origin_ns = time.monotonic_ns()

    def now(self) -> int:
        """Nanoseconds since the start of the run."""
        return time.monotonic_ns() - self.origin_ns
