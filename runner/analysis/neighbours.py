"""Who else was on an engine's GPUs while a cell was measured."""

from dataclasses import dataclass

from runner.analysis.cell import Cell
from runner.analysis.value import Absent
from runner.record.events import GpusFound, OthersSeen
from runner.record.parts import OtherProcess
from runner.record.record import EngineRun, Round


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Strange processes, each once; `unknown` says why there may have been more, None where there were none besides."""

    found: list[OtherProcess]
    unknown: Absent | None


def neighbours(cell: Cell) -> Neighbours:
    """Over the cell's rounds. A round's are those seen while it ran, when it ended and when it began, which is the end
    of the engine's round before it, and for the first one the moment when the engine first answered."""
    found: dict[tuple[int | str | None, int], OtherProcess] = {}
    unknown: Absent | None = None
    for engine in cell.record.of_arm(cell.arm.id):
        looks = _looks(engine)
        for number, round_ in enumerate(engine.rounds):
            if not _of_cell(round_, cell):
                continue
            if round_.others is not None:
                found |= {_key(one): one for one in round_.others.gone}
            for look in looks[number : number + 2]:
                if look is None:
                    unknown = unknown or Absent("gpu-others-not-looked")
                    continue
                found |= {_key(one): one for one in look.others}
                if look.unknown is not None:
                    unknown = unknown or Absent("gpu-others-unknown", {"why": look.unknown})
    return Neighbours(list(found.values()), unknown)


def _key(one: OtherProcess) -> tuple[int | str | None, int]:
    return one.name if one.pid is None else one.pid, one.gpu


def _looks(engine: EngineRun) -> list[GpusFound | OthersSeen | None]:
    return [engine.gpus, *(round_.others for round_ in engine.rounds)]


def _of_cell(round_: Round, cell: Cell) -> bool:
    return (round_.phase, round_.concurrency) == (cell.phase.name, cell.concurrency)
