"""The job of a plain client, and its result."""

from __future__ import annotations

import gc
import json
import re
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from instrument.cell import MODEL, prompt

PATH = "/v1/chat/completions"
HEADERS = {"content-type": "application/json", "accept-encoding": "identity"}
CONTENT = re.compile(rb'"delta":\{"content":')
"""The oracle writes its token events like this; the role chunk has its role first, the usage chunk no delta."""


@dataclass(slots=True)
class Exchange:
    """One request: sent, ended and the stamp of each read in nanoseconds of CLOCK_MONOTONIC, and what was read."""

    number: int
    sent_ns: int = 0
    ended_ns: int = 0
    at_ns: list[int] = field(default_factory=list)
    data: list[bytes] = field(default_factory=list)
    failed: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """Where to, how many, how many at once, and where the result goes."""

    url: str
    requests: int
    concurrency: int
    result: Path

    @property
    def host(self) -> str:
        """Of the server."""
        return str(urlsplit(self.url).hostname)

    @property
    def port(self) -> int:
        """Of the server."""
        return int(urlsplit(self.url).port or 80)


def body(number: int) -> bytes:
    """What is posted."""
    said = {
        "model": MODEL,
        "messages": [{"role": "user", "content": prompt(number)}],
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "max_tokens": 4096,
    }
    return json.dumps(said).encode()


def raw_request(job: Job, number: int) -> bytes:
    """The same as bytes on the wire."""
    data = body(number)
    head = [f"POST {PATH} HTTP/1.1", f"host: {job.host}:{job.port}", f"content-length: {len(data)}"]
    head += [f"{name}: {value}" for name, value in HEADERS.items()]
    return "\r\n".join([*head, "", ""]).encode() + data


def carry_out(loop: Callable[[Job], Sequence[Exchange]], *, framed: bool) -> None:
    """Do the job that the command line names, and write its result. `framed`: what is read has HTTP's framing."""
    path = Path(sys.argv[1])
    job = Job(**{**json.loads(path.read_text("utf-8")), "result": path.with_name("result.json")})
    gc.freeze()
    gc.disable()
    before = _cpu()
    done = loop(job)
    in_round = _cpu() - before
    requests = [_row(one, framed=framed) for one in done]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    after = _cpu() - before - in_round
    told = {"requests": requests, "round_cpu_s": in_round, "after_cpu_s": after, "own_peak_mib": peak}
    job.result.write_text(json.dumps(told))


def _cpu() -> float:
    return time.process_time()


def _row(one: Exchange, *, framed: bool) -> dict[str, object]:
    stamps = event_stamps(one.at_ns, one.data, framed=framed)
    return {
        "prompt": prompt(one.number),
        "sent_ns": one.sent_ns,
        "ended_ns": one.ended_ns,
        "stamps_ns": stamps,
        "failed": one.failed or ("" if stamps else "no event"),
    }


def event_stamps(at_ns: Sequence[int], data: Sequence[bytes], *, framed: bool) -> list[int]:
    """The stamp of each token event: that of the read that completed it.

    >>> event_stamps([1, 2], [b'data: {"delta":{"content":"a"}}', b'\\n\\ndata: [DONE]\\n\\n'], framed=False)
    [2]
    """
    pieces = list(_unframed(at_ns, data) if framed else zip(at_ns, data, strict=True))
    stamps: list[int] = []
    rest = b""
    for at, piece in pieces:
        *events, rest = (rest + piece).split(b"\n\n")
        stamps += [at for event in events if CONTENT.search(event)]
    return stamps


def _unframed(at_ns: Sequence[int], data: Sequence[bytes]) -> list[tuple[int, bytes]]:
    """Without the head and the chunks' framing; a chunk has the stamp of the read that completed it."""
    whole = b"".join(data)
    ends, total = [], 0
    for piece in data:
        total += len(piece)
        ends.append(total)
    pieces, read = [], 0
    at = whole.find(b"\r\n\r\n") + 4
    while 4 <= at < len(whole):
        line = whole.find(b"\r\n", at)
        size = int(whole[at:line], 16) if line > 0 else 0
        if not size:
            break
        end = line + 2 + size
        while read < len(ends) - 1 and ends[read] < end:
            read += 1
        pieces.append((at_ns[read], whole[line + 2 : end]))
        at = end + 2
    return pieces
