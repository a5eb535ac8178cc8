"""Blocking calls to a cluster, beside the event loop."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from runner.target.kubernetes.cluster_error import ClusterError

T = TypeVar("T")

_AGAIN = 2.0


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


class Patience:
    """Asks again while the API server is away, busy, or not up yet: a cluster that is started again is away for
    minutes, and what was taken must be given back all the same."""

    def __init__(self, seconds: float, waits: Callable[[str], None]) -> None:
        """`seconds` it may be away without an answer; `waits` hears why, once each time."""
        self._seconds, self._waits = seconds, waits
        self._since: float | None = None

    async def ask(self, call: Callable[[], Awaitable[T]]) -> T:
        """What `call` returns or raises in the end; it must do no harm when it is done twice. Raises ClusterError."""
        while True:
            try:
                answer = await call()
            except ClusterError as error:
                if not error.transient:
                    raise
                now = time.monotonic()
                if self._since is None:
                    self._since = now
                    self._waits(str(error))
                if now - self._since >= self._seconds:
                    raise
                await asyncio.sleep(_AGAIN)
            else:
                self._since = None
                return answer
