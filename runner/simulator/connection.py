"""Replies that break the rules of HTTP on purpose, which no well-behaved server would send."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_TRANSPORT = "runner.transport"


class Http(HttpToolsProtocol):
    """uvicorn's protocol, which lets the application see the connection that a request came by."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {_TRANSPORT: self.transport}  # type: ignore[dict-item] # ours, not ASGI's


def cut_in_chunk(scope: Scope, data: bytes) -> None:
    """Write a chunk of the chunked coding that promises all of `data` and holds half of it, then close.

    What was sent before is written first; the reply's head must have said nothing of a content length.
    """
    transport: asyncio.Transport = scope["extensions"][_TRANSPORT]
    transport.write(b"%x\r\n" % len(data) + data[: len(data) // 2])
    transport.close()


class Dripping:
    """A reply whose body leaves in pieces of so many bytes, with a pause of so many seconds after each."""

    def __init__(self, reply: ASGIApp, size: int, pause: float) -> None:
        self._reply = reply
        self._size = size
        self._pause = pause

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def drip(message: Message) -> None:
            body = message.get("body", b"")
            for start in range(0, len(body), self._size):
                await send({**message, "body": body[start : start + self._size], "more_body": True})
                await asyncio.sleep(self._pause)
            if not body or not message.get("more_body", False):
                await send({**message, "body": b""} if "body" in message else message)

        await self._reply(scope, receive, drip)
