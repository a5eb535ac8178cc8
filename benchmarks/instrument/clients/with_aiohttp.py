"""aiohttp, the client below most other programs here: bytes as they come."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import uvloop

from instrument.clients.job import HEADERS, PATH, Exchange, Job, body, carry_out
from instrument.clients.slots import closed_loop


async def _run(job: Job) -> list[Exchange]:
    bodies = [body(number) for number in range(job.requests)]
    connector = aiohttp.TCPConnector(limit=job.concurrency)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:

        async def stream(number: int) -> AsyncIterator[bytes]:
            async with session.post(job.url + PATH, data=bodies[number], headers=HEADERS) as response:
                response.raise_for_status()
                async for data in response.content.iter_any():
                    yield data

        return await closed_loop(job, stream)


if __name__ == "__main__":
    carry_out(lambda job: uvloop.run(_run(job)), framed=False)
