"""The GPUs of one engine process: what was on them before it, which are its own, their samples, and its neighbours."""

from types import TracebackType
from typing import Self

from runner.execution.context import Context
from runner.execution.gpus.engine import EngineGpus, Others, together
from runner.execution.gpus.local import Machine
from runner.execution.gpus.remote import Beside
from runner.execution.requests import Place
from runner.plan.model import Launch
from runner.record.events import GpuSampled, GpusFound, OthersSeen
from runner.record.parts import GpuFound, GpuValues
from runner.sample.gpu.aside import Aside
from runner.sample.gpu.reading import GpuError
from runner.sample.gpu.series import GpuSample, GpuSeries
from runner.target.base import LocalGpus, NoGpus, RemoteGpus, RunningEngine


class GpuWatch:
    """Enter it before the engine is started, leave it when the engine has stopped."""

    def __init__(self, context: Context, launch: Launch) -> None:
        self._context, self._launch = context, launch
        self._aside = Aside()
        self._machine = Machine(self._aside)
        self._beside: Beside | None = None
        self._engine: EngineGpus | None = None

    async def __aenter__(self) -> Self:
        await self._machine.look_before()
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        for opened in (self._beside, self._machine):
            if opened is not None:
                await opened.close()

    async def find(self, engine: RunningEngine) -> None:
        """Say which GPUs are the engine's, now that it answers."""
        where = engine.gpus
        try:
            self._engine = await self._found(engine, where)
        except GpuError as error:
            self._context.emit(self._none(str(error)))
            return
        found = self._engine
        self._context.emit(
            GpusFound(
                arm=self._launch.arm,
                replicate=self._launch.replicate,
                source=found.reader.source,
                gpus=found.gpus,
                doubt=found.doubt,
                reason=None,
                others=found.at_first.found,
                unknown=found.at_first.unknown,
            )
        )

    def series(self, interval: float) -> GpuSeries[Others] | None:
        """A sampler of the GPUs; None where the engine's are not known."""
        if self._engine is None:
            return None
        return GpuSeries(self._engine.reader, self._engine.look, self._aside, interval, self._context.clock)

    def sampled(self, place: Place, series: GpuSeries[Others] | None) -> list[GpuSampled]:
        """The samples of the engine's own GPUs."""
        if self._engine is None or series is None:
            return []
        return [
            GpuSampled.model_validate(
                {
                    **place.fields,
                    "at_ns": sample.at_ns,
                    "gpus": _values(sample, self._engine.gpus),
                    "error": sample.error,
                }
            )
            for sample in series.samples
        ]

    async def others(self, place: Place, series: GpuSeries[Others] | None) -> list[OthersSeen]:
        """Who else is on the engine's GPUs now, and was while `series` was read; nothing where they are not known."""
        if self._engine is None or series is None:
            return []
        try:
            now = await self._aside.call(self._engine.look)
        except GpuError as error:
            now = Others([], str(error))
        gone, unknown = together(series.looks, now)
        return [
            OthersSeen.model_validate(
                {
                    **place.fields,
                    "at_ns": self._context.clock.now(),
                    "others": now.found,
                    "gone": gone,
                    "unknown": unknown,
                }
            )
        ]

    async def _found(self, engine: RunningEngine, where: LocalGpus | RemoteGpus | NoGpus) -> EngineGpus:
        if isinstance(where, NoGpus):
            raise GpuError(where.reason)
        if isinstance(where, LocalGpus):
            return await self._machine.of(engine, where)
        self._beside = Beside(where, self._aside, self._context.plan.sampling_interval)
        return await self._beside.opened()

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


def _values(sample: GpuSample, gpus: list[GpuFound]) -> list[GpuValues]:
    """A sample's values of some GPUs; one that is not among them any more has none."""
    if sample.gpus is None:
        return []
    read = {gpu.uuid: gpu for gpu in sample.gpus}
    return [
        GpuValues(
            index=gpu.index,
            utilization=read[gpu.uuid].utilization if gpu.uuid in read else None,
            memory_mib=read[gpu.uuid].memory_mib if gpu.uuid in read else None,
            error=read[gpu.uuid].error if gpu.uuid in read else "the driver does not list it any more",
        )
        for gpu in gpus
    ]
