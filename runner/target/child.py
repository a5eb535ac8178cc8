"""A child process in a group of its own, its output kept, nothing left behind."""

import asyncio
import contextlib
import os
import signal
import subprocess
from pathlib import Path

_STOP_SECONDS = 10.0
_POLL = 0.02


class Child:
    """A started process. Its stdin is a pipe that we hold: it sees EOF when we end, however we end."""

    def __init__(self, command: list[str], env: dict[str, str], log: Path, cwd: str | None = None) -> None:
        """Raises OSError when it cannot be started."""
        self.command = command
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=env,
                cwd=cwd,
                # Ctrl-C at the terminal goes to the runner alone, which then stops the engine in order.
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id, which is the group's id too."""
        return self._process.pid

    def pids(self) -> frozenset[int]:
        """The live processes of its session."""
        found = set()
        for status in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                if int(status.read_text().rpartition(")")[2].split()[3]) == self.pid:
                    found.add(int(status.parent.name))
        return frozenset(found)

    def exit_code(self) -> int | None:
        """None while it lives; negative for the signal that ended it."""
        return self._process.poll()

    def log(self) -> list[str]:
        """What it printed so far, as lines."""
        return self._log.read_text(encoding="utf-8", errors="replace").split("\n")

    async def stop(self) -> str:
        """SIGTERM, then SIGKILL to the whole group; returns how it ended."""
        already = self.exit_code()
        if already is None:
            self._signal(signal.SIGTERM)
            if await self._gone(_STOP_SECONDS):
                how = "stopped by SIGTERM"
            else:
                how = f"killed: it did not stop within {_STOP_SECONDS:g} s of SIGTERM"
        else:
            how = f"had ended by itself with exit code {already}"
        self._signal(signal.SIGKILL)  # whatever it started and left behind
        await self._gone(_STOP_SECONDS)
        if self._process.stdin is not None:
            self._process.stdin.close()
        return how

    async def _gone(self, seconds: float) -> bool:
        for _ in range(int(seconds / _POLL)):
            if self.exit_code() is not None:
                return True
            await asyncio.sleep(_POLL)
        return self.exit_code() is not None

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)
