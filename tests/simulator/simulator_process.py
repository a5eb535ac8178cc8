"""A real engine process on a free port, and the prompts that the tests send."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx

import runner

SENTENCE = "Kubernetes에서 GPU를 사용하려면 RuntimeClass와 Device Plugin이 필요하다."
REPEAT = f"다음 문장을 그대로 세 번 반복한 뒤, 각 반복이 동일한지 확인해줘: {SENTENCE}"
ARTICLE_FLAGS = (
    "--host", "127.0.0.1", "--port", "0",
    "--served-model-name", "m", "--max-model-len", "4096", "--enforce-eager", "--max-num-seqs", "16",
    "--gpu-memory-utilization", "0.22",
)  # fmt: skip
SPECULATION = ("--spec-method", "ngram", "--spec-tokens", "5")


class EngineProcess:
    """`python -m runner.simulator serve ...`, its log, and a client for it."""

    def __init__(self, *flags: str, faults: Any = None, scale: str = "0.001", **environment: str) -> None:
        self.log: list[str] = []
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "runner.simulator",
                "serve",
                "some/model",
                *ARTICLE_FLAGS,
                *flags,
            ],
            env={
                **os.environ,
                "SIMULATOR_TIME_SCALE": scale,
                "SIMULATOR_FAULTS": json.dumps(faults or []),
                "PYTHONPATH": str(Path(runner.__file__).parents[1]),
                **environment,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.client: httpx.Client | None = None

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.log.append(line.rstrip("\n"))

    @property
    def text(self) -> str:
        return "\n".join(self.log)

    def wait_for(self, pattern: str, seconds: float = 15) -> re.Match[str]:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = re.search(pattern, self.text)
            if found:
                return found
            if self.process.poll() is not None:
                self._reader.join(2)
                found = re.search(pattern, self.text)
                assert found, self.text
                return found
            time.sleep(0.01)
        raise AssertionError(f"{pattern!r} never came in\n{self.text}")

    def ready(self) -> EngineProcess:
        address = self.wait_for(r"Starting vLLM server on (http://\S+)").group(1)
        self.wait_for("Application startup complete")
        self.client = httpx.Client(base_url=address, timeout=20, trust_env=False)
        return self

    @property
    def http(self) -> httpx.Client:
        assert self.client is not None
        return self.client

    def chat(self, prompt: str = REPEAT, **fields: Any) -> httpx.Response:
        body = {
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": 256,
            "temperature": 0,
            **fields,
        }
        return self.http.post("/v1/chat/completions", json=body)

    def chunks(self, prompt: str = REPEAT, **fields: Any) -> list[dict[str, Any]]:
        """Events of a stream, without [DONE], which must come last."""
        lines = self.chat(prompt, stream=True, **fields).text.strip().split("\n\n")
        assert lines[-1] == "data: [DONE]"
        return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]

    def series(self) -> dict[str, float]:
        """Every sample of /metrics by its text name, labels included."""
        found = {}
        for line in self.http.get("/metrics").text.splitlines():
            if line and not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                found[name] = float(value)
        return found

    def metric(self, name: str, **labels: str) -> float:
        """A `vllm:` sample of engine 0 and model m."""
        given = {"engine": "0", "model_name": "m", **labels}
        text = ",".join(f'{key}="{given[key]}"' for key in sorted(given))
        return self.series()[f"vllm:{name}{{{text}}}"]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(5)
        finally:
            self._reader.join(2)

    def close(self) -> None:
        if self.client:
            self.client.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join(2)
        if self.process.stdout:
            self.process.stdout.close()
