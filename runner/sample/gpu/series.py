"""The GPUs while load runs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from runner.record.clock import RunClock
from runner.sample.cadence import at_interval
from runner.sample.gpu.aside import Aside
from runner.sample.gpu.reading import GpuError, GpuFigures, GpuReading

L = TypeVar("L")

_BETWEEN_LOOKS = 2 * 10**9
"""Nanoseconds: who is there changes less often than what they do, and by nvidia-smi a look costs a process."""


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One reading of all GPUs, or why there is none."""

    at_ns: int
    gpus: list[GpuReading] | None
    error: str | None


class GpuSeries(Generic[L]):
    """Reads GPUs at an interval until it is stopped; with the first reading and then every two seconds it looks who is
    there."""

    def __init__(
        self, reader: GpuFigures, look: Callable[[], L], aside: Aside, interval: float, clock: RunClock
    ) -> None:
        """`interval` in seconds, never below the reader's shortest; `look` blocks, and says what cannot be seen instead
        of raising."""
        self._reader, self._look, self._aside, self._clock = reader, look, aside, clock
        self._interval = max(interval, reader.shortest)
        self._next_look = 0
        self.samples: list[GpuSample] = []
        self.looks: list[L] = []

    async def run(self) -> None:
        """Sample until cancelled."""
        await at_interval(self._interval, self._clock, self._take, self._overdue)

    async def _take(self) -> None:
        try:
            sample, seen = await self._aside.call(self._sample)
        except GpuError as error:
            self.samples.append(GpuSample(self._clock.now(), None, str(error)))
            return
        self.samples.append(sample)
        self.looks += seen

    def _sample(self) -> tuple[GpuSample, list[L]]:
        gpus = self._reader.read()
        now = self._clock.now()  # stamped in the thread: the loop may be busy
        sample = GpuSample(now, gpus, None)
        if now < self._next_look:
            return sample, []
        self._next_look = now + _BETWEEN_LOOKS
        return sample, [self._look()]

    def _overdue(self, at_ns: int, why: str) -> None:
        self.samples.append(GpuSample(at_ns, None, why))
