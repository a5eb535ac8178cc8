"""One HTTP/1.1 answer as it was saved: with its head, as socket reads, or as the body's pieces with their times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .reply import load_json


class SocketReadsError(ValueError):
    """The record cannot be read; ``line`` counts from 1 inside it."""

    def __init__(self, words: str, line: int = 1) -> None:
        super().__init__(words)
        self.line = line


@dataclass(frozen=True, slots=True)
class Answer:
    """``chunks``: (nanoseconds, body bytes). ``stamped``: the times were recorded and are not made up."""

    status: int
    content_type: str | None
    chunks: list[tuple[int, bytes]]
    stamped: bool


def http_answer(record: str | bytes) -> Answer:
    """Read one record: bytes that begin with the head (``curl --include``), a JSON object whose ``reads`` are
    ``[seconds, text]`` as a socket gave them (head and transfer coding included), or lines ``{"t": seconds, "data":
    text}`` of the body alone.

    Raises SocketReadsError for any other form, and for a chunked body that breaks off.
    """
    if isinstance(record, bytes):
        head, body = _split_head(record)
        # curl takes the transfer coding off
        return Answer(_status(head), _header(head, b"content-type"), [(0, body)] if body else [], stamped=False)
    lines = record.split("\n")
    parsed = [_object(line, number) for number, line in enumerate(lines, 1)]
    if "reads" in parsed[0]:
        return _from_reads(list(_pieces(parsed[0]["reads"])))
    pieces = list(_pieces([one.get("t"), one.get("data")] for one in parsed))
    return Answer(200, "text/event-stream", pieces, stamped=True)


def _object(line: str, number: int) -> dict[str, Any]:
    try:
        found = load_json(line)
    except ValueError as error:
        raise SocketReadsError(f"no JSON: {error}", number) from error
    if not isinstance(found, dict):
        raise SocketReadsError("no JSON object", number)
    return found


def _pieces(reads: Any) -> Iterator[tuple[int, bytes]]:
    for number, read in enumerate(reads, 1):
        match read:
            case [int() | float() as seconds, str() as text]:
                yield round(seconds * 1e9), text.encode("utf-8", "surrogateescape")
            case _:
                raise SocketReadsError("a read must be seconds and text", number)


def _split_head(data: bytes) -> tuple[bytes, bytes]:
    for end in (b"\r\n\r\n", b"\n\n"):
        head, found, body = data.partition(end)
        if found:
            return head, body
    raise SocketReadsError("the head of the answer has no end")


def _status(head: bytes) -> int:
    words = head.split(b"\n", 1)[0].split()
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        raise SocketReadsError("no HTTP status line")
    return int(words[1])


def _header(head: bytes, name: bytes) -> str | None:
    for line in head.splitlines()[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name:
            return value.strip().decode("latin-1")
    return None


def _from_reads(reads: list[tuple[int, bytes]]) -> Answer:
    """Head off, transfer coding off; each piece of the body keeps the time of its read."""
    before = b""
    for number, (stamp, data) in enumerate(reads):
        before += data
        if b"\r\n\r\n" in before:
            head, rest = _split_head(before)
            body = [(stamp, rest), *reads[number + 1 :]]
            if (_header(head, b"transfer-encoding") or "").lower() == "chunked":
                body = list(_unchunked(body))
            return Answer(_status(head), _header(head, b"content-type"), [one for one in body if one[1]], stamped=True)
    raise SocketReadsError("the head of the answer has no end")


def _unchunked(reads: list[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    left, framing, ended = 0, b"", False
    for stamp, data in reads:
        at, body = 0, b""
        while at < len(data) and not ended:
            if left:
                body += data[at : at + left]
                taken = min(left, len(data) - at)
                at, left = at + taken, left - taken
                continue
            framing += data[at : at + 1]
            at += 1
            if framing.endswith(b"\r\n") and framing.strip():
                left, ended = _size(framing)
                framing = b""
        yield stamp, body


def _size(framing: bytes) -> tuple[int, bool]:
    digits = framing.strip().partition(b";")[0]
    try:
        size = int(digits, 16)
    except ValueError as error:
        raise SocketReadsError(f"no chunk size: {framing[:20]!r}") from error
    return size, size == 0
