"""The oracle as a process of its own, for the length of a `with`, and what it knows."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import urllib.request
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SERVER = Path(__file__).with_name("oracle_server.py")


@dataclass(frozen=True, slots=True)
class Truth:
    """One request as the oracle knows it; stamps are nanoseconds of CLOCK_MONOTONIC."""

    id: str | None
    body_index: Any
    last_words: str | None
    arrived_ns: int | None
    received_ns: int
    sent_before_ns: Sequence[int]
    sent_after_ns: Sequence[int]
    last_before_ns: int | None
    last_after_ns: int | None
    tokens: list[int]
    generated: int
    fault: str | None


@dataclass(frozen=True, slots=True)
class Serving:
    """An oracle that listens."""

    url: str
    port: int
    pid: int
    script: dict[str, Any]

    def truth(self, *, reset: bool = False) -> list[Truth]:
        """Every request since the last reset, in order of arrival."""
        raw = self.page("/truth.bin" + ("?reset=1" if reset else ""))
        line, _, blob = raw.partition(b"\n")
        stamps = array("q")
        stamps.frombytes(blob)
        told, at = [], 0
        for row in json.loads(line):
            count = row.pop("sent")
            before, after = stamps[at : at + count], stamps[at + count : at + 2 * count]
            told.append(Truth(**row, sent_before_ns=before, sent_after_ns=after))
            at += 2 * count
        return told

    def page(self, path: str) -> bytes:
        """GET, whatever proxy the environment names."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(self.url + path, timeout=60) as answer:
            return bytes(answer.read())


@contextlib.contextmanager
def oracle(
    script: dict[str, Any], *, host: str = "127.0.0.1", cpu: int | None = None, prefix: Sequence[str] = ()
) -> Iterator[Serving]:
    """An oracle that serves the script; `prefix` are words before its command (`ip netns exec ...`)."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "script.json"
        file.write_text(json.dumps(script), encoding="utf-8")
        command = [*prefix, sys.executable, str(SERVER), "--host", host, "--script", str(file)]
        command += ["--cpu", str(cpu)] if cpu is not None else []
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin is not None and process.stdout is not None
            try:
                said = process.stdout.readline()
                assert said, f"the oracle ended with exit code {process.wait()}"
                listens = json.loads(said)
                yield Serving(f"http://{host}:{listens['port']}", listens["port"], listens["pid"], script)
            finally:
                process.stdin.close()
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
