"""A child process under a guard, its output kept, nothing left behind."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from runner.target import guard

_STOP_SECONDS = 10.0
_POLL = 0.02
_NAMED = 20


class Child:
    """A started command in a session of its own. Its guard, `runner.target.guard`, ends it and everything that it
    started: when we ask, when it ends by itself, and when we end, however we end. A command that puts itself into the
    background has ended, and so ends what it put there."""

    def __init__(self, command: list[str], env: dict[str, str], log: Path, cwd: Path | None = None) -> None:
        """Raises OSError, in plain words, when it cannot be started; UnicodeEncodeError for a word without bytes."""
        self.command = command
        self._log = log
        self._grace = _STOP_SECONDS
        self._said: dict[str, Any] = {}
        self._unread = b""
        self._over = False
        order = {
            "command": [_text(word) for word in command],
            "env": {_text(name): _text(value) for name, value in env.items()},
            "cwd": None if cwd is None else _text(str(cwd)),
            "grace": self._grace,
        }
        with log.open("wb") as output:
            self._guard = subprocess.Popen(
                [sys.executable, "-I", "-S", "-X", "utf8", guard.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                bufsize=0,
                # Ctrl-C at the terminal goes to the runner alone, which then stops the engine in order.
                start_new_session=True,
            )
        assert self._guard.stdin is not None and self._guard.stdout is not None
        self._order, self._reports = self._guard.stdin, self._guard.stdout
        unsent = json.dumps(order).encode() + b"\n"
        with contextlib.suppress(BrokenPipeError):
            while unsent:
                unsent = unsent[self._order.write(unsent) :]
        while not self._said and not self._over:
            self._read()
        if "pid" not in self._said:
            self._order.close()
            self._guard.wait()
            self._reports.close()
            why = f"its guard process ended with exit code {self._guard.returncode} before it was started"
            raise OSError(self._said.get("failed", why))
        os.set_blocking(self._reports.fileno(), False)

    @property
    def pid(self) -> int:
        """The command's own process id, which is its group's and its session's too."""
        return int(self._said["pid"])

    def pids(self) -> frozenset[int]:
        """Every live process of it: the command, and what it started, wherever that hid. The command alone where the
        machine has no /proc."""
        if not guard.has_proc():
            return frozenset({self.pid} if self.exit_code() is None else ())
        if self._guard.poll() is not None:
            return frozenset()
        return frozenset(process.pid for process in guard.descendants(self._guard.pid) if not process.ended)

    def exit_code(self) -> int | None:
        """None while it lives; negative for the signal that ended it. What it left may live on for a moment."""
        self._hear()
        return self._said.get("exit_code", -signal.SIGKILL if self._guard_lost else None)

    def log(self) -> list[str]:
        """What it printed so far, as lines."""
        return self._log.read_text(encoding="utf-8", errors="replace").split("\n")

    async def stop(self) -> str:
        """SIGTERM, then SIGKILL to whatever is left; returns how it ended. The guard does it, and goes on when this
        is cancelled."""
        self._order.close()
        while not self._hear():  # noqa: ASYNC110 - it is another process that ends
            await asyncio.sleep(_POLL)
        self._guard.wait()
        self._reports.close()
        return self._how()

    @property
    def remains(self) -> str | None:
        """After `stop`: what of it may live on."""
        if self._guard_lost:
            return "something else ended its guard process, and what it had started may live on"
        alive = self._said.get("alive")
        return f"could not be killed: {_processes(alive)}" if alive else None

    def _hear(self) -> bool:
        """Take in what the guard has reported by now; whether it has ended."""
        with contextlib.suppress(BlockingIOError):
            while not self._over:
                self._read()
        return self._over

    def _read(self) -> None:
        part = os.read(self._reports.fileno(), 65536)
        *lines, self._unread = (self._unread + part).split(b"\n")
        for line in lines:
            self._said |= json.loads(line)
        if not part:
            self._over = True
            if self._guard_lost:
                # The guard was killed. The kernel then kills the command alone: its group is left to us.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.pid, signal.SIGKILL)

    @property
    def _guard_lost(self) -> bool:
        """Whether something ended the guard before its work was done."""
        return self._over and "pid" in self._said and "killed" not in self._said

    def _how(self) -> str:
        said = self._said
        late = f"it did not stop within {self._grace:g} s of SIGTERM"
        match said.get("by"):
            case "itself":
                how = f"had ended by itself with exit code {said['exit_code']}"
            case "SIGTERM":
                how = "stopped by SIGTERM"
            case "SIGKILL":
                how = f"killed: {late}"
            case "others":
                how = "was killed by something else while it was to stop"
            case _:
                how = "killed" if self._guard_lost else f"not ended: {late}"
        if not self._guard_lost and said["killed"]:
            together = "killed with it" if said.get("by") == "SIGKILL" else "left behind by it, and killed"
            how += f"; {together}: {_processes(said['killed'])}"
        return f"{how}; {self.remains}" if self.remains else how


def _text(word: str) -> str:
    """A word for the guard, whose own encoding is UTF-8 whatever ours is."""
    return os.fsencode(word).decode("utf-8", "surrogateescape")


def _processes(found: list[tuple[int, str]]) -> str:
    names = [f"{pid} ({name})" for pid, name in found[:_NAMED]]
    names += [f"{len(found) - _NAMED} more"] * (len(found) > _NAMED)
    return f"{len(found)} process{'es' * (len(found) > 1)}: {', '.join(names)}"
