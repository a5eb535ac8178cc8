"""What is known of one engine's GPUs, wherever they are."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from runner.record.parts import GpuFound, OtherProcess
from runner.sample.gpu.reading import GpuFigures


@dataclass(frozen=True, slots=True)
class Others:
    """Who else is on an engine's GPUs; `unknown` says why there may be more of them, None where there are none
    besides."""

    found: list[OtherProcess]
    unknown: str | None


class EngineGpus(Protocol):
    """The GPUs of an engine that answers."""

    @property
    def reader(self) -> GpuFigures:
        """It reads these GPUs, and perhaps others."""

    @property
    def gpus(self) -> list[GpuFound]:
        """Which they are."""

    @property
    def doubt(self) -> str | None:
        """Why they may be other ones, or not the engine's alone."""

    @property
    def at_first(self) -> Others:
        """Who else was there when the engine first answered."""

    def look(self) -> Others:
        """Who else is there now. Blocks, and never raises."""


def together(looks: Sequence[Others], last: Others) -> tuple[list[OtherProcess], str | None]:
    """Whoever was seen at one of the looks and not at the last, each once, as last seen; and why there may have been
    more, as soon as one look does not know."""
    found = {_who(one): one for one_look in looks for one in one_look.found}
    there = {_who(one) for one in last.found}
    gone = [one for who, one in found.items() if who not in there]
    return gone, next((one.unknown for one in (*looks, last) if one.unknown is not None), None)


def _who(one: OtherProcess) -> tuple[int | str | None, int]:
    return one.name if one.pid is None else one.pid, one.gpu
