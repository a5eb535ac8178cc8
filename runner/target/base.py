"""What every target offers, and nothing that only one of them has."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from runner.plan.model import Arm, Plan


class TargetError(Exception):
    """An engine that could not be started; the text is for the user, `words` are the engine's own lines."""

    def __init__(self, reason: str, words: list[str] | None = None) -> None:
        super().__init__(reason)
        self.words = words or []


@dataclass(frozen=True, slots=True)
class LocalGpus:
    """The engine runs on this machine's GPUs. `visible` is its CUDA_VISIBLE_DEVICES, None where that is not set;
    `pids` gives the ids of its processes that live now, as this machine counts them."""

    visible: str | None
    pids: Callable[[], frozenset[int]]


@dataclass(frozen=True, slots=True)
class NoGpus:
    """Why the engine's GPUs, if it has any, cannot be read from here."""

    reason: str


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
    def gpus(self) -> LocalGpus | NoGpus:
        """Where its GPUs are."""

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

    def problems(self, plan: Plan) -> list[str]:
        """What makes the plan impossible here, found before anything is started."""

    async def launch(self, model: str, arm: Arm, log: Path) -> RunningEngine:
        """Start one fresh engine process, its output kept in `log`, or reach the one that is there. Raises
        TargetError."""
