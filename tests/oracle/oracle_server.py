"""The oracle: a server that streams by a script and keeps its own send times, to hold a client's times against.

`python tests/oracle/oracle_server.py --port 0 --script FILE.json [--host H] [--cpu N]` prints one JSON line,
`{"port": ..., "pid": ...}`, once it listens, and ends when its standard input does. README.md has the rest.

One thread: a heap of the sends that are due, and the sockets looked at between them. All bytes of a script are made
before its first request.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import heapq
import json
import os
import select
import selectors
import socket
import struct
import sys
from collections import deque
from functools import lru_cache
from pathlib import Path
from time import monotonic_ns, time_ns
from typing import Any

from oracle_script import Said, Script, ScriptError, head, plain_of, read_script, stream_of
from oracle_truth import Asked, Counters, truth_binary, truth_lines

SO_TIMESTAMPNS = 35
BETWEEN_LOOKS = 16
"""Sends after which the sockets are looked at, so that a burst of sends keeps no request waiting for long."""
MOST_KEPT = 64 * 1024 * 1024
"""Bytes of a request."""


class Connection:
    """One client's connection: what came and is no request yet, what waits to go out, and what is being answered."""

    __slots__ = ("arrived_ns", "asked", "closes", "fd", "got", "out", "said", "sock", "step", "watched")

    def __init__(self, sock: socket.socket) -> None:
        self.sock, self.fd = sock, sock.fileno()
        self.got = bytearray()
        self.arrived_ns: int | None = None
        self.out: deque[tuple[memoryview, int, bool]] = deque()  # bytes, events completed, whether it is the end
        self.asked: Asked | None = None
        self.said: Said | None = None
        self.step = 0
        self.closes = False
        self.watched = selectors.EVENT_READ


