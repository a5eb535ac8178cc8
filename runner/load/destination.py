"""Where requests go: an endpoint's URL, taken apart once, its name looked up before the round."""

import asyncio
import socket
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import quote, urlsplit

from runner.engine.served import CHAT_PATH

Address = tuple[int, Any]
"""Address family and socket address, as the system's resolver gives them."""

_UNASKED = {"User-Agent": "llm-experiment-runner", "Accept": "*/*"}
"""What a request has where nobody gave it something else."""


@dataclass(frozen=True, slots=True)
class Destination:
    """A server: `authority` is what its Host header says, `prefix` the path below which the API lies."""

    host: str
    port: int
    tls: bool
    authority: str
    prefix: str

    @classmethod
    def of(cls, endpoint: str) -> Self:
        """Of an endpoint such as http://127.0.0.1:8000, whose letters beyond ASCII become those that HTTP can hold.
        Raises ValueError for what is no URL."""
        parts = urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{endpoint} is no http URL")
        tls = parts.scheme == "https"
        host, authority = parts.hostname, parts.netloc.rpartition("@")[2]
        if not authority.isascii():
            host = host.encode("idna").decode("ascii")
            authority = host if parts.port is None else f"{host}:{parts.port}"
        path = quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~")
        return cls(host, parts.port or (443 if tls else 80), tls, authority, path)

    def request(self, body: bytes, headers: list[tuple[str, str]], *, keep_alive: bool) -> bytes:
        """A whole request as it goes over the wire. No proxy of the environment is asked: it would join the path."""
        given = {name.lower() for name, _ in headers}
        unasked = [(name, value) for name, value in _UNASKED.items() if name.lower() not in given]
        lines = [
            f"POST {self.prefix}{CHAT_PATH} HTTP/1.1",
            f"Host: {self.authority}",
            "Accept-Encoding: identity",  # what comes is stamped as it comes: nothing may gather it first
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            *(() if keep_alive else ("Connection: close",)),
            *(f"{name}: {value}" for name, value in [*unasked, *headers]),
        ]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + body

    async def addresses(self) -> list[Address]:
        """What its name stands for, in the resolver's order. Raises OSError."""
        found = await asyncio.get_running_loop().getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        return [(family, address) for family, _, _, _, address in found]
