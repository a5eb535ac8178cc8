"""Who is on the GPUs at one moment."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from runner.sample.gpu.reading import GpuError, GpuProcess, GpuReader

Pids = Callable[[], frozenset[int]]
"""The ids of an engine's processes that live now."""


@dataclass(frozen=True, slots=True)
class Look:
    """The processes that the driver lists, `unlisted` why they are not known; `pids` are the engine's at that time."""

    processes: list[GpuProcess]
    unlisted: str | None
    pids: frozenset[int] = frozenset()

    def here(self) -> frozenset[int]:
        """The ids listed that are some process's here, too: in a container the driver's can be the host's."""
        return frozenset(one.pid for one in self.processes if Path("/proc", str(one.pid)).exists())


def look(reader: GpuReader, pids: Pids = frozenset) -> Look:
    """Look now; blocks. The engine is asked before and after: a process of its own that comes or goes meanwhile is no
    stranger."""
    earlier = pids()
    try:
        processes, unlisted = reader.processes(), None
    except GpuError as error:
        processes, unlisted = [], str(error)
    return Look(processes, unlisted, earlier | pids())
