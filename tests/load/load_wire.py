"""A server of bytes on loopback: a test says what goes over the wire, in which pieces, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from loopback import LoopbackServer

from runner.load.closed_loop import Load, closed_loop
from runner.load.exchange import Exchange
from runner.load.reading import Judged, judge_exchange
from runner.record.clock import RunClock

T = TypeVar("T")
MODEL = "m"
WORDS = ["Kubernetes에서 ", "GPU를 ", "쓴다. 🙂"]
TEXT = "".join(WORDS)
USAGE = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14, "prompt_tokens_details": None}


# What vLLM writes -------------------------------------------------------------------------------------


def completion(text: str = TEXT, *, model: str = MODEL, **over: Any) -> bytes:
    message = {"role": "assistant", "content": text, "tool_calls": []}
    whole = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": USAGE,
        **over,
    }
    return json.dumps(whole, ensure_ascii=False).encode()


def error_json(code: int, kind: str, message: str) -> bytes:
    return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}}).encode()


def event(value: Any) -> bytes:
    return b"data: " + (value if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False).encode()) + b"\n\n"


def delta(content: str | None, finish: str | None = None, *, model: str = MODEL, **delta: Any) -> bytes:
    said = delta if content is None else {"content": content, **delta}
    choice = {"index": 0, "delta": said, "finish_reason": finish}
    return event({"object": "chat.completion.chunk", "model": model, "choices": [choice]})


def role(model: str = MODEL) -> bytes:
    return delta("", role="assistant", model=model)


def final_usage() -> bytes:
    return event({"object": "chat.completion.chunk", "model": MODEL, "choices": [], "usage": USAGE})


DONE = event(b"[DONE]")


def events(model: str = MODEL) -> list[bytes]:
    """A whole stream: role, three words, finish reason, usage, [DONE]."""
    words = [delta(word, model=model) for word in WORDS]
    return [role(model), *words, delta("", "stop", model=model), final_usage(), DONE]


# HTTP -------------------------------------------------------------------------------------------------


def head(status: int = 200, kind: str = "application/json", **fields: str | int) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"content-type: {kind}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def plain(body: bytes, status: int = 200, kind: str = "application/json") -> bytes:
    return head(status, kind, content_length=len(body)) + body


def chunked_head(kind: str = "text/event-stream; charset=utf-8", status: int = 200) -> bytes:
    return head(status, kind, transfer_encoding="chunked")


def piece(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


END = b"0\r\n\r\n"


def sse(parts: list[bytes], kind: str = "text/event-stream; charset=utf-8") -> bytes:
    return chunked_head(kind) + b"".join(piece(part) for part in parts) + END


# The server -------------------------------------------------------------------------------------------


@dataclass
class Wire:
    """One connection as the answering side sees it; `sends` are the stamps just before each send."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    clock: RunClock
    sends: list[int] = field(default_factory=list)

    async def send(self, data: bytes) -> None:
        self.sends.append(self.clock.now())
        self.writer.write(data)
        await self.writer.drain()

    async def close(self) -> None:
        """FIN, after everything that was sent."""
        self.writer.close()
        with contextlib.suppress(OSError):
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
            await self.reader.read()


async def settle() -> None:
    """Let the client, which runs in the same loop, take and stamp everything that was sent, however slow the
    machine is."""
    await asyncio.sleep(0.002)
    for _ in range(50):
        await asyncio.sleep(0)


Answer = Callable[[Wire, bytes], Awaitable[None]]


class Server(LoopbackServer):
    """Answers each POST with `answer(wire, body)`, over keep-alive connections, and counts."""

    def __init__(
        self,
        answer: Answer,
        clock: RunClock | None = None,
        greet: Callable[[Wire], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__()
        self._answer, self._greet = answer, greet
        self.clock = clock or RunClock()
        self.bodies: list[bytes] = []
        self.heads: list[bytes] = []
        self.arrived: list[int] = []
        self.wires: list[Wire] = []
        self.in_flight = self.most_in_flight = 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire = Wire(reader, writer, self.clock)
        self.wires.append(wire)
        try:
            if self._greet is not None:
                await self._greet(wire)
            while not wire.writer.transport.is_closing():
                top = await wire.reader.readuntil(b"\r\n\r\n")
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


# The client -------------------------------------------------------------------------------------------


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run, and see that nothing is left running."""

    async def whole() -> T:
        result = await main
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, left
        return result

    return asyncio.run(whole())


async def send(
    server: Server | str,
    bodies: list[bytes],
    *,
    concurrency: int = 1,
    timeout: float = 5.0,
    first_index: int = 0,
    stop: asyncio.Event | None = None,
    clock: RunClock | None = None,
    **more: Any,
) -> list[Exchange]:
    """One closed loop against the server."""
    endpoint = server if isinstance(server, str) else server.endpoint
    clock = clock or (RunClock() if isinstance(server, str) else server.clock)
    load = Load(endpoint, bodies, concurrency, timeout, first_index)
    return await closed_loop(load, clock=clock, stop=stop or asyncio.Event(), **more)


def judged(answer: Answer, *, stream: bool = False, timeout: float = 5.0) -> Judged:
    """One request through the closed loop and the judge."""

    async def main() -> Judged:
        async with Server(answer) as server:
            [done] = await send(server, [b"{}"], timeout=timeout)
            assert server.bodies == [b"{}"]
        return judge_exchange(done, model=MODEL, stream=stream)

    return run(main())
