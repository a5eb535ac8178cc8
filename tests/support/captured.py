"""The answers in a run's captures, by their documented format and by nothing of the runner's own."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any


def answers(directory: Path, name: str) -> dict[int, Any]:
    """What each request of one capture, such as `on-1/load-c4-r1`, was answered: JSON, by the request's number."""
    data = gzip.decompress((directory / "artifacts" / f"{name}.capture.gz").read_bytes())
    _, _, rest = data.partition(b"\n")
    found = {}
    while True:
        line, _, rest = rest.partition(b"\n")
        one = json.loads(line)
        if "closing" in one:
            return found
        stamps = 32 * one["reads"]  # four int64 for each read
        found[one["index"]] = json.loads(_body(rest[stamps : stamps + one["size"]]))
        rest = rest[stamps + one["size"] + 1 :]


def _body(response: bytes) -> bytes:
    head, _, body = response.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" not in head.lower():
        return body
    whole = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        whole, body = whole + body[: int(size, 16)], body[int(size, 16) + 2 :]
    return whole
