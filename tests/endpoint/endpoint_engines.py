"""Servers that run already: embedded engines that a test starts by itself, as somebody else would have."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import re
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import runner
from runner.record.record import Record, read_record

ROOT = Path(runner.__file__).parents[1]
MODEL = "org/model"
FLAGS = ("--served-model-name", "m", "--max-model-len", "4096", "--enforce-eager", "--max-num-seqs", "4")
NGRAM = ("--spec-method", "ngram", "--spec-tokens", "5")
DEVELOPMENT = {"VLLM_SERVER_DEV_MODE": "1"}
SENTENCE = "The quick brown fox jumps over the lazy dog near the old stone bridge by the river bank."
SPEC: dict[str, Any] = {
    "name": "there",
    "engine": {"version": "0.26.0"},
    "model": MODEL,
    "args": {"served-model-name": "m", "max-model-len": 4096, "enforce-eager": True, "max-num-seqs": 4},
    "conditions": {
        "off": {},
        "on": {
            "args": {"spec-method": "ngram", "spec-tokens": 5},
            "side-effects": {"async-scheduling": "disabled"},
        },
    },
    "prompts": {"repeat": {"messages": [{"role": "user", "content": f"Repeat this sentence three times: {SENTENCE}"}]}},
    "request": {"model": "m", "max_tokens": 128, "temperature": 0},
    "phases": {"load": {"concurrency": [2], "requests": 8, "rounds": 2}},
    "limits": {"idle-seconds": 30},
    "invariants": {"same-output": {}},
}
Edit = Callable[[dict[str, Any]], Any]


class Server:
    """One embedded engine on a free port."""

    def __init__(self, folder: Path, *flags: str, model: str = MODEL, scale: float = 0.02, **env: str) -> None:
        self.log = folder / f"server-{time.monotonic_ns()}.log"
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "runner.simulator", "serve", model,
                 "--host", "127.0.0.1", "--port", "0", *FLAGS, *flags],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT), "SIMULATOR_TIME_SCALE": str(scale), **env},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )  # fmt: skip
        self.url = self._wait(r"Starting vLLM server on (http://\S+)")
        self._wait("(Application startup complete)")

    def _wait(self, pattern: str, seconds: float = 30) -> str:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.process.poll() is None:
            if found := re.search(pattern, self.log.read_text("utf-8")):
                return found[1]
            time.sleep(0.02)
        raise AssertionError(self.log.read_text("utf-8"))

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        if self.alive:
            self.kill()


@contextlib.contextmanager
def serving(*servers: Server) -> Iterator[None]:
    try:
        yield
    finally:
        for server in servers:
            server.close()


@contextlib.contextmanager
def relayed(url: str) -> Iterator[str]:
    """Another URL of the same server."""
    there = urlsplit(url)

    class Relay(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.create_connection((there.hostname, there.port)) as server:
                back = threading.Thread(target=_pass_on, args=(server, self.request))
                back.start()
                _pass_on(self.request, server)
                back.join()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Relay) as relay:
        serves = threading.Thread(target=relay.serve_forever, kwargs={"poll_interval": 0.02})
        serves.start()
        try:
            yield f"http://127.0.0.1:{relay.server_address[1]}"
        finally:
            relay.shutdown()
            serves.join()


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while part := source.recv(65536):
            sink.sendall(part)
        sink.shutdown(socket.SHUT_WR)


@dataclass(frozen=True)
class Finished:
    code: int
    out: str
    err: str
    folder: Path

    @property
    def directory(self) -> Path:
        return self.folder / self.out.splitlines()[-1]

    @property
    def report(self) -> str:
        return (self.directory / "report.md").read_text("utf-8")

    @property
    def result(self) -> Any:
        return json.loads((self.directory / "result.json").read_text("utf-8"))

    @property
    def record(self) -> Record:
        return read_record(self.directory)

    def judgement(self, check: str) -> str:
        [found] = [one["judgement"] for one in self.result["checks"] if one["check"] == check]
        return str(found)


def write(folder: Path, urls: dict[str, str], *edits: Edit) -> None:
    spec = copy.deepcopy(SPEC)
    for edit in edits:
        edit(spec)
    (folder / "spec.yaml").write_text(json.dumps(spec), encoding="utf-8")
    (folder / "there.yaml").write_text(json.dumps({"endpoint": {"urls": urls}}), encoding="utf-8")


def start(folder: Path) -> subprocess.Popen[str]:
    env = {name: value for name, value in os.environ.items() if name not in ("RUNNER_TARGET", "KUBECONFIG")}
    return subprocess.Popen(
        [sys.executable, "-m", "runner", "spec.yaml", "--target", "endpoint", "--site", "there.yaml"],
        cwd=folder,
        env={**env, "HOME": "/nonexistent", "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(folder: Path, process: subprocess.Popen[str]) -> Finished:
    out, err = process.communicate(timeout=200)
    return Finished(process.returncode, out, err, folder)


def run(folder: Path, urls: dict[str, str], *edits: Edit) -> Finished:
    """A whole experiment through the command line, against servers that are there."""
    write(folder, urls, *edits)
    return finish(folder, start(folder))


def allow(*checks: str) -> Edit:
    def edit(spec: dict[str, Any]) -> None:
        for name in checks:
            spec["invariants"][name] = {"allow-inconclusive": True}

    return edit
