"""Sources of what an engine says: recording folders, a user's own ones, and the embedded engine.

A source knows what was asked of the engine (its command, the requests that were sent) from elsewhere than its readers.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import httpx

import runner

RECORDINGS = Path(__file__).parents[1] / "recordings"
TOKENS = 24
"""Tokens of each reply that is asked of the embedded engine."""

UNREAD = {
    "*/README.md": "words for people",
    "cpu/tiny-model/*": "the model that was served",
    "crashes/*": "engines that never served: tests/engine reads them",
    "nvidia-smi/*": "what the device's monitor prints, for its stand-in",
    "*/nvidia-smi.csv": "the device's monitor, not the engine: no reader yet",
    "*/samples.csv": "a client's own samples of gauges, in a form of its own: no reader",
    "*/server.json": "how long the client waited for the start",
    "*/summary.json": "the client's own counts and times; the known requests of a window are taken from it",
    "*/timings.json": "the client's own times; the known requests of a window are taken from it",
    "*/command.json": "what was asked: expectations are taken from it",
    "*/requests-c*.json": "the client's own texts and times; the wire was not kept",
    "*/sse-kr.head.json": "the head of the stream beside it",
}
"""Files of the recordings that no reader reads, with the reason."""


@dataclass(frozen=True, slots=True)
class Window:
    """Two scrapes, and what was sent between them; None where that was not recorded."""

    name: str
    before: str
    after: str
    requests: int | None
    tokens: int | None


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream as it came off the transport. `counted`: the request asked for token ids; `running`: and for usage on
    every chunk."""

    name: str
    chunks: list[tuple[int, bytes]]
    counted: bool
    running: bool = False


@dataclass(slots=True)
class Source:
    """One engine process. `args`: argparse destination to value, as asked; `batched`: the token budget, asked or the
    platform's default; `finished`: the log goes on to the end of the start."""

    name: str
    version: str
    device: str
    model: str
    args: dict[str, Any]
    batched: int
    env: dict[str, str] = field(default_factory=dict)
    finished: bool = True
    log: str | None = None
    windows: list[Window] = field(default_factory=list)
    scrapes: dict[str, str] = field(default_factory=dict)
    replies: list[tuple[str, int, bytes]] = field(default_factory=list)
    streams: list[Stream] = field(default_factory=list)
    models: bytes | None = None
    said_version: bytes | None = None
    server_info: str | None = None
    used: set[Path] = field(default_factory=set)

    @property
    def on(self) -> bool:
        """Speculation was asked for."""
        return "spec_method" in self.args

    @property
    def release(self) -> tuple[int, ...]:
        return tuple(map(int, self.version.split(".")))

    @property
    def runner(self) -> str:
        """The model runner, by the rules of the releases (not by any log)."""
        if self.device == "CPU" or self.env.get("VLLM_USE_V2_MODEL_RUNNER") == "0":
            return "V1"
        return "V1" if self.on and self.release < (0, 32) else "V2"

    @property
    def asynchronous(self) -> str | None:
        """What the log states of async scheduling; later releases state it only where it is off for a reason."""
        off = (self.on and self.runner == "V1") or self.args.get("async_scheduling") is False
        if self.release >= (0, 32):
            return "disabled" if off and self.on else None
        return "disabled" if off or self.device == "CPU" else "enabled"

    def absent(self) -> set[str]:
        """The facts that this log cannot hold."""
        budget = {"max_num_batched_tokens"} if self.batched == 2048 or self.device == "CPU" else set()
        # the warning stands only where the budget is small
        budget |= set() if self.on and self.batched < 8192 else {"max_num_scheduled_tokens"}
        reasons = set() if self.on and self.runner == "V1" else {"async_reason"}
        chosen = self.runner == "V1" and "VLLM_USE_V2_MODEL_RUNNER" not in self.env
        reasons |= set() if chosen else {"model_runner_reason"}
        unsaid = {"async_scheduling"} if self.asynchronous is None else set()
        weights = {"model_memory_gib"} if self.device == "CPU" else set()
        cut = set() if self.finished else _LATE
        return budget | reasons | unsaid | weights | cut


