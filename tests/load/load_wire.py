"""A server of bytes on loopback, and a round of the load generator against it: what goes over the wire, in which
pieces, and how it ends. Whatever a test sees of an answer went through a capture."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

from load_bytes import MODEL
from loopback import LoopbackServer

from runner.load.capture import Captured, CaptureReader, CaptureWriter, Closing
from runner.load.closed_loop import ClosedLoop, Round, Trouble
from runner.load.connection import Connection, TlsConnection
from runner.load.destination import Address, Destination
from runner.load.dial import Line
from runner.load.exchange import Exchange, read_exchange
from runner.load.reading import Judged, judge_exchange
from runner.load.stamps import keep_stamping, wall_offset
from runner.record.clock import RunClock

T = TypeVar("T")
CLOSING = Closing(1, 0, 1.0, 0.1, 0.0, "asyncio", 0, 0, None, 0, 1 << 20, "127.0.0.1:1")
"""What a process might say of itself."""
PATIENCE = 30.0
"""Seconds after which a test stops waiting for what must come."""


# The server -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Read:
    """What one connection of the client has read so far."""

    size: int = 0
    raw: int = 0
    closed: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)


_READ: dict[Any, _Read] = {}
"""By the client's address, while a round in this process runs."""


@dataclass
class Wire:
    """One connection as the answering side sees it; `sends` are the stamps just before each send."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    clock: RunClock
    sends: list[int] = field(default_factory=list)
    sent: int = 0

    async def send(self, data: bytes) -> None:
        self.sends.append(self.clock.now())
        self.sent += len(data)
        self.writer.write(data)
        await self.writer.drain()

    async def taken(self) -> None:
        """Wait until the client has read everything that was sent, or has closed."""
        read = _READ.setdefault(self.writer.get_extra_info("peername"), _Read())
        async with asyncio.timeout(PATIENCE):
            while read.size < self.sent and not read.closed:
                read.news.clear()
                await read.news.wait()

    async def taken_raw(self, size: int) -> None:
        """Wait until the client has read so many bytes of what TLS made of them."""
        read = _READ.setdefault(self.writer.get_extra_info("peername"), _Read())
        async with asyncio.timeout(PATIENCE):
            while read.raw < size and not read.closed:
                read.news.clear()
                await read.news.wait()

    async def close(self) -> None:
        """FIN, after everything that was sent."""
        self.writer.close()
        with contextlib.suppress(OSError, asyncio.TimeoutError):
            await self.writer.wait_closed()

    async def reset(self) -> None:
        """RST."""
        raw = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()
        await asyncio.sleep(0)

    async def gone(self) -> None:
        """Wait until the client has left."""
        with contextlib.suppress(OSError):
            while await self.reader.read(1 << 20):
                pass


Answer = Callable[[Wire, bytes], Awaitable[None]]


class Server(LoopbackServer):
    """Answers each POST with `answer(wire, body)`, over keep-alive connections, and counts."""

    def __init__(
        self,
        answer: Answer,
        clock: RunClock | None = None,
        greet: Callable[[Wire], Awaitable[None]] | None = None,
        *,
        host: str = "127.0.0.1",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(host, tls)
        self._answer, self._greet = answer, greet
        self.clock = clock or RunClock()
        self.bodies: list[bytes] = []
        self.heads: list[bytes] = []
        self.arrived: list[int] = []
        self.wires: list[Wire] = []
        self.in_flight = self.most_in_flight = self.ends = 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire = Wire(reader, writer, self.clock)
        self.wires.append(wire)
        try:
            if self._greet is not None:
                await self._greet(wire)
            while not wire.writer.transport.is_closing():
                top = await wire.reader.readuntil(b"\r\n\r\n")
                if top.startswith(b"GET"):
                    self.ends += 1  # `nothing_more`
                    continue
                length = next(
                    int(line.partition(b":")[2])
                    for line in top.split(b"\r\n")
                    if line.lower().startswith(b"content-length:")
                )
                body = await wire.reader.readexactly(length)
                self.heads.append(top)
                self.bodies.append(body)
                self.arrived.append(self.clock.now())
                self.in_flight += 1
                self.most_in_flight = max(self.most_in_flight, self.in_flight)
                try:
                    await self._answer(wire, body)
                finally:
                    self.in_flight -= 1
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client left
        except Exception as error:
            self.faults.append(error)
        finally:
            await wire.close()


def says(data: bytes, *, then: str = "stay") -> Answer:
    """Send these bytes, then `stay` for the next request, `close` (FIN), `reset` (RST), or `hang`."""

    async def answer(wire: Wire, _: bytes) -> None:
        if data:
            await wire.send(data)
        if then == "close":
            await wire.close()
        elif then == "reset":
            await wire.taken()  # an RST would overtake what the client has not read yet
            await wire.reset()
        elif then == "hang":
            await wire.gone()

    return answer


def in_turn(answers: Sequence[Answer]) -> Answer:
    """The first request has the first answer, and so on; for one connection after the other."""
    left = iter(answers)

    async def answer(wire: Wire, body: bytes) -> None:
        await next(left)(wire, body)

    return answer


def numbered(count: int, start: int = 0) -> list[bytes]:
    """Bodies that say which they are."""
    return [b'{"n": %d}' % number for number in range(start, start + count)]


async def until(holds: Callable[[], bool]) -> None:
    """Look until it holds; for what tells nobody when it happens."""
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def nothing_more(server: Server) -> None:
    """Let what is on its way to the server arrive: whoever wrote before us, in this loop, is read by then."""
    before = server.ends
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    await until(lambda: server.ends > before)
    writer.close()
    await writer.wait_closed()


# The client -------------------------------------------------------------------------------------------


def run(main: Coroutine[Any, Any, T], *, loop: Callable[[], asyncio.AbstractEventLoop] | None = None) -> T:
    """Run, and see that nothing is left running."""

    async def whole() -> T:
        result = await main
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, left
        return result

    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(whole())


class Numbers:
    """The numbers of the requests, for a loop that shares them with nobody."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self._left = iter(numbers)

    def take(self) -> int | None:
        return next(self._left, None)


