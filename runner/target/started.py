"""An engine that a target started as a child process of ours: what is the same wherever its program comes from."""

from runner.target.child import Child


class StartedEngine:
    """One engine process and what it started."""

    def __init__(self, child: Child, endpoint: str, env: dict[str, str]) -> None:
        self._child = child
        self.endpoint = endpoint
        self.command = child.command
        self.env = env

    @property
    def transport(self) -> None:
        """The loopback interface."""

    @property
    def facts(self) -> dict[str, str]:
        """It runs here."""
        return {}

    @property
    def identity(self) -> str:
        """The process id."""
        return f"pid {self._child.pid}"

    async def look(self) -> None:
        """There is nothing to ask for."""

    def exit_code(self) -> int | None:
        """None while it lives."""
        return self._child.exit_code()

    def log(self) -> list[str]:
        """Its output so far."""
        return self._child.log()

    async def stop(self) -> str:
        """End it and everything that it started."""
        return await self._child.stop()

    @property
    def remains(self) -> str | None:
        """What could not be ended."""
        return self._child.remains
