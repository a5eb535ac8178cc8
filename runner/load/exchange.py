"""One request and its answer as HTTP has it, read from a capture after the round."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import httptools

from runner.engine.verdict import Verdict
from runner.load.capture import Captured
from runner.load.stamps import READ

_INTERIM = 200
VERDICTS = {
    "refused": Verdict.REFUSED,
    "reset": Verdict.RESET,
    "timed-out": Verdict.TIMED_OUT,
    "interrupted": Verdict.INTERRUPTED,
    "not-http": Verdict.MALFORMED,
}


@dataclass(slots=True)
class Exchange:
    """A request on the wire.

    Stamps are nanoseconds of the run's clock. `clock` took those of what came: the kernel, or the client when it had
    read it. `ended_ns` is when it was over, however it ended. `chunks` are (stamp, bytes of the body) of each read, in
    order, one that was cut by its size and the next taken as one; `transport` is what broke, or None when the answer
    ended in order.
    """

    index: int
    planned_ns: int
    sent_ns: int | None = None
    first_byte_ns: int | None = None
    last_byte_ns: int | None = None
    ended_ns: int | None = None
    status: int | None = None
    content_type: str | None = None
    chunks: list[tuple[int, bytes]] = field(default_factory=list)
    transport: Verdict | None = None
    detail: str = ""
    clock: Literal["kernel", "user"] = "kernel"
    connect_ns: int | None = None

    @property
    def body(self) -> bytes:
        """The whole answer."""
        return b"".join(chunk for _, chunk in self.chunks)


def read_exchange(captured: Captured, *, kernel: bool) -> Exchange:
    """Read one captured request's HTTP; never raises. `kernel`: the kernel's stamps of this round are to be believed;
    a request of which one read lacks its stamp has the client's throughout, so that its times are of one clock."""
    kernel = kernel and all(at is not None for at, _, _ in captured.reads)
    done = Exchange(
        captured.index,
        captured.planned_ns,
        sent_ns=captured.sent_ns,
        ended_ns=captured.ended_ns,
        clock="kernel" if kernel else "user",
        connect_ns=captured.connect_ns,
    )
    response = _Response()
    fault, chunks = None, done.chunks
    for at, seen, data in captured.reads:
        stamp = at if kernel and at is not None else seen
        fault = response.feed(data)
        over = response.complete or fault is not None
        if over or len(data) < READ:
            chunks.append((stamp, response.taken()))
        if over:
            break
    else:
        if rest := response.taken():
            chunks.append((stamp, rest))
    if response.headed:
        done.status, done.content_type = response.status, response.fields.get("content-type")
    if captured.outcome == "closed":
        done.transport, done.detail = _closed(response)
    elif captured.outcome != "complete":
        done.transport, done.detail = VERDICTS[captured.outcome], captured.detail
    elif not response.complete:
        done.transport, done.detail = Verdict.MALFORMED, fault or "its answer is not complete"
    if chunks:
        done.first_byte_ns = chunks[0][0]
        if done.transport is None:
            done.last_byte_ns = chunks[-1][0]
    return done


def closed_early(data: Iterable[bytes]) -> Verdict | None:
    """What it means that the server closed the connection after these bytes; None: so it ended its answer."""
    response = _Response()
    for piece in data:
        if response.feed(piece) is not None or response.headed:
            break
    return _closed(response)[0]


def _closed(response: "_Response") -> tuple[Verdict | None, str]:
    """What a connection that the server closed means for the response so far; None: it ended in order."""
    if not response.headed:
        return Verdict.RESET, "the server closed the connection before it answered"
    if "chunked" in response.fields.get("transfer-encoding", "").lower():
        return Verdict.TRUNCATED, "the server closed the connection before the last chunk of its answer"
    if (length := response.fields.get("content-length")) is not None:
        words = f"the server closed the connection after {response.size} of the {length} bytes that it promised"
        return Verdict.TRUNCATED, words
    return None, ""  # without either, the end of the connection is the end of the body


class _Response:
    """The parser's listener: the response's own head and body, interim responses passed over."""

    def __init__(self) -> None:
        self.status = 0
        self.fields: dict[str, str] = {}
        self.headed = self.complete = False
        self.size = 0
        self._body: list[bytes] = []
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> str | None:
        """Take one read; what is wrong with it, or None."""
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            return None if self.complete else f"what came is no HTTP: {error}"
        return None

    def taken(self) -> bytes:
        """The body's bytes since the last call."""
        body = b"".join(self._body)
        self._body.clear()
        return body

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.headed:
            self.fields[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if not self.headed:
            self.status = self._parser.get_status_code()
            self.headed = self.status >= _INTERIM
            if not self.headed:
                self.fields = {}

    def on_body(self, body: bytes) -> None:
        if not self.complete:
            self._body.append(body)
            self.size += len(body)

    def on_message_complete(self) -> None:
        self.complete = self.complete or self.headed
