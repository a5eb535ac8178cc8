"""Opening a connection: TCP to the first address that takes one, and TLS above it where the URL says so."""

import asyncio
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runner.load.connection import Connection, TlsConnection
from runner.load.destination import Address, Destination
from runner.load.stamps import READ, enable_stamps

_NEXT_SECONDS = 1.0
"""After so long without a connection the next address of a name is tried."""


@dataclass(frozen=True, slots=True)
class Line:
    """A way to a server: its addresses, or why there are `none`, and whom to believe where it speaks TLS."""

    destination: Destination
    addresses: Sequence[Address]
    trusted: ssl.SSLContext | None = None
    none: str = "its name stands for no address"


async def dial(line: Line, ended: Callable[[str, str], None]) -> Connection:
    """A connection ready to send on. Raises OSError, and ssl.SSLError, which is one."""
    sock = await _connected(line)
    try:
        if line.trusted is None:
            return Connection(sock, ended)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = line.trusted.wrap_bio(incoming, outgoing, server_hostname=line.destination.host)
        await _shake_hands(sock, tls, incoming, outgoing)
        return TlsConnection(sock, ended, tls, incoming, outgoing)
    except BaseException:
        sock.close()
        raise


async def _connected(line: Line) -> socket.socket:
    failed: OSError | None = None
    for family, address in line.addresses:
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            enable_stamps(sock)
            # One address of several may lead nowhere; the last one has the request's own time.
            last = (family, address) == tuple(line.addresses[-1])
            async with asyncio.timeout(None if last else _NEXT_SECONDS):
                await asyncio.get_running_loop().sock_connect(sock, address)
        except OSError as error:
            sock.close()
            # The event loop's words for it are "Connect call failed".
            failed = error if error.errno is None else OSError(error.errno, os.strerror(error.errno))
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise failed or OSError(line.none)


async def _shake_hands(
    sock: socket.socket, tls: ssl.SSLObject, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO
) -> None:
    loop = asyncio.get_running_loop()
    while True:
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            more = True
        else:
            more = False
        if words := outgoing.read():
            await loop.sock_sendall(sock, words)
        if not more:
            return
        heard = await loop.sock_recv(sock, READ)
        if not heard:
            raise ConnectionResetError("the server closed the connection during the TLS handshake")
        incoming.write(heard)
