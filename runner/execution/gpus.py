"""The GPUs of one engine process: what was on them before it, which are its own, their samples, and its neighbours."""

import os
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from runner.execution.context import Context
from runner.execution.requests import Place
from runner.plan.model import Launch
from runner.record.events import GpuFound, GpuSampled, GpusFound, GpuValues, OtherProcess, OthersSeen
from runner.sample.gpu.aside import Aside
from runner.sample.gpu.choose import open_gpus
from runner.sample.gpu.look import Look, look
from runner.sample.gpu.own import Others, engine_gpus, other_processes, together, unaccounted
from runner.sample.gpu.reading import GpuError, GpuProcess, GpuReader, GpuReading
from runner.sample.gpu.series import GpuSample, GpuSeries
from runner.target.base import LocalGpus, NoGpus, RemoteGpus, RunningEngine


@dataclass(frozen=True, slots=True)
class _Seen:
    """All GPUs of the machine, and who is on them."""

    gpus: list[GpuReading]
    look: Look


@dataclass(frozen=True, slots=True)
class _Engine:
    """An engine whose GPUs are known."""

    reader: GpuReader
    local: LocalGpus
    gpus: list[GpuReading]


class GpuWatch:
    """Enter it before the engine is started, leave it when the engine has stopped."""

    def __init__(self, context: Context, launch: Launch) -> None:
        self._context, self._launch = context, launch
        self._aside = Aside()
        self._reader: GpuReader | None = None
        self._unread = ""
        self._before: _Seen | None = None
        self._engine: _Engine | None = None

    async def __aenter__(self) -> Self:
        try:
            self._reader = reader = await self._aside.call(open_gpus)
            self._before = await self._aside.call(lambda: _Seen(reader.read(), look(reader)))
        except GpuError as error:
            self._unread = str(error)
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self._reader is not None:
            try:
                await self._aside.call(self._reader.close)
            except GpuError:
                return  # it hangs; its thread ends with us

    async def find(self, engine: RunningEngine) -> None:
        """Say which GPUs are the engine's, now that it answers."""
        if not engine.command:
            self._before = None  # we did not start it: it was there before
        where = engine.gpus
        if isinstance(where, NoGpus):
            event = self._none(where.reason)
        elif isinstance(where, RemoteGpus):
            event = self._none("GPUs of another machine are not read yet")
        elif self._reader is None:
            event = self._none(self._unread)
        else:
            try:
                event = await self._found(engine, where, self._reader)
            except GpuError as error:
                event = self._none(str(error))
        self._context.emit(event)

    def series(self, interval: float) -> GpuSeries | None:
        """A sampler of the machine's GPUs; None where the engine's are not known."""
        if self._engine is None:
            return None
        return GpuSeries(self._engine.reader, self._engine.local.pids, self._aside, interval, self._context.clock)

    def sampled(self, place: Place, series: GpuSeries | None) -> list[GpuSampled]:
        """The samples of the engine's own GPUs."""
        if self._engine is None or series is None:
            return []
        indices = {gpu.uuid: gpu.index for gpu in self._engine.gpus}
        return [
            GpuSampled.model_validate(
                {**place.fields, "at_ns": sample.at_ns, "gpus": _values(sample, indices), "error": sample.error}
            )
            for sample in series.samples
        ]

    async def others(self, place: Place, series: GpuSeries | None) -> list[OthersSeen]:
        """Who else is on the engine's GPUs now, and was while `series` was read; nothing where they are not known."""
        if self._engine is None or series is None:
            return []
        reader, pids, gpus = self._engine.reader, self._engine.local.pids, self._engine.gpus
        try:
            last = await self._aside.call(lambda: look(reader, pids))
        except GpuError as error:
            last = Look([], str(error))
        now = self._strangers(last, gpus)
        whole = together([*(self._strangers(one, gpus) for one in series.looks), now])
        there = {(one.pid, one.gpu) for one in now.found}
        gone = [one for one in whole.found if (one.pid, one.gpu) not in there]
        return [
            OthersSeen.model_validate(
                {
                    **place.fields,
                    "at_ns": self._context.clock.now(),
                    "others": self._named(now.found, gpus),
                    "gone": self._named(gone, gpus),
                    "unknown": whole.unknown,
                }
            )
        ]

    def _none(self, reason: str) -> GpusFound:
        return GpusFound(
            arm=self._launch.arm,
            replicate=self._launch.replicate,
            source=None,
            gpus=[],
            doubt=None,
            reason=reason,
            others=[],
            unknown=reason,
        )

    async def _found(self, engine: RunningEngine, local: LocalGpus, reader: GpuReader) -> GpusFound:
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
        self._engine = _Engine(reader, local, own.gpus)
        others = self._strangers(seen.look, own.gpus)
        before = {} if self._before is None else {gpu.uuid: gpu.memory_mib for gpu in self._before.gpus}
        return GpusFound(
            arm=self._launch.arm,
            replicate=self._launch.replicate,
            source=reader.source,
            gpus=[
                GpuFound(
                    index=gpu.index,
                    uuid=gpu.uuid,
                    name=gpu.name,
                    total_mib=gpu.total_mib,
                    before_mib=before.get(gpu.uuid),
                )
                for gpu in own.gpus
            ],
            doubt=own.doubt,
            reason=None,
            others=self._named(others.found, own.gpus),
            unknown=others.unknown,
        )

    def _strangers(self, seen: Look, gpus: list[GpuReading]) -> Others:
        if seen.unlisted is not None:
            return Others([], seen.unlisted)
        uuids = {gpu.uuid for gpu in gpus}
        others = other_processes(seen.processes, self._listed_before(), seen.pids, uuids)
        if self._before is None:
            return others
        hidden = unaccounted(self._before.gpus, self._before.look.processes, uuids)
        return Others(others.found, "; ".join(why for why in (hidden, others.unknown) if why is not None) or None)

    def _listed_before(self) -> list[GpuProcess] | None:
        if self._before is None or self._before.look.unlisted is not None:
            return None
        return self._before.look.processes

    def _named(self, found: list[GpuProcess], gpus: list[GpuReading]) -> list[OtherProcess]:
        indices = {gpu.uuid: gpu.index for gpu in gpus}
        before = self._listed_before()
        earlier = None if before is None else {(one.pid, one.gpu) for one in before}
        return [
            OtherProcess(
                pid=one.pid,
                gpu=indices[one.gpu],
                name=one.name,
                memory_mib=one.memory_mib,
                before=None if earlier is None else (one.pid, one.gpu) in earlier,
            )
            for one in found
        ]


def _values(sample: GpuSample, indices: dict[str, int]) -> list[GpuValues]:
    """A sample's values of some GPUs; one that is not among them any more has none."""
    if sample.gpus is None:
        return []
    read = {gpu.uuid: gpu for gpu in sample.gpus}
    return [
        GpuValues(
            index=index,
            utilization=read[uuid].utilization if uuid in read else None,
            memory_mib=read[uuid].memory_mib if uuid in read else None,
            error=read[uuid].error if uuid in read else "the driver does not list it any more",
        )
        for uuid, index in indices.items()
    ]
