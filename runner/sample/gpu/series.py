"""The GPUs while load runs."""

from dataclasses import dataclass

from runner.record.clock import RunClock
from runner.sample.cadence import at_interval
from runner.sample.gpu.aside import Aside
from runner.sample.gpu.reading import GpuError, GpuReader, GpuReading


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One reading of all GPUs, or why there is none."""

    at_ns: int
    gpus: list[GpuReading] | None
    error: str | None


class GpuSeries:
    """Reads GPUs at an interval until it is stopped."""

    def __init__(self, reader: GpuReader, aside: Aside, interval: float, clock: RunClock) -> None:
        """`interval` in seconds, never below the reader's shortest."""
        self._reader, self._aside, self._clock = reader, aside, clock
        self._interval = max(interval, reader.shortest)
        self.samples: list[GpuSample] = []

    async def run(self) -> None:
        """Sample until cancelled."""
        await at_interval(self._interval, self._clock, self._take, self._overdue)

    async def _take(self) -> None:
        try:
            self.samples.append(await self._aside.call(self._sample))
        except GpuError as error:
            self.samples.append(GpuSample(self._clock.now(), None, str(error)))

    def _sample(self) -> GpuSample:
        gpus = self._reader.read()
        return GpuSample(self._clock.now(), gpus, None)  # stamped in the thread: the loop may be busy

    def _overdue(self, at_ns: int, why: str) -> None:
        self.samples.append(GpuSample(at_ns, None, why))
