"""The beat of a sampler: at fixed moments, one reading at a time, until it is cancelled."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NoReturn

from runner.record.clock import RunClock


async def at_interval(
    interval: float, clock: RunClock, take: Callable[[], Awaitable[None]], overdue: Callable[[int, str], None]
) -> NoReturn:
    """`take` at every multiple of `interval` seconds from now; a slow reading moves the next one back.

    A reading that is overdue when the load ends goes to `overdue`, as a moment and a reason: else an engine or a driver
    that hangs for a whole round would look like a round that nobody sampled.
    """
    start = clock.now()
    step = int(interval * 1e9)
    while True:
        now = clock.now()
        following = start + ((now - start) // step + 1) * step
        await asyncio.sleep((following - now) / 1e9)
        asked = clock.now()
        try:
            await take()
        except asyncio.CancelledError:
            now = clock.now()
            if now - asked > step:
                overdue(now, f"no answer within {(now - asked) / 1e9:.3g} s, when the load ended")
            raise
