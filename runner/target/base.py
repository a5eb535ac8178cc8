"""What every target offers, and nothing that only one of them has."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from runner.plan.model import Arm, Plan
from runner.record.events import Event


class TargetError(Exception):
    """An engine that could not be started; the text is for the user, `words` are the engine's own lines, `seconds` how
    long after it could first be seen that was found, where that is known."""

    def __init__(self, reason: str, words: list[str] | None = None, seconds: float | None = None) -> None:
        super().__init__(reason)
        self.words = words or []
        self.seconds = seconds


class Declined(TargetError):
    """The place is not as a run needs it; nothing of it was changed."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What a target found where the engines will run, before it changed anything.

    `facts` say where that is; `changes` what of somebody else's will be changed, which needs consent; `differences`
    how what is there differs from the baseline condition; `notes` what else a reader should know. `problems` make the
    plan impossible, `refusals` forbid it.
    """

    facts: dict[str, str] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Stay:
    """A run, as a target needs to know it: what will be done, the run's name, its directory, and where its events
    go."""

    plan: Plan
    run: str
    directory: Path
    emit: Callable[[Event], None]


@asynccontextmanager
async def nothing_changed() -> AsyncIterator[None]:
    """The stay of a target that changes nothing of what was there before."""
    yield


class Lines(Protocol):
    """A program that was started beside an engine, and its output as it comes. Its calls block."""

    def read(self, timeout: float) -> str | None:
        """The next line without its end; None where none came within `timeout` seconds. Raises EndOfLines."""

    def close(self) -> None:
        """End the program and let it go. Never raises."""


class EndOfLines(Exception):
    """The program has ended, or was lost; the text says how."""


@dataclass(frozen=True, slots=True)
class LocalGpus:
    """The engine runs on this machine's GPUs. `visible` is its CUDA_VISIBLE_DEVICES, None where that is not set;
    `pids` gives the ids of its processes that live now, as this machine counts them."""

    visible: str | None
    pids: Callable[[], frozenset[int]]


@dataclass(frozen=True, slots=True)
class RemoteGpus:
    """The engine's GPUs are another machine's. `execute` starts a program beside the engine and gives its lines; it
    blocks, and raises OSError. `program` is what nvidia-smi is called there. `neighbours` names what else may use these
    GPUs, as far as the place knows its tenants; it blocks, and raises OSError. `doubt` says why what the program sees
    may not be the engine's."""

    program: list[str]
    execute: Callable[[list[str]], Lines]
    neighbours: Callable[[], list[str]]
    doubt: str | None = None


@dataclass(frozen=True, slots=True)
class NoGpus:
    """Why the engine's GPUs, if it has any, cannot be read from here."""

    reason: str


@dataclass(frozen=True, slots=True)
class Transport:
    """How requests reach an engine; `doubt` says why times taken over it are not the engine's."""

    name: str
    doubt: str | None = None


class RunningEngine(Protocol):
    """One engine: a process that the target started, or one that was there."""

    @property
    def endpoint(self) -> str:
        """`http://HOST:PORT`, where the engine answers or will."""

    @property
    def command(self) -> list[str]:
        """What was started, word by word; empty where the target started nothing."""

    @property
    def env(self) -> dict[str, str]:
        """The environment variables that the target set for it."""

    @property
    def identity(self) -> str:
        """What a restart would change: a process id, a Pod's UID."""

    @property
    def gpus(self) -> LocalGpus | RemoteGpus | NoGpus:
        """Where its GPUs are."""

    @property
    def transport(self) -> Transport | None:
        """How requests reach it; None where that needs no saying."""

    @property
    def facts(self) -> dict[str, str]:
        """What the target knows of the place where it runs, by name."""

    async def look(self) -> None:
        """Bring `exit_code`, `stranger` and `log` up to date, where the target has to ask for them."""

    def exit_code(self) -> int | None:
        """None while it lives, or where the target cannot know."""

    def log(self) -> list[str] | None:
        """The lines that it printed so far; None where the target cannot see them."""

    def stranger(self) -> str | None:
        """Why another process than this engine may answer at the endpoint; None where nothing speaks for that."""

    async def stop(self) -> str:
        """End it and everything it started; returns how. Safe to call twice."""

    @property
    def remains(self) -> str | None:
        """After `stop`: what of it may live on, and would disturb what comes next; None where nothing does."""


class Target(Protocol):
    """A place where engines run."""

    name: str
    simulated: bool

    def settings(self) -> dict[str, Any]:
        """What the site says about this target, for the record."""

    def origins(self) -> Mapping[str, str]:
        """Who gave a setting, by its key, or by KEY.NAME where it was put together; empty where there is only one who
        could."""

    def problems(self, plan: Plan) -> list[str]:
        """What makes the plan impossible here, found before anything is started."""

    def survey(self, plan: Plan) -> Survey:
        """Look at the place, and change nothing. Blocks; asked where `problems` has found none. A place that cannot be
        reached is a problem of the survey."""

    def stay(self, stay: Stay) -> AbstractAsyncContextManager[None]:
        """Around all launches of a run: what was there is saved before, and put back after, however the run ends.
        Entering raises Declined before anything was changed, else TargetError."""

    async def launch(self, model: str, arm: Arm, log: Path) -> RunningEngine:
        """Start one fresh engine process, its output kept in `log`, or reach the one that is there. Raises
        TargetError. To be cancelled leaves nothing of it behind once the stay is over."""
