"""Blocking calls to a cluster, beside the event loop."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def read(call: Callable[[], T]) -> T:
    """What `call` returns or raises. Cancelled meanwhile, its answer is nobody's: it changes nothing."""
    return await asyncio.to_thread(call)


async def written(call: Callable[[], T]) -> T:
    """What `call` returns or raises. It changes something, and so its end is waited for when this is cancelled:
    what is put back afterwards must not be overtaken by what was still on its way."""
    under_way = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        return await asyncio.shield(under_way)
    except asyncio.CancelledError:
        while not under_way.done():
            with contextlib.suppress(asyncio.CancelledError):  # it is raised below
                await asyncio.wait([under_way])
        if not under_way.cancelled():
            under_way.exception()  # heard: whoever asked has gone
        raise
