"""The GPUs of an engine on this machine."""

import os
from dataclasses import dataclass

from runner.execution.gpus.engine import Others
from runner.record.parts import GpuFound, OtherProcess
from runner.sample.gpu.aside import Aside
from runner.sample.gpu.choose import open_gpus
from runner.sample.gpu.look import Look, look
from runner.sample.gpu.own import engine_gpus, other_processes, unaccounted
from runner.sample.gpu.reading import GpuError, GpuProcess, GpuReader, GpuReading
from runner.target.base import LocalGpus, RunningEngine


@dataclass(frozen=True, slots=True)
class _Seen:
    """All GPUs of the machine, and who is on them."""

    gpus: list[GpuReading]
    look: Look

    @property
    def listed(self) -> list[GpuProcess] | None:
        """None where that is not known."""
        return None if self.look.unlisted is not None else self.look.processes


class Machine:
    """This machine's GPUs, looked at before an engine is started on them."""

    def __init__(self, aside: Aside) -> None:
        self._aside = aside
        self._reader: GpuReader | None = None
        self._unread = "the GPUs were not looked at"
        self._before: _Seen | None = None

    async def look_before(self) -> None:
        """Open the way to read them, and see who is there; that there is none is no obstacle."""
        try:
            self._reader = reader = await self._aside.call(open_gpus)
            self._before = await self._aside.call(lambda: _Seen(reader.read(), look(reader)))
        except GpuError as error:
            self._unread = str(error)

    async def of(self, engine: RunningEngine, local: LocalGpus) -> "LocalEngine":
        """The engine's own, now that it answers. Raises GpuError."""
        if self._reader is None:
            raise GpuError(self._unread)
        reader = self._reader
        before = self._before if engine.command else None  # one that we did not start was there before
        seen = await self._aside.call(lambda: _Seen(reader.read(), look(reader, local.pids)))
        order = engine.env.get("CUDA_DEVICE_ORDER", os.environ.get("CUDA_DEVICE_ORDER"))
        own = engine_gpus(
            seen.gpus,
            seen.look.processes,
            seen.look.pids,
            visible=local.visible,
            bus_order=order == "PCI_BUS_ID",
            here=seen.look.here(),
        )
        return LocalEngine(reader, local, own.gpus, own.doubt, before, seen.look)

    async def close(self) -> None:
        """Let the driver go."""
        if self._reader is not None:
            try:
                await self._aside.call(self._reader.close)
            except GpuError:
                return  # it hangs; its thread ends with us


class LocalEngine:
    """The GPUs of an engine that answers."""

    def __init__(
        self,
        reader: GpuReader,
        local: LocalGpus,
        own: list[GpuReading],
        doubt: str | None,
        before: _Seen | None,
        first: Look,
    ) -> None:
        """`before`: what was seen before its start, None where nothing was; `first` when it first answered."""
        self.reader, self.doubt = reader, doubt
        self._local, self._own, self._before = local, own, before
        earlier = {} if before is None else {gpu.uuid: gpu.memory_mib for gpu in before.gpus}
        self.gpus = [
            GpuFound(
                index=gpu.index,
                uuid=gpu.uuid,
                name=gpu.name,
                total_mib=gpu.total_mib,
                before_mib=earlier.get(gpu.uuid),
            )
            for gpu in own
        ]
        self.at_first = self._others(first)

    def look(self) -> Others:
        """The processes there that are not the engine's."""
        return self._others(look(self.reader, self._local.pids))

    def _others(self, seen: Look) -> Others:
        if seen.unlisted is not None:
            return Others([], seen.unlisted)
        uuids = {gpu.uuid for gpu in self._own}
        before = None if self._before is None else self._before.listed
        others = other_processes(seen.processes, before, seen.pids, uuids)
        hidden = None
        if self._before is not None:
            hidden = unaccounted(self._before.gpus, self._before.look.processes, uuids)
        unknown = "; ".join(why for why in (hidden, others.unknown) if why is not None) or None
        return Others([self._named(one, before) for one in others.found], unknown)

    def _named(self, one: GpuProcess, before: list[GpuProcess] | None) -> OtherProcess:
        [index] = [gpu.index for gpu in self._own if gpu.uuid == one.gpu]
        return OtherProcess(
            pid=one.pid,
            gpu=index,
            name=one.name,
            memory_mib=one.memory_mib,
            before=None if before is None else any((one.pid, one.gpu) == (it.pid, it.gpu) for it in before),
        )
