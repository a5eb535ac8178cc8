"""The closed loop: C slots, each sending its next request when its last one is answered."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from runner.access import OPEN, Access
from runner.engine.served import CHAT_PATH
from runner.engine.verdict import Verdict
from runner.load.exchange import Exchange, exchange, http_client
from runner.record.clock import RunClock


@dataclass(frozen=True, slots=True)
class Load:
    """What one closed loop sends: `bodies` in order, at most `concurrency` at once, to `endpoint`."""

    endpoint: str
    bodies: Sequence[bytes]
    concurrency: int
    timeout: float
    first_index: int = 0
    access: Access = OPEN


@dataclass(slots=True)
class InFlight:
    """What others may watch while a loop runs: requests sent and answered."""

    sent: int = 0
    done: int = 0


async def closed_loop(
    load: Load,
    *,
    clock: RunClock,
    stop: asyncio.Event,
    progress: InFlight | None = None,
    listen: Callable[[InFlight], None] = lambda _: None,
) -> list[Exchange]:
    """Send every body; exchanges come back in the order of their index.

    When `stop` is set nothing more is sent, and what is under way comes back as interrupted.
    """
    seen = progress or InFlight()
    finished: list[Exchange] = []
    queue = iter(enumerate(load.bodies, start=load.first_index))
    async with http_client(load.concurrency, load.access) as client:
        slots = [
            asyncio.create_task(_slot(client, load, queue, finished, clock, stop, seen, listen))
            for _ in range(min(load.concurrency, len(load.bodies)))
        ]
        try:
            await asyncio.gather(*slots)
        finally:
            for slot in slots:
                slot.cancel()
            await asyncio.gather(*slots, return_exceptions=True)
    return sorted(finished, key=lambda done: done.index)


async def _slot(
    client: httpx.AsyncClient,
    load: Load,
    queue: Iterator[tuple[int, bytes]],
    finished: list[Exchange],
    clock: RunClock,
    stop: asyncio.Event,
    seen: InFlight,
    listen: Callable[[InFlight], None],
) -> None:
    url = load.endpoint + CHAT_PATH
    while not stop.is_set():
        planned = clock.now()
        item = next(queue, None)
        if item is None:
            return
        index, body = item
        seen.sent += 1
        sending = asyncio.ensure_future(
            exchange(client, url, body, index=index, timeout=load.timeout, clock=clock, planned_ns=planned)
        )
        done = await _unless_stopped(sending, stop)
        finished.append(done or _interrupted(index, planned))
        seen.done += 1
        listen(seen)


async def _unless_stopped(sending: asyncio.Future[Exchange], stop: asyncio.Event) -> Exchange | None:
    stopped: asyncio.Future[bool] = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([_any(sending), _any(stopped)], return_when=asyncio.FIRST_COMPLETED)
        return await sending if sending.done() else None
    finally:
        for future in (sending, stopped):
            future.cancel()
        await asyncio.gather(sending, stopped, return_exceptions=True)


def _any(future: asyncio.Future[Any]) -> asyncio.Future[Any]:
    return future


def _interrupted(index: int, planned: int) -> Exchange:
    why = "given up: nothing more was to be measured"
    return Exchange(index, planned, sent_ns=planned, transport=Verdict.INTERRUPTED, detail=why)
