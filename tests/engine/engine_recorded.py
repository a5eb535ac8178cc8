"""The recorded files, and the few steps that turn them into what a transport would have handed over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parents[1] / "recordings"
CRASHES = sorted(path.relative_to(FIXTURES).as_posix() for path in FIXTURES.glob("crashes/*.log"))
LOGS = sorted({path.relative_to(FIXTURES).as_posix() for path in FIXTURES.rglob("*.log")} - {*CRASHES})
SCRAPES = sorted(path.relative_to(FIXTURES).as_posix() for path in FIXTURES.rglob("*.prom"))
RAW_STREAMS = sorted(
    path.relative_to(FIXTURES).as_posix()
    for pattern in ("sse-kr.raw", "chat-stream.txt")
    for path in FIXTURES.rglob(pattern)
)
SOCKET_STREAMS = sorted(path.relative_to(FIXTURES).as_posix() for path in FIXTURES.rglob("stream-c*.jsonl"))
TIMED_STREAMS = sorted(path.relative_to(FIXTURES).as_posix() for path in FIXTURES.rglob("sse-kr.jsonl"))
BODIES = sorted(
    path.relative_to(FIXTURES).as_posix()
    for pattern in ("responses/*.jsonl", "bodies-*.jsonl")
    for path in FIXTURES.rglob(pattern)
)


def text(name: str) -> str:
    return (FIXTURES / name).read_text(encoding="utf-8")


def read_json(name: str) -> Any:
    return json.loads(text(name))


def served_model(name: str) -> str:
    """The model's name on the server that a file was recorded from (READMEs)."""
    return "m" if name.startswith("cpu/") else "qwen2.5-3b"


def unchunk(reads: list[tuple[float, str]]) -> list[tuple[int, bytes]]:
    """Socket reads of one HTTP/1.1 answer to (ns, body bytes): head off, chunked transfer coding off."""
    out: list[tuple[int, bytes]] = []
    head, size, framing = b"", 0, b""
    in_body = False
    for seconds, data in reads:
        piece = data.encode("utf-8")
        if not in_body:
            head += piece
            if b"\r\n\r\n" not in head:
                continue
            piece, in_body = head.split(b"\r\n\r\n", 1)[1], True
        body = b""
        while piece:
            if size:
                taken, piece = piece[:size], piece[size:]
                size -= len(taken)
                body += taken
                continue
            framing += piece[:1]
            piece = piece[1:]
            if framing.endswith(b"\r\n") and framing.strip():
                size, framing = int(framing, 16), b""
        if body:
            out.append((round(seconds * 1e9), body))
    return out


def sse(*events: object, end: bytes = b"data: [DONE]\n\n") -> bytes:
    """A stream of these events in the usual framing."""
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + end


def chunk(content: str | None = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """One chunk; keys of ``more`` go beside ``choices``, but ``delta`` and ``token_ids`` into it."""
    delta = more.pop("delta", {} if content is None else {"content": content})
    choice: dict[str, Any] = {"index": 0, "delta": delta, "finish_reason": finish}
    if "token_ids" in more:
        choice["token_ids"] = more.pop("token_ids")
    return {"object": "chat.completion.chunk", "model": "m", "choices": [choice], **more}


def usage(completion: int, prompt: int = 5) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
