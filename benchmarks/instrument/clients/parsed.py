"""The same protocol with HTTP read by httptools as it comes."""

from __future__ import annotations

from time import monotonic_ns

import httptools
import uvloop

from instrument.clients.bare import Loop, Slot
from instrument.clients.job import Exchange, Job, carry_out


class ParsedSlot(Slot):
    """Keeps the body's pieces, with the time at which each was there."""

    def send(self) -> None:
        """A new answer has a new parser."""
        self._parser = httptools.HttpResponseParser(self)
        super().send()

    def on_body(self, data: bytes) -> None:
        """A piece."""
        assert self.exchange is not None
        self.exchange.at_ns.append(monotonic_ns())
        self.exchange.data.append(data)

    def on_message_complete(self) -> None:
        """The end."""
        assert self.exchange is not None
        self.exchange.ended_ns = monotonic_ns()

    def data_received(self, data: bytes) -> None:
        """Parse it."""
        self._parser.feed_data(data)
        one = self.exchange
        if one is not None and one.ended_ns:
            self._loop.over(one)
            self.send()


async def _run(job: Job) -> list[Exchange]:
    return await Loop(job).run(ParsedSlot)


if __name__ == "__main__":
    carry_out(lambda job: uvloop.run(_run(job)), framed=False)