_LATE = {"unsupported_sampling", "kv_cache_tokens", "max_concurrency", "model_memory_gib", "startup_complete"}


# ------------------------------------------------------------------------------------------------------
# Recordings


def arguments(command: list[str]) -> dict[str, Any]:
    """The options of a recorded command, by argparse destination."""
    found: dict[str, Any] = {}
    words = command[command.index("serve") + 2 :]
    while words:
        name = words.pop(0).removeprefix("--").replace("-", "_")
        if not words or words[0].startswith("--"):
            found[name.removeprefix("no_")] = not name.startswith("no_")
        else:
            value = words.pop(0)
            found[name] = json.loads(value) if re.fullmatch(r"\d+(?:\.\d+)?", value) else value
    return found


CPU_COMMAND = "vllm serve m --max-model-len 2048 --max-num-seqs 4 --enforce-eager --served-model-name m"
NGRAM = " --spec-method ngram --spec-tokens 5"


@cache
def recorded() -> tuple[Source, ...]:
    """Every recording folder of the repository, and the one log without a folder."""
    logs = {path.parent for path in RECORDINGS.rglob("*.log")} - {RECORDINGS / "crashes"}
    folders = sorted(logs | set(RECORDINGS.glob("cpu/*-ids/*")))
    return tuple(_stage() if folder.name == "h200" else folder_source(folder, RECORDINGS) for folder in folders)


def _stage() -> Source:
    path = RECORDINGS / "h200" / "config-stage-b2048-no-gpu.log"
    command = (
        "vllm serve /models/qwen2.5-3b-shape --port 8801 --max-model-len 4096 --enforce-eager --max-num-seqs 16"
        " --gpu-memory-utilization 0.22 --served-model-name qwen2.5-3b --max-num-batched-tokens 2048" + NGRAM
    )
    source = Source("h200/config-stage-b2048-no-gpu", "0.26.0", "GPU", "qwen2.5-3b", arguments(command.split()), 2048)
    source.finished, source.log, source.used = False, _text(path), {path}
    return source


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8")


def folder_source(folder: Path, root: Path) -> Source:
    """A folder of the layout in docs/recordings.md."""
    name = folder.relative_to(root).as_posix()
    asked = _json(folder / "command.json")
    if asked is None:
        command = (CPU_COMMAND + (NGRAM if folder.name == "on" else "")).split()
        asked = {
            "command": command,
            "version": next(iter(re.findall(r"\d+\.\d+\.\d+", name)), "0.26.0"),
            "device": "CPU",
        }
    args = arguments(asked.get("command") or asked["argv"])
    if asked.get("device") == "CPU":
        args["kv_cache_memory_bytes"] = "64M"
    device = asked.get("device", "GPU")
    batched = args.get("max_num_batched_tokens", 2048 if device == "CPU" else 8192)
    source = Source(
        name,
        asked.get("version", "0.26.0"),
        device,
        args.get("served_model_name", "m"),
        args,
        batched,
        asked.get("env", {}),
    )
    for path in sorted(folder.rglob("*")):
        if path.is_file() and _take(source, path):
            source.used.add(path)
    _pair(source, folder)
    return source


def _json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8")) if path.exists() else None


