"""A run under way whose lines on the terminal are heard with their times, to be compared with what a Recorder saw."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from cluster import Namespace, Object
from finished_run import Finished


class Watched:
    """`run WORDS`, its standard error read line by line as it comes."""

    def __init__(self, namespace: Namespace, folder: Path, *words: str, inside: bool = True) -> None:
        self._namespace, self._folder = namespace, folder
        self.process = namespace.start(folder, *words, inside=inside)
        self.said: list[tuple[float, str]] = []
        """Seconds since the epoch, and the line."""
        self._stdout = ""
        self._readers = [threading.Thread(target=one, daemon=True) for one in (self._hear, self._keep)]
        for reader in self._readers:
            reader.start()

    def until(self, words: str, seconds: float = 120) -> float:
        """Wait for a line with these words; when it was said."""

        def heard() -> list[tuple[float, str]]:
            return [one for one in self.said if words in one[1]] or self._over()

        try:
            found: list[tuple[float, str]] = self._namespace.wait(f"the run says {words!r}", heard, seconds)
            assert words in found[0][1], f"it never said {words!r}:\n{self.text}"
        except BaseException:
            self._end()  # else what it leaves open fails the next test, too
            raise
        return found[0][0]

    def _over(self) -> list[tuple[float, str]]:
        return [] if self.process.poll() is None else [(time.time(), "the run has ended")]

    @property
    def text(self) -> str:
        return "".join(line for _, line in self.said)

    def finish(self, seconds: float = 300) -> Finished:
        """Wait for its end. One that hangs is told to restore what it changed, and the test fails."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._end()
            raise AssertionError(f"the run did not end within {seconds} s:\n{self.text}") from None
        self._end()
        return Finished(self.process.returncode, self._stdout, self.text, self._folder)

    def _end(self) -> None:
        """Have it restore what it changed, where it still runs, and close what led to it."""
        self.process.terminate()
        try:
            self.process.wait(120)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for reader in self._readers:
            reader.join(10)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()

    def _hear(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append((time.time(), line))

    def _keep(self) -> None:
        assert self.process.stdout is not None
        self._stdout = self.process.stdout.read()


def container_status(pod: Object) -> Object:
    """The first container's status; empty where there is none yet."""
    found: list[Object] = pod.get("status", {}).get("containerStatuses") or [{}]
    return found[0]


def terminated(pod: Object) -> bool:
    """Whether its first container has ended once."""
    status = container_status(pod)
    return any("terminated" in (status.get(state) or {}) for state in ("state", "lastState"))


def waits(*reasons: str) -> Callable[[Object], bool]:
    """Whether a Pod's first container waits for one of these reasons."""
    return lambda pod: ((container_status(pod).get("state") or {}).get("waiting") or {}).get("reason") in reasons


def unschedulable(pod: Object) -> bool:
    return any(
        one.get("type") == "PodScheduled" and one.get("status") == "False"
        for one in pod.get("status", {}).get("conditions") or []
    )
