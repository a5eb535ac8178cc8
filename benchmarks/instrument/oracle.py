"""The oracle server as a process of its own on a core of its own, and what it tells of each request."""

from __future__ import annotations

import array
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

SERVER = Path(__file__).parents[2] / "tests" / "oracle" / "oracle_server.py"
_ASK = """
import sys, urllib.request as u
sys.stdout.buffer.write(u.build_opener(u.ProxyHandler({})).open(sys.argv[1], timeout=60).read())
"""
"""A process of its own: the server may be in a network namespace, where only such a one gets."""


@dataclass(frozen=True, slots=True)
class Served:
    """One request as the oracle saw it; stamps are nanoseconds of CLOCK_MONOTONIC.

    `arrived_ns` is the kernel's stamp of its arrival where there is one, else when the oracle had read it. `sent_ns`
    are taken right after the send of each event, `before_ns` right before it. `ended_ns` is None for a request
    that was not answered to its end.
    """

    words: str | None
    arrived_ns: int
    before_ns: Sequence[int]
    sent_ns: Sequence[int]
    ended_ns: int | None

    @property
    def first_ns(self) -> int | None:
        """Right before the first event."""
        return self.before_ns[0] if self.before_ns else None


class Oracle:
    """A server for one script. `prefix` is put before its command: a network namespace to be in."""

    def __init__(
        self, script: dict[str, Any], folder: Path, *, cpu: int, host: str = "127.0.0.1", prefix: Sequence[str] = ()
    ) -> None:
        path = folder / "script.json"
        path.write_text(json.dumps(script), "utf-8")
        self._command = [*prefix, sys.executable, str(SERVER), "--port", "0", "--host", host, "--script", str(path)]
        self._command += ["--cpu", str(cpu)]
        self._host, self._prefix = host, prefix
        self.url, self.pid = "", 0

    def __enter__(self) -> Self:
        self._child = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._child.stdout is not None
        told = json.loads(self._child.stdout.readline() or b"null")
        if told is None:
            raise RuntimeError(f"the oracle did not start: exit code {self._child.wait()}")
        self.url, self.pid = f"http://{self._host}:{told['port']}", told["pid"]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.kill()
        self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                pipe.close()

    def truth(self) -> list[Served]:
        """All requests since it started, in order of arrival."""
        asks = [*self._prefix, sys.executable, "-c", _ASK, f"{self.url}/truth.bin"]
        return read_truth(subprocess.run(asks, check=True, capture_output=True).stdout)


def read_truth(data: bytes) -> list[Served]:
    """From the oracle's binary page: a line with a JSON list, then the stamps of each request, before and after."""
    head, _, rest = data.partition(b"\n")
    stamps = array.array("q")
    stamps.frombytes(rest)
    found, at = [], 0
    for row in json.loads(head):
        before, after = stamps[at : at + row["sent"]], stamps[at + row["sent"] : at + 2 * row["sent"]]
        at += 2 * row["sent"]
        arrived = row["arrived_ns"] if row["arrived_ns"] is not None else row["received_ns"]
        found.append(Served(row["last_words"], arrived, before, after, row["last_after_ns"]))
    return found