def _take(source: Source, path: Path) -> bool:
    """Keep a file by what it is; False where no reader reads it."""
    match path.name:
        case name if name.endswith(".log"):
            source.log = _text(path)
        case name if name.endswith(".prom"):
            source.scrapes[path.stem] = _text(path)
        case "server_info.json":
            source.server_info = _text(path)
        case "models.json" | "version.json":
            body = _json(path)
            raw = json.dumps(body.get("body", body)).encode()
            if path.name == "models.json":
                source.models = raw
            else:
                source.said_version = raw
        case "hello.json":
            answers = _json(path)
            source.models = answers["/v1/models"]["body"].encode()
            source.said_version = answers["/version"]["body"].encode()
        case "chat.json":
            answer = _json(path)
            source.replies.append((path.stem, answer["status"], json.dumps(answer["body"]).encode()))
        case "errors.json" | "invalid.json":
            for name, answer in _json(path).items():
                body = answer["body"]
                raw = (body if isinstance(body, str) else json.dumps(body)).encode()
                source.replies.append((name, answer["status"], raw))
        case "sse-kr.raw" | "chat-stream.txt":
            source.streams.append(Stream(path.name, [(0, path.read_bytes())], counted=False))
        case "sse-kr.jsonl":
            pieces = [json.loads(line) for line in _text(path).splitlines()]
            chunks = [(round(piece["t"] * 1e9), piece["data"].encode()) for piece in pieces]
            source.streams.append(Stream(path.name, chunks, counted=False))
        case name if name.startswith("stream-") and name.endswith(".jsonl"):
            for number, line in enumerate(_text(path).splitlines(), 1):
                chunks = unchunk([(s, data.encode()) for s, data in json.loads(line)["reads"]])
                source.streams.append(Stream(f"{path.stem}-{number}", chunks, counted=True))
        case name if name.endswith(".jsonl") and (name.startswith("bodies-") or path.parent.name == "responses"):
            source.replies += [(path.stem, 200, line.encode()) for line in _text(path).splitlines()]
        case _:
            return False
    return True


def unchunk(reads: list[tuple[float, bytes]]) -> list[tuple[int, bytes]]:
    """Socket reads of one chunked HTTP/1.1 answer to (ns, body bytes)."""
    stream = b"".join(data for _, data in reads)
    stamps = [round(seconds * 1e9) for seconds, data in reads for _ in data]  # of every byte
    at = stream.index(b"\r\n\r\n") + 4
    out: dict[int, bytes] = {}
    while size := int(stream[at : (start := stream.index(b"\r\n", at))], 16):
        for place in range(start + 2, start + 2 + size):
            out[stamps[place]] = out.get(stamps[place], b"") + stream[place : place + 1]
        at = start + 2 + size + 2
    return sorted(out.items())


def _pair(source: Source, folder: Path) -> None:
    """Windows of the folder, with the requests that the client counted."""
    known: dict[str, tuple[int | None, int | None]] = {}
    for name, entry in ((_json(folder / "timings.json") or {}) | (_json(folder / "requests.json") or {})).items():
        if isinstance(entry, dict):
            requests = entry.get("requests", [])
            count = requests if isinstance(requests, int) else entry.get("n") or len(requests)
            tokens = (
                [one["usage"][1] if isinstance(one, dict) else one[3] for one in requests or []]
                if not isinstance(requests, int)
                else []
            )
            known[name] = count, entry.get("completion_tokens") or sum(tokens) or entry.get("tokens")
    if summary := _json(folder / "summary.json"):
        # and one chat, plain and streamed, of 96 tokens each
        rounds = [entry for entry in summary.values() if isinstance(entry, dict) and "requests" in entry]
        known["metrics"] = (
            sum(entry["requests"] for entry in rounds) + 2,
            sum(entry["completion_tokens"] for entry in rounds) + 2 * 96,
        )
    elif (bodies := folder / "bodies-c1.jsonl").exists():
        counts = [json.loads(line)["usage"]["completion_tokens"] for line in _text(bodies).splitlines()]
        known["metrics"] = len(counts), sum(counts)
    for stem in sorted(source.scrapes):
        name = stem.removesuffix("-before")
        if name != stem and (after := source.scrapes.get(f"{name}-after")):
            source.windows.append(Window(name, source.scrapes[stem], after, *known.get(name, (None, None))))


# ------------------------------------------------------------------------------------------------------
# The embedded engine

EMBEDDED = (
    ("article", "0.26.0", False), ("article", "0.26.0", True),
    ("h200", "0.26.0", False), ("h200", "0.26.0", True),
    ("cpu", "0.26.0", False), ("cpu", "0.26.0", True),
    ("cpu", "0.32.0", False), ("cpu", "0.32.0", True),
    ("article", "0.33.0", True),
)  # fmt: skip


def embedded_name(profile: str, version: str, on: bool) -> str:
    return f"embedded/{profile}-{version}-{'on' if on else 'off'}"