@dataclass
class Played:
    """One round in this process, read from its capture: `captured` in the order in which they ended, `exchanges` by
    their number; what was seen to go wrong meanwhile; and the requests sent and over, as counted."""

    captured: list[Captured]
    exchanges: list[Exchange]
    troubles: list[Trouble]
    counted: tuple[int, int]


async def play(
    server: Server | str,
    bodies: Sequence[bytes],
    *,
    concurrency: int = 1,
    timeout: float = 5.0,
    first_index: int = 0,
    count: int | None = None,
    stop: asyncio.Event | None = None,
    clock: RunClock | None = None,
    keep_alive: bool = True,
    seconds: float | None = None,
    headers: Sequence[tuple[str, str]] = (),
    trusted: ssl.SSLContext | None = None,
    addresses: Sequence[Address] | None = None,
    trouble: Callable[[ClosedLoop, Trouble], None] = lambda _, __: None,
    opened: Callable[[ClosedLoop], Awaitable[None]] | None = None,
    kernel: bool = True,
) -> Played:
    """One closed loop against the server, of as many requests as bodies or `count`. `opened` is awaited between the
    opening of the connections and the first request."""
    endpoint = server if isinstance(server, str) else server.endpoint
    clock = clock or (RunClock() if isinstance(server, str) else server.clock)
    destination = Destination.of(endpoint)
    line = Line(destination, await destination.addresses() if addresses is None else addresses, trusted)
    requests = [destination.request(body, list(headers), keep_alive=keep_alive) for body in bodies]
    count = len(bodies) if count is None else count
    round_ = Round(line, requests, max(1, min(concurrency, count)), timeout, keep_alive, seconds)
    troubles: list[Trouble] = []

    def note(seen: Trouble) -> None:
        troubles.append(seen)
        trouble(loop, seen)

    with tempfile.TemporaryDirectory() as folder, _reads_are_counted(), keep_stamping():
        path = Path(folder, "round.capture")
        writer = CaptureWriter(path, clock.origin_ns, wall_offset())
        numbers = Numbers(range(first_index, first_index + count))
        loop = ClosedLoop(round_, numbers, keep=writer, trouble=note)
        try:
            await loop.open()
            if opened is not None:
                await opened(loop)
            async with _stopped_by(stop, loop):
                await loop.run()
        finally:
            loop.close()
            writer.close(CLOSING)
        captured = list(CaptureReader(path))
    exchanges = [read_exchange(one, kernel=kernel) for one in captured]
    exchanges.sort(key=lambda one: one.index)
    return Played(captured, exchanges, troubles, (loop.seen.sent, loop.seen.done))


async def send(server: Server | str, bodies: Sequence[bytes], **more: Any) -> list[Exchange]:
    """The exchanges of a round, by their number."""
    return (await play(server, bodies, **more)).exchanges


@contextlib.asynccontextmanager
async def _stopped_by(stop: asyncio.Event | None, loop: ClosedLoop) -> Any:
    async def stopping() -> None:
        if stop is not None:
            await stop.wait()
            loop.stop()

    if stop is not None and stop.is_set():
        loop.stop()
    task = asyncio.ensure_future(stopping())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@contextlib.contextmanager
def _reads_are_counted() -> Iterator[None]:
    """So that a server can wait until the client has read: nothing of a reader is changed."""
    take, close, tls_take = Connection._take, Connection.close, TlsConnection._take

    def counting(self: Connection, data: bytes, notes: Any, seen: int) -> None:
        read = _READ.setdefault(self._sock.getsockname(), _Read())
        read.size += len(data)
        try:
            take(self, data, notes, seen)
        finally:
            read.news.set()

    def counting_raw(self: TlsConnection, data: bytes, notes: Any, seen: int) -> None:
        read = _READ.setdefault(self._sock.getsockname(), _Read())
        read.raw += len(data)
        try:
            tls_take(self, data, notes, seen)
        finally:
            read.news.set()

    def closing(self: Connection) -> None:
        read = _READ.setdefault(self._sock.getsockname(), _Read()) if self.open else None
        close(self)
        if read is not None:
            read.closed = True
            read.news.set()

    with (
        mock.patch.object(Connection, "_take", counting),
        mock.patch.object(Connection, "close", closing),
        mock.patch.object(TlsConnection, "_take", counting_raw),
    ):
        try:
            yield
        finally:
            _READ.clear()


def ask(
    answer: Answer,
    *,
    stream: bool = False,
    timeout: float = 5.0,
    model: str = MODEL,
    **more: Any,
) -> Judged:
    """One request through the closed loop, the capture and the judge."""

    async def main() -> Judged:
        async with Server(answer) as server:
            [done] = await send(server, [b"{}"], timeout=timeout, **more)
            assert server.bodies == [b"{}"]
        return judge_exchange(done, model=model, stream=stream)

    return run(main())
