"""httpx, as its documentation streams: raw bytes as they come."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import uvloop

from instrument.clients.job import HEADERS, PATH, Exchange, Job, body, carry_out
from instrument.clients.slots import closed_loop


async def _run(job: Job) -> list[Exchange]:
    bodies = [body(number) for number in range(job.requests)]
    limits = httpx.Limits(max_connections=job.concurrency, max_keepalive_connections=job.concurrency)
    async with httpx.AsyncClient(limits=limits, timeout=None, trust_env=False) as client:

        async def stream(number: int) -> AsyncIterator[bytes]:
            async with client.stream("POST", job.url + PATH, content=bodies[number], headers=HEADERS) as response:
                response.raise_for_status()
                async for data in response.aiter_raw():
                    yield data

        return await closed_loop(job, stream)


if __name__ == "__main__":
    carry_out(lambda job: uvloop.run(_run(job)), framed=False)
