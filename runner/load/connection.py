"""One connection: a socket of our own, read as soon as it is readable, stamped by the kernel where it can be.

In the round bytes and stamps are kept, and the parser is asked for nothing but where a response ends.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from socket import socket
from ssl import MemoryBIO, SSLError, SSLObject, SSLWantReadError
from time import monotonic_ns

import httptools

from runner.load.stamps import READ, ROOM, Note

_INTERIM = 200
"""A status below this comes before the response's own."""


class Connection:
    """One request after the other on one connected socket, which it owns; `ended(outcome, detail)` is called once for
    each.

    Outcomes: complete; closed (by the server, before the response was complete); reset; not-http. `data`, `notes` and
    `seen` are what each read brought: the bytes, the ancillary data with the kernel's stamp, and the monotonic time
    after it. The next `send` begins new ones.
    """

    def __init__(self, sock: socket, ended: Callable[[str, str], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._sock, self._fd, self._receive, self._ended = sock, sock.fileno(), sock.recvmsg, ended
        self.open, self._active = True, False
        self._unsent: bytes | memoryview = b""
        self._begin()
        self._loop.add_reader(self._fd, self._readable)

    def _begin(self) -> None:
        self.data: list[bytes] = []
        self.notes: list[Sequence[Note]] = []
        self.seen: list[int] = []
        self.status: int | None = None
        self._complete = self._surplus = self._lasting = False
        self._parser = httptools.HttpResponseParser(self)

    @property
    def peer(self) -> str:
        """Whom it speaks to: an address and a port; empty once it is closed."""
        if not self.open:
            return ""
        host, port = self._sock.getpeername()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def usable(self) -> bool:
        """Whether another request may be sent. The server's end, or something that nobody asked for, may lie unread."""
        if self.open:
            self._readable()
        return self.open

    def send(self, request: bytes) -> int:
        """Send a whole request at once, so far as the kernel takes it; the monotonic time just before."""
        self._begin()
        self._active = True
        payload = self._sealed(request)
        sent_ns = monotonic_ns()
        self._push(payload)
        return sent_ns

    def _push(self, payload: bytes | memoryview) -> None:
        try:
            taken = self._sock.send(payload)
        except BlockingIOError:
            taken = 0
        except OSError as error:
            self._loop.remove_writer(self._fd)
            self._unsent = payload
            self._loop.call_soon(self._unsendable, error)  # whoever sends hears first that it was sent
            return
        if taken == len(payload):
            if self._unsent:
                self._loop.remove_writer(self._fd)
                self._unsent = b""
            return
        if not self._unsent:
            self._loop.add_writer(self._fd, self._writable)
        self._unsent = memoryview(payload)[taken:]

    def _writable(self) -> None:
        self._push(self._unsent)

    def _unsendable(self, error: OSError) -> None:
        # A server may have answered before it stopped to listen.
        with contextlib.suppress(OSError):
            while self._active:
                data, notes, _, _ = self._receive(READ, ROOM)
                if not data:
                    break
                self._take(data, notes, monotonic_ns())
        self._broken(error)

    def _readable(self) -> None:
        try:
            data, notes, _, _ = self._receive(READ, ROOM)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._broken(error)
            return
        self._take(data, notes, monotonic_ns())

    def _take(self, data: bytes, notes: Sequence[Note], seen: int) -> None:
        if not data or not self._active:
            self._finish("closed", "the server closed the connection")
            return
        self.data.append(data)
        self.notes.append(notes)
        self.seen.append(seen)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self._complete:
                self._finish("not-http", f"what came is no HTTP: {error}")
                return
            self._surplus = True
        if self._complete:
            self._active = False
            if self._surplus or self._unsent or not self._lasting:
                self.close()
            self._ended("complete", "")

    def on_headers_complete(self) -> None:
        """The parser's word. An interim response's status is not the answer's."""
        if not self._complete and (status := self._parser.get_status_code()) >= _INTERIM:
            self.status = status

    def on_message_begin(self) -> None:
        """The parser's word. A second response to one request: the connection is out of step."""
        self._surplus = self._surplus or self._complete

    def on_message_complete(self) -> None:
        """The parser's word, of an interim response, too."""
        if not self._complete and self.status is not None:
            self._complete = True
            self._lasting = self._parser.should_keep_alive()  # later it has forgotten how the body was framed

    def _broken(self, error: OSError) -> None:
        self._finish("reset", error.strerror or str(error))

    def _finish(self, outcome: str, detail: str) -> None:
        active, self._active = self._active, False
        self.close()
        if active:
            self._ended(outcome, detail)

    def close(self) -> None:
        """Give the socket back; `ended` is not called any more."""
        if self.open:
            self.open = self._active = False
            self._loop.remove_reader(self._fd)
            self._loop.remove_writer(self._fd)
            self._sock.close()

    def _sealed(self, request: bytes) -> bytes:
        return request


class TlsConnection(Connection):
    """The same over TLS. The kernel stamps the records; what they hold has the stamp of the read that completed one."""

    def __init__(
        self, sock: socket, ended: Callable[[str, str], None], tls: SSLObject, incoming: MemoryBIO, outgoing: MemoryBIO
    ) -> None:
        self._tls, self._incoming, self._outgoing = tls, incoming, outgoing
        super().__init__(sock, ended)

    def _sealed(self, request: bytes) -> bytes:
        self._tls.write(request)
        return self._outgoing.read()

    def _take(self, data: bytes, notes: Sequence[Note], seen: int) -> None:
        if not data:
            super()._take(data, notes, seen)
            return
        self._incoming.write(data)
        plain, over = list[bytes](), False
        fault: SSLError | None = None
        try:
            while piece := self._tls.read(READ):
                plain.append(piece)
            over = True  # the server said that nothing more comes
        except SSLWantReadError:
            pass
        except SSLError as error:
            fault = error
        if reply := self._outgoing.read():
            self._push(b"".join((self._unsent, reply)))
        self._surplus = self._surplus or over or fault is not None
        if plain:
            # How much was read is not to be seen from what it held: a stamp that may be too late is left out.
            super()._take(b"".join(plain), () if len(data) >= READ else notes, seen)
        if fault is not None:
            self._broken(fault)
        elif over and self.open:
            super()._take(b"", notes, seen)
