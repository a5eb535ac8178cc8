"""What a reader of GPUs offers."""

from dataclasses import dataclass
from typing import Protocol


class GpuError(Exception):
    """The GPUs cannot be read; the text says why."""


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One GPU at one moment. `utilization` is the share of the driver's last sampling window in which a kernel ran, in
    percent; `memory_mib` what is allocated on the GPU by all processes, without the driver's own reserve, as
    nvidia-smi's memory.used. None is absent; `error` says why, where it was not simply a figure that the GPU does not
    have."""

    index: int
    uuid: str
    name: str | None
    utilization: float | None
    memory_mib: float | None
    total_mib: float | None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that has a context on a GPU (`gpu` is its UUID); `pid` as the driver counts, which in a container need
    not be as we count."""

    pid: int
    gpu: str
    name: str | None
    memory_mib: float | None


class GpuFigures(Protocol):
    """A way to read what GPUs do. Its calls block."""

    @property
    def source(self) -> str:
        """What is asked, with the driver's version."""

    @property
    def shortest(self) -> float:
        """Seconds between readings below which they would only repeat themselves, or cost too much."""

    def read(self) -> list[GpuReading]:
        """Every GPU that may be used there, in the order of their PCI bus, as it is when this returns. Raises
        GpuError."""

    def close(self) -> None:
        """Let the driver go. Never raises."""


class GpuReader(GpuFigures, Protocol):
    """A way to read this machine's GPUs, which shows the processes on them, too."""

    def processes(self) -> list[GpuProcess]:
        """Every process on them, as far as the driver shows it here. Raises GpuError."""
