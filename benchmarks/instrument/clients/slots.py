"""A closed loop of tasks: so many slots, each sending its next request when its last is answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from time import monotonic_ns

from instrument.clients.job import Exchange, Job

Stream = Callable[[int], AsyncIterator[bytes]]


async def closed_loop(job: Job, stream: Stream) -> list[Exchange]:
    """`stream` posts the request of that number and yields what comes."""
    numbers = iter(range(job.requests))
    done: list[Exchange] = []
    await asyncio.gather(*(_slot(numbers, stream, done) for _ in range(job.concurrency)))
    return done


async def _slot(numbers: Iterator[int], stream: Stream, done: list[Exchange]) -> None:
    for number in numbers:
        one = Exchange(number, sent_ns=monotonic_ns())
        try:
            async for data in stream(number):
                one.at_ns.append(monotonic_ns())
                one.data.append(data)
        except Exception as error:  # any failure of a client is one of its figures
            one.failed = str(error) or type(error).__name__
        one.ended_ns = monotonic_ns()
        done.append(one)