class Oracle:
    """Serves one script until told to end."""

    def __init__(self, listener: socket.socket, script: Script, written: dict[str, Any]) -> None:
        self._listener, self._script, self._written = listener, script, written
        self._selector = selectors.DefaultSelector()
        self._due: list[tuple[int, int, Connection, Asked]] = []
        self._scheduled = 0
        self._arrived = 0
        self.asked: list[Asked] = []
        self.counters = Counters(script.model)
        self.ends = False
        listener.setblocking(False)
        with contextlib.suppress(OSError):  # what is accepted inherits it, from its first byte on
            listener.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._selector.register(listener, selectors.EVENT_READ, self._accept)

    def end_with(self, file: int) -> None:
        """End when that file does; one that cannot be watched (a null device) never does."""

        def read() -> None:
            if not os.read(file, 4096):
                self.ends = True

        with contextlib.suppress(PermissionError, ValueError):
            self._selector.register(file, selectors.EVENT_READ, read)

    def serve(self) -> None:
        """Send what is due, look at the sockets, and wait for whichever comes first."""
        while not self.ends:
            more = self._send_due()
            wait = 0.0 if more else self._until_due()
            # select() has microseconds, where the selectors' own wait has milliseconds
            if wait is None or wait > 0.0:
                select.select([self._selector.fileno()], [], [], wait)
            for key, mask in self._selector.select(0):
                if isinstance(key.data, Connection):
                    self._look(key.data, mask)
                else:
                    key.data()

    def _until_due(self) -> float | None:
        return max(0, self._due[0][0] - monotonic_ns()) / 1e9 if self._due else None

    def _send_due(self) -> bool:
        """Send what is due, some of it; whether there may be more."""
        due = self._due
        for _ in range(BETWEEN_LOOKS):
            if not due or due[0][0] > monotonic_ns():
                return False
            _, _, connection, asked = heapq.heappop(due)
            if connection.asked is asked:  # else the client has left
                self._send_step(connection, asked)
        return True

    # Connections --------------------------------------------------------------------------------------

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionError):
            for _ in range(256):
                sock, _ = self._listener.accept()
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection = Connection(sock)
                self._selector.register(sock, selectors.EVENT_READ, connection)

    def _look(self, connection: Connection, mask: int) -> None:
        if mask & selectors.EVENT_WRITE:
            self._flush(connection)
        if mask & selectors.EVENT_READ and connection.fd >= 0:
            self._read(connection)

    def _read(self, connection: Connection) -> None:
        try:
            data, ancillary, _, _ = connection.sock.recvmsg(262144, 64)
        except BlockingIOError:
            return
        except OSError:
            data, ancillary = b"", []
        if not data or len(connection.got) > MOST_KEPT:
            self._drop(connection)
            return
        connection.arrived_ns = _arrival(ancillary)
        connection.got += data
        if connection.asked is None and not connection.out:
            self._next_request(connection)

    def _drop(self, connection: Connection, *, reset: bool = False) -> None:
        if connection.fd < 0:
            return
        if connection.asked is not None:
            self.counters.left(connection.asked)
        connection.asked = connection.said = None
        self._selector.unregister(connection.sock)
        if reset:
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.sock.close()
        connection.fd = -1
        connection.out.clear()

    # Requests -----------------------------------------------------------------------------------------

    def _next_request(self, connection: Connection) -> None:
        """Take the next whole request out of what came, if there is one."""
        end = connection.got.find(b"\r\n\r\n")
        if end < 0:
            return
        first, _, rest = bytes(connection.got[:end]).partition(b"\r\n")
        fields = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(b":") for line in rest.split(b"\r\n"))
        }
        if b"transfer-encoding" in fields:
            self._plain(connection, "411 Length Required", b"a request needs a content-length")
            connection.closes = True
            return
        length = int(fields.get(b"content-length", b"0"))
        if len(connection.got) < end + 4 + length:
            return
        received = monotonic_ns()
        body = bytes(connection.got[end + 4 : end + 4 + length])
        del connection.got[: end + 4 + length]
        connection.closes = fields.get(b"connection", b"").lower() == b"close"
        method, _, target = first.partition(b" ")
        path, _, query = target.partition(b" ")[0].decode("latin-1").partition("?")
        if (method, path) == (b"POST", "/v1/chat/completions"):
            self._chat(connection, fields, body, received)
        else:
            self._page(connection, path, query)

    def _page(self, connection: Connection, path: str, query: str) -> None:
        pages = {
            "/truth": lambda: ("application/json-lines", truth_lines(self.asked)),
            "/truth.bin": lambda: ("application/octet-stream", truth_binary(self.asked)),
            "/metrics": lambda: ("text/plain; version=0.0.4; charset=utf-8", self.counters.page()),
            "/v1/models": lambda: ("application/json", _models(self._script.model)),
            # it computes no model, and says so
            "/version": lambda: ("application/json", b'{"version":"0.26.0","simulated":true}'),
            "/health": lambda: ("text/plain", b""),
        }
        if path not in pages:
            self._plain(connection, "404 Not Found", b"no such page")
            return
        kind, data = pages[path]()
        if path.startswith("/truth") and "reset=1" in query.split("&"):
            self.asked, self._arrived = [], 0
        self._plain(connection, "200 OK", data, kind)

    def _plain(self, connection: Connection, status: str, data: bytes, kind: str = "text/plain") -> None:
        connection.out.append((memoryview(_head(status, kind, connection.closes, len(data)) + data), 0, True))
        self._flush(connection)

    def _chat(self, connection: Connection, fields: dict[bytes, bytes], body: bytes, received: int) -> None:
        try:
            asked_for = json.loads(body)
            over = json.dumps({**self._written, **asked_for["oracle"]}) if "oracle" in asked_for else None
            script = self._script if over is None else _script(over)
        except (ValueError, TypeError) as error:
            self._plain(connection, "400 Bad Request", str(error).encode())
            return
        if script.turns:
            whole = self._written if over is None else json.loads(over)
            over = json.dumps({**whole, "turns": [], **script.turns[self._arrived % len(script.turns)]})
            script = _script(over)
        self._arrived += 1
        fault = script.fault if script.fault is not None and self._arrived % script.fault.every == 0 else None
        if asked_for.get("stream"):
            said = _stream(self._script if over is None else over, fault)
        else:
            limit = asked_for.get("max_completion_tokens", asked_for.get("max_tokens"))
            said = plain_of(script, fault, limit)
        label = fields.get(b"x-request-index")
        asked = Asked(
            label.decode("latin-1") if label is not None else None,
            asked_for.get("oracle_index"),
            _last_words(asked_for),
            connection.arrived_ns,
            received,
            said,
        )
        self.asked.append(asked)
        self.counters.began(asked)
        connection.asked, connection.said, connection.step = asked, said, 0
        if said.head_at_once:
            connection.out.append((memoryview(_head(said.status, said.kind, connection.closes, said.length)), 0, False))
            self._flush(connection)
        self._schedule(connection, asked)

    def _schedule(self, connection: Connection, asked: Asked) -> None:
        self._scheduled += 1
        due = asked.received_ns + asked.said.sends[connection.step].after_ns
        heapq.heappush(self._due, (due, self._scheduled, connection, asked))

    # Sends --------------------------------------------------------------------------------------------

    def _send_step(self, connection: Connection, asked: Asked) -> None:
        """One send of a stream, stamped right before and right after it."""
        said = asked.said
        step = said.sends[connection.step]
        connection.step += 1
        last = connection.step == len(said.sends)
        data = step.data
        if connection.step == 1 and not said.head_at_once:
            data = _head(said.status, said.kind, connection.closes, said.length) + data
        if not last:
            self._schedule(connection, asked)
        if connection.out:  # the client does not take what was sent before
            connection.out.append((memoryview(data), step.events, last))
            return
        before = monotonic_ns()
        try:
            sent = connection.sock.send(data) if data else 0
        except BlockingIOError:
            sent = 0
        except OSError:
            self._drop(connection)
            return
        after = monotonic_ns()
        if sent == len(data):
            self._sent(connection, step.events, last, before, after)
        else:
            connection.out.append((memoryview(data)[sent:], step.events, last))
            self._watch(connection)

    def _flush(self, connection: Connection) -> None:
        while connection.out:
            data, events, last = connection.out[0]
            before = monotonic_ns()
            try:
                sent = connection.sock.send(data)
            except BlockingIOError:
                break
            except OSError:
                self._drop(connection)
                return
            after = monotonic_ns()
            if sent < len(data):
                connection.out[0] = (data[sent:], events, last)
                continue
            connection.out.popleft()
            self._sent(connection, events, last, before, after)
            if connection.fd < 0:
                return
        self._watch(connection)

    def _watch(self, connection: Connection) -> None:
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.out else 0)
        if wanted != connection.watched:
            self._selector.modify(connection.sock, wanted, connection)
            connection.watched = wanted

    def _sent(self, connection: Connection, events: int, last: bool, before: int, after: int) -> None:
        """A send is complete, and with it so many events."""
        asked = connection.asked
        if asked is not None:
            for _ in range(events):
                asked.before.append(before)
                asked.after.append(after)
        if not last:
            return
        leaves = "open"
        if asked is not None:
            leaves = asked.said.leaves
            if leaves == "stall":
                return
            asked.last_before, asked.last_after = before, after
            self.counters.ended(asked)
            connection.asked = connection.said = None
        if leaves != "open" or connection.closes:
            self._drop(connection, reset=leaves == "RST")
        elif connection.got:
            self._next_request(connection)


