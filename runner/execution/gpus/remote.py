"""The GPUs of an engine on another machine, as a program beside it reads them."""

from collections.abc import Callable
from dataclasses import dataclass

from runner.execution.gpus.engine import Others
from runner.record.parts import GpuFound, OtherProcess
from runner.sample.gpu.aside import Aside
from runner.sample.gpu.reading import GpuError, GpuFigures
from runner.sample.gpu.remote import RemoteSmi
from runner.target.base import EndOfLines, RemoteGpus

_ALONE = "processes outside of the place that runs the engine are not seen from its container"


class Beside:
    """The program beside one engine, once it is opened."""

    def __init__(self, where: RemoteGpus, aside: Aside, interval: float) -> None:
        """`interval`: how often samples are wanted, in seconds."""
        self._where, self._aside = where, aside
        self._smi = RemoteSmi(where.program, where.execute, EndOfLines, interval)

    async def opened(self) -> "RemoteEngine":
        """Start it. All GPUs that it sees are the engine's: its container was given them. Raises GpuError, and then
        nothing is left running."""
        try:
            seen = await self._aside.call(self._smi.open)
        except GpuError:
            await self.close()
            raise
        gpus = [
            GpuFound(index=gpu.index, uuid=gpu.uuid, name=gpu.name, total_mib=gpu.total_mib, before_mib=None)
            for gpu in seen
        ]
        look = _Look(self._where.neighbours, [gpu.index for gpu in gpus])
        try:
            first = await self._aside.call(look)
        except GpuError as error:
            first = Others([], str(error))
        doubt = _ALONE if self._where.doubt is None else f"{self._where.doubt}; {_ALONE}"
        return RemoteEngine(self._smi, gpus, first, look, doubt)

    async def close(self) -> None:
        """End it."""
        try:
            await self._aside.call(self._smi.close)
        except GpuError:
            return  # it hangs; its thread ends with us


@dataclass(frozen=True, slots=True)
class _Look:
    """Asks the place for the neighbours; which of several GPUs one uses is not known, so it is said of each."""

    neighbours: Callable[[], list[str]]
    indices: list[int]

    def __call__(self) -> Others:
        try:
            names = self.neighbours()
        except OSError as error:
            return Others([], f"who else may use the GPUs is not known: {error.strerror or error}")
        return Others(
            [
                OtherProcess(pid=None, gpu=index, name=name, memory_mib=None, before=None)
                for name in names
                for index in self.indices
            ],
            None,
        )


@dataclass(frozen=True, slots=True)
class RemoteEngine:
    """The GPUs of an engine that answers.

    Who else is on them only the place knows, for a container is not shown the processes of others. Where the place
    answers, its word stands: it gives a GPU to one tenant at a time, and names those that may use it all the same. What
    it does not know of at all is said beside the figures, as a doubt, and leaves them a measurement.
    """

    reader: GpuFigures
    gpus: list[GpuFound]
    at_first: Others
    look: Callable[[], Others]
    doubt: str | None = _ALONE
