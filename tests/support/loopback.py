"""A server on a free port of the loopback interface, for the length of an `async with`."""

from __future__ import annotations

import asyncio
import socket
import ssl
from types import TracebackType
from typing import Self


class LoopbackServer:
    """Base of the tests' own servers: `_serve` handles one connection; what it finds wrong goes to `faults`, and a
    test with faults fails at the end of the `async with`."""

    endpoint: str
    port: int

    def __init__(self, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> None:
        self._host, self._tls = host, tls
        self.faults: list[Exception] = []
        self.connections = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, self._host, 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        name = f"[{self._host}]" if ":" in self._host else self._host
        self.endpoint = f"{'http' if self._tls is None else 'https'}://{name}:{self.port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()
        await asyncio.sleep(0)
        for writer in self._writers:
            writer.transport.abort()  # whose task was cancelled before it began has closed nothing
        await asyncio.sleep(0)
        if kind is None:
            assert self.faults == []

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        self._tasks.add(asyncio.ensure_future(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError


def free_port() -> int:
    """A port of the loopback interface that nobody listens on now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Trickles(LoopbackServer):
    """Answers with `head`, a byte every now and then: no single read takes long. `begun`: somebody asked."""

    def __init__(self, head: bytes) -> None:
        super().__init__()
        self._head = head
        self.begun = asyncio.Event()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.begun.set()
        try:
            for byte in self._head:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0.05)
        except ConnectionError:
            pass
        finally:
            writer.close()