def _arrival(ancillary: list[tuple[int, int, bytes]]) -> int | None:
    """The kernel's stamp of what was read, on the monotonic clock; None where it gave none."""
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS) and len(data) >= 16:
            seconds, nanoseconds = struct.unpack("qq", data[:16])
            offset = 0
            for _ in range(5):
                before, wall, after = monotonic_ns(), time_ns(), monotonic_ns()
                offset = wall - (before + after) // 2
                if after - before < 2000:
                    break
            return int(seconds * 1_000_000_000 + nanoseconds - offset)
    return None


def _last_words(asked_for: dict[str, Any]) -> str | None:
    """The last message, its beginning: by it a client that sends no index can be known again."""
    messages = asked_for.get("messages")
    content = messages[-1].get("content") if isinstance(messages, list) and messages else None
    if isinstance(content, list) and content and isinstance(content[0], dict):
        content = content[0].get("text")  # some clients send parts
    return content[:80] if isinstance(content, str) else None


def _models(model: str) -> bytes:
    card = {"id": model, "object": "model", "created": 0, "owned_by": "oracle", "root": model, "max_model_len": 4096}
    return json.dumps({"object": "list", "data": [card]}).encode()


@lru_cache(maxsize=64)
def _head(status: str, kind: str, close: bool, length: int | None) -> bytes:
    return head(status, kind, close=close, length=length)


@lru_cache(maxsize=256)
def _script(written: str) -> Script:
    return read_script(json.loads(written))


_STREAMS: dict[Any, Said] = {}


def _stream(script: Script | str, fault: Any) -> Said:
    """The sends of a script, made once; one that came with a request is known by its words."""
    key = (script if isinstance(script, str) else None, fault)
    if key not in _STREAMS:
        if len(_STREAMS) > 256:
            _STREAMS.clear()
        _STREAMS[key] = stream_of(_script(script) if isinstance(script, str) else script, fault)
    return _STREAMS[key]


def main() -> None:
    """Listen, say so, and serve."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--script", type=Path, required=True)
    parser.add_argument("--cpu", type=int)
    given = parser.parse_args()
    if given.cpu is not None:
        os.sched_setaffinity(0, {given.cpu})
    written = json.loads(given.script.read_text("utf-8"))
    try:
        script = read_script(written)
    except (ScriptError, TypeError) as error:
        sys.exit(f"oracle: {given.script}: {error}")
    family = socket.AF_INET6 if ":" in given.host else socket.AF_INET
    listener = socket.create_server((given.host, given.port), family=family, backlog=4096)
    oracle = Oracle(listener, script, written)
    _stream(script, None)
    oracle.end_with(sys.stdin.fileno())
    print(json.dumps({"port": listener.getsockname()[1], "pid": os.getpid()}), flush=True)
    gc.freeze()
    gc.disable()
    oracle.serve()


if __name__ == "__main__":
    main()
