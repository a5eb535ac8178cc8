"""What every target offers, and nothing that only one of them has."""

from pathlib import Path
from typing import Any, Protocol

from runner.plan.model import Arm


class TargetError(Exception):
    """An engine that could not be started; the text is for the user, `words` are the engine's own lines."""

    def __init__(self, reason: str, words: list[str] | None = None) -> None:
        super().__init__(reason)
        self.words = words or []


class RunningEngine(Protocol):
    """One engine process."""

    @property
    def endpoint(self) -> str:
        """`http://HOST:PORT`, where the engine answers or will."""

    @property
    def command(self) -> list[str]:
        """What was started, word by word."""

    @property
    def env(self) -> dict[str, str]:
        """The environment variables that the target set for it."""

    @property
    def identity(self) -> str:
        """What a restart would change: a process id, a Pod's UID."""

    def exit_code(self) -> int | None:
        """None while it lives."""

    def log(self) -> list[str]:
        """The lines that it printed so far; empty where the target cannot see them."""

    async def stop(self) -> str:
        """End it and everything it started; returns how. Safe to call twice."""


class Target(Protocol):
    """A place where engines run."""

    name: str
    simulated: bool

    def settings(self) -> dict[str, Any]:
        """What the site says about this target, for the record."""

    async def launch(self, model: str, arm: Arm, log: Path) -> RunningEngine:
        """Start one fresh engine process, its output kept in `log`. Raises TargetError."""
