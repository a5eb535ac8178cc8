"""A protocol on uvloop that parses nothing: it keeps bytes and times, and knows the end by its last bytes.

No client in Python that keeps what it receives can do with less; its CPU time per chunk is the yardstick.
"""

from __future__ import annotations

import asyncio
from time import monotonic_ns
from typing import cast

import uvloop

from instrument.clients.job import Exchange, Job, carry_out, raw_request

END = b"0\r\n\r\n"


class Slot(asyncio.Protocol):
    """One connection: sends the next request as soon as an answer ends."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.exchange: Exchange | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep it."""
        self._transport = cast(asyncio.Transport, transport)

    def send(self) -> None:
        """The next request, if any is left."""
        self.exchange = one = self._loop.next()
        if one is None:
            self._transport.close()
            return
        one.sent_ns = monotonic_ns()
        self._transport.write(self._loop.wire[one.number])

    def data_received(self, data: bytes) -> None:
        """Keep it, with the time."""
        one = self.exchange
        assert one is not None
        one.at_ns.append(now := monotonic_ns())
        one.data.append(data)
        if data.endswith(END):
            one.ended_ns = now
            self._loop.over(one)
            self.send()

    def connection_lost(self, error: Exception | None) -> None:
        """A request that was under way has failed."""
        if self.exchange is not None:
            self.exchange.failed = str(error or "closed")
            self._loop.over(self.exchange)


class Loop:
    """The requests of one job."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self.wire = [raw_request(job, number) for number in range(job.requests)]
        self._numbers = iter(range(job.requests))
        self.done: list[Exchange] = []
        self._ended = asyncio.get_running_loop().create_future()

    def next(self) -> Exchange | None:
        """To be sent."""
        number = next(self._numbers, None)
        return None if number is None else Exchange(number)

    def over(self, one: Exchange) -> None:
        """It ended, in order or not."""
        self.done.append(one)
        if len(self.done) == self._job.requests:
            self._ended.set_result(None)

    async def run(self, protocol: type[Slot]) -> list[Exchange]:
        """To the end."""
        loop = asyncio.get_running_loop()
        opening = (
            loop.create_connection(lambda: protocol(self), self._job.host, self._job.port)
            for _ in range(min(self._job.concurrency, self._job.requests))
        )
        slots = await asyncio.gather(*opening)
        for _, slot in slots:
            slot.send()
        await self._ended
        return self.done


async def _run(job: Job) -> list[Exchange]:
    return await Loop(job).run(Slot)


if __name__ == "__main__":
    carry_out(lambda job: uvloop.run(_run(job)), framed=True)
