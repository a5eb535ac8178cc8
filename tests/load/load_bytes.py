"""Bytes that a server of the chat endpoint sends: what vLLM writes, and HTTP around it."""

from __future__ import annotations

import json
from typing import Any

MODEL = "m"
WORDS = ["Kubernetes에서 ", "GPU를 ", "쓴다. 🙂"]
TEXT = "".join(WORDS)
USAGE = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14, "prompt_tokens_details": None}


# What vLLM writes -------------------------------------------------------------------------------------


def completion(text: str = TEXT, *, model: str = MODEL, **over: Any) -> bytes:
    message = {"role": "assistant", "content": text, "tool_calls": []}
    whole = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": USAGE,
        **over,
    }
    return json.dumps(whole, ensure_ascii=False).encode()


def error_json(code: int, kind: str, message: str) -> bytes:
    return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}}).encode()


def event(value: Any) -> bytes:
    return b"data: " + (value if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False).encode()) + b"\n\n"


def delta(content: str | None, finish: str | None = None, *, model: str = MODEL, **delta: Any) -> bytes:
    said = delta if content is None else {"content": content, **delta}
    choice = {"index": 0, "delta": said, "finish_reason": finish}
    return event({"object": "chat.completion.chunk", "model": model, "choices": [choice]})


def role(model: str = MODEL) -> bytes:
    return delta("", role="assistant", model=model)


def final_usage() -> bytes:
    return event({"object": "chat.completion.chunk", "model": MODEL, "choices": [], "usage": USAGE})


DONE = event(b"[DONE]")


def events(model: str = MODEL) -> list[bytes]:
    """A whole stream: role, three words, finish reason, usage, [DONE]."""
    words = [delta(word, model=model) for word in WORDS]
    return [role(model), *words, delta("", "stop", model=model), final_usage(), DONE]


# HTTP -------------------------------------------------------------------------------------------------


def head(status: int = 200, kind: str = "application/json", **fields: str | int) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"content-type: {kind}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def plain(body: bytes, status: int = 200, kind: str = "application/json") -> bytes:
    return head(status, kind, content_length=len(body)) + body


def chunked_head(kind: str = "text/event-stream; charset=utf-8", status: int = 200) -> bytes:
    return head(status, kind, transfer_encoding="chunked")


def piece(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


END = b"0\r\n\r\n"


def sse(parts: list[bytes], kind: str = "text/event-stream; charset=utf-8") -> bytes:
    return chunked_head(kind) + b"".join(piece(part) for part in parts) + END
