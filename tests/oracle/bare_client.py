"""What reading costs at the least: an asyncio.Protocol that parses nothing. Arguments: port, requests, concurrency; the
script of each request is JSON on standard input. Prints the CPU seconds of its round as JSON."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from typing import Any, cast

END = b"\r\n0\r\n\r\n"


class Slot(asyncio.Protocol):
    """One connection of the closed loop."""

    left = 0
    busy = 0
    over: asyncio.Event

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def next(self) -> None:
        """Send the next request, if there is one."""
        assert self._transport is not None
        if Slot.left:
            Slot.left -= 1
            self._transport.write(self._request)
            return
        self._transport.close()
        Slot.busy -= 1
        if not Slot.busy:
            Slot.over.set()

    def data_received(self, data: bytes) -> None:
        if data.endswith(END):
            self.next()


async def main(port: int, requests: int, concurrency: int, body: bytes) -> float:
    """CPU seconds of a round."""
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: oracle\r\nContent-Length: {len(body)}\r\n\r\n"
    loop = asyncio.get_running_loop()
    Slot.left, Slot.busy, Slot.over = requests, concurrency, asyncio.Event()
    slots = [
        (await loop.create_connection(lambda: Slot(head.encode() + body), "127.0.0.1", port))[1]
        for _ in range(concurrency)
    ]
    gc.disable()
    began = time.process_time()
    for slot in slots:
        slot.next()
    await Slot.over.wait()
    return time.process_time() - began


def run(work: Any) -> Any:
    """On the same loop as the load generator."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    return uvloop.run(work)


if __name__ == "__main__":
    said = {"stream": True, "oracle": json.load(sys.stdin)}
    print(json.dumps(run(main(*map(int, sys.argv[1:]), json.dumps(said).encode()))))  # type: ignore[arg-type]