@cache
def embedded(profile: str, version: str, on: bool) -> Source:
    """Start the embedded engine, send known requests, stop it; once in a session."""
    command = f"{sys.executable} -m runner.simulator serve some/model --host 127.0.0.1 --port 0 --served-model-name m"
    command += " --max-model-len 2048 --enforce-eager --max-num-seqs 4" + (NGRAM if on else "")
    device = "CPU" if profile == "cpu" else "GPU"
    args = arguments(command.split())
    if device == "CPU":
        command, args = command + " --kv-cache-memory-bytes 64M", args | {"kv_cache_memory_bytes": "64M"}
    batched = 8192 if profile == "h200" else 2048
    source = Source(embedded_name(profile, version, on), version, device, "m", args, batched)
    environment = {
        "SIMULATOR_PROFILE": profile,
        "SIMULATOR_VERSION": version,
        "SIMULATOR_TIME_SCALE": "0.001",
        "VLLM_SERVER_DEV_MODE": "1",
        "PYTHONPATH": str(Path(runner.__file__).parents[1]),
    }
    process = subprocess.Popen(
        command.split(),
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdout is not None
    lines: list[bytes] = []
    try:
        for line in process.stdout:
            lines.append(line)
            if b"Application startup complete" in line:
                break
        address = re.search(rb"Starting vLLM server on http://127.0.0.1:(\d+)", b"".join(lines))
        assert address, b"".join(lines)
        _converse(source, int(address[1]))
        process.terminate()
        lines += process.communicate(timeout=30)[0].splitlines(keepends=True)
    finally:
        with contextlib.suppress(OSError):
            process.kill()
        process.wait()
        process.stdout.close()
    source.log = b"".join(lines).decode()
    return source


ASKED = {
    "messages": [{"role": "user", "content": "one two three one two three one two"}],
    "temperature": 0,
    "model": "m",
}
WHOLE = {**ASKED, "max_tokens": TOKENS, "ignore_eos": True, "return_token_ids": True}
REFUSED = {
    "wrong-model": (404, {**ASKED, "model": "nope"}),
    "negative-max-tokens": (400, {**ASKED, "max_tokens": -1}),
    "temperature": (400, {**ASKED, "temperature": "hot"}),
    "no-messages": (400, {"model": "m"}),
}


def _converse(source: Source, port: int) -> None:
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30, trust_env=False) as client:
        source.said_version, source.models = client.get("/version").content, client.get("/v1/models").content
        source.server_info = client.get("/server_info", params={"config_format": "json"}).text
        before = client.get("/metrics").text
        for _ in range(3):
            answer = client.post("/v1/chat/completions", json=WHOLE)
            source.replies.append(("whole", answer.status_code, answer.content))
        options = {"include_usage": True, "continuous_usage_stats": True}
        body = {**WHOLE, "stream": True, "stream_options": options}
        source.streams.append(Stream("stream", list(_socket_stream(port, body)), counted=True, running=True))
        for name, (status, refused) in REFUSED.items():
            answer = client.post("/v1/chat/completions", json=refused)
            assert answer.status_code == status, answer.text
            source.replies.append((name, answer.status_code, answer.content))
        after = _settled(client)
    source.scrapes = {"before": before, "after": after}
    source.windows.append(Window("requests", before, after, 4, 4 * TOKENS))


def _settled(client: httpx.Client) -> str:
    """The scrape after the last reply was counted: a scrape may overtake the counting of it."""
    for _ in range(300):
        text = client.get("/metrics").text
        done = sum(
            float(value) for value in re.findall(r"^vllm:request_success_total\{.*\} (\S+)$", text, re.MULTILINE)
        )
        if done >= 4:
            return text
        time.sleep(0.02)
    raise AssertionError("the engine never finished four requests")


def _socket_stream(port: int, body: dict[str, Any]) -> Iterator[tuple[int, bytes]]:
    raw = json.dumps(body).encode()
    head = "POST /v1/chat/completions HTTP/1.1\r\nHost: e\r\nContent-Type: application/json\r\nConnection: close\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(head.encode() + b"Content-Length: %d\r\n\r\n" % len(raw) + raw)
        reads: list[tuple[float, bytes]] = []
        while data := connection.recv(300):  # small reads: events and characters are cut anywhere
            reads.append((len(reads) / 1000, data))
    yield from unchunk(reads)
