"""A program of this machine, as a target would run it beside an engine: its lines as they come, and its end."""

import os
import select
import subprocess
import time

from runner.target.base import EndOfLines


class ProcessLines:
    """Its output with stderr among it. What is left without an end when it ends is a line, too: the reader must bear
    it."""

    def __init__(self, command: list[str], env: dict[str, str]) -> None:
        try:
            self.process = subprocess.Popen(
                command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
        except FileNotFoundError:
            raise OSError(f"{command[0]}: executable file not found in $PATH") from None
        self._buffer = b""
        self.closed = 0

    def read(self, timeout: float) -> str | None:
        assert self.process.stdout is not None
        assert not self.closed, "read after close"
        deadline = time.monotonic() + timeout
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return None
            came = os.read(self.process.stdout.fileno(), 4096)
            if not came:
                if self._buffer:
                    line, self._buffer = self._buffer, b""
                    return line.decode()
                raise EndOfLines(f"exit code {self.process.wait()}")
            self._buffer += came
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode()

    def close(self) -> None:
        self.closed += 1
        if self.process.stdout is not None and not self.process.stdout.closed:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
