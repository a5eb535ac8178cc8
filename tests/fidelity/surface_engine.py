"""The embedded engine, started with a recorded command, and what it showed to the recorded kinds of requests."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

import runner

CHAT = "/v1/chat/completions"
SENTENCE = "Kubernetes에서 GPU를 사용하려면 RuntimeClass와 Device Plugin이 필요하다."
PROMPT = f"다음 문장을 그대로 세 번 반복한 뒤, 각 반복이 동일한지 확인해줘: {SENTENCE}"


@dataclass(frozen=True)
class Answer:
    """One HTTP answer; `body` is parsed JSON or, where it is none, the text."""

    status: int
    headers: Mapping[str, str]
    body: Any


@dataclass
class Engine:
    """A running process; `log` is complete once `stop` has returned."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    model: str
    log: str = ""
    _output: Any = field(default_factory=tempfile.TemporaryFile)
    _process: Any = None
    _client: Any = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "runner.simulator", *self.arguments],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env={
                **{name: value for name, value in os.environ.items() if not name.startswith("VLLM_")},
                "PYTHONPATH": str(Path(runner.__file__).parents[1]),
                "SIMULATOR_TIME_SCALE": "0.1",
                "VLLM_LOG_STATS_INTERVAL": "0.2",
                **self.environment,
            },
        )
        address = self.wait_for(r"Starting vLLM server on http://[\d.]+:(\d+)(?s:.*)Application startup complete")
        self.port = int(address.group(1))
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=30, trust_env=False)

    def wait_for(self, pattern: str, seconds: float = 60) -> re.Match[str]:
        """Raises AssertionError with the log if the pattern does not come."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = re.search(pattern, self.read_log())
            if found:
                return found
            assert self._process.poll() is None, self.read_log()
            time.sleep(0.02)
        raise AssertionError(f"{pattern!r} never came in\n{self.read_log()}")

    def read_log(self) -> str:
        size = os.fstat(self._output.fileno()).st_size
        return os.pread(self._output.fileno(), size, 0).decode()

    def stop(self) -> None:
        self._client.close()
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(20)
        self.log = self.read_log()

    def close(self) -> None:
        """End what is still there."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._output.close()

    # -- requests ------------------------------------------------------------------------------------------

    def get(self, path: str) -> Answer:
        return _answer(self._client.get(path))

    def scrape(self) -> str:
        return str(self._client.get("/metrics").text)

    def post(self, body: Any) -> Answer:
        """`body` is sent as JSON, a text as it stands."""
        content = body if isinstance(body, str) else json.dumps(body)
        return _answer(self._client.post(CHAT, content=content, headers={"content-type": "application/json"}))

    def chat(self, **fields: Any) -> Answer:
        return self.post(self.request(**fields))

    def request(self, **fields: Any) -> dict[str, Any]:
        messages = [{"role": "user", "content": PROMPT}]
        return {"model": self.model, "messages": messages, "max_tokens": 96, "temperature": 0, **fields}

    def replay(self, traffic: Sequence[tuple[str, str, str]]) -> None:
        """Send a request for each (handler, method, status class) that this engine knows."""
        for handler, method, status in traffic:
            if (handler, method) == (CHAT, "POST"):
                self.chat(**({} if status == "2xx" else {"max_tokens": -1}))
            elif (handler, method) == ("/v1/models", "GET"):
                self.get(handler)
            elif (handler, status) == ("none", "4xx"):
                self.get("/v1/nope")

    def stream(self, **fields: Any) -> list[tuple[float, str]]:
        """(seconds, text) of each read of the socket, head first, for a streamed chat."""
        body = json.dumps(self.request(stream=True, **fields)).encode()
        head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n"
        reads = []
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            connection.sendall(head.encode() + f"content-length: {len(body)}\r\n\r\n".encode() + body)
            while piece := connection.recv(1 << 16):
                reads.append((time.monotonic(), piece))
        return [(moment, piece.decode()) for moment, piece in reads]


def _answer(response: httpx.Response) -> Answer:
    body: Any = response.text
    with contextlib.suppress(json.JSONDecodeError):
        body = response.json()
    return Answer(response.status_code, dict(response.headers), body)


@contextlib.contextmanager
def running(arguments: Sequence[str], environment: Mapping[str, str], model: str) -> Iterator[Engine]:
    """An engine that ends with the block, at once if the block has not stopped it."""
    engine = Engine(arguments, environment, model)
    try:
        engine.start()
        yield engine
    finally:
        engine.close()
