"""Blocking calls beside the event loop."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from runner.sample.gpu.reading import GpuError

T = TypeVar("T")

_LIMIT = 12.0
"""Seconds; above what nvidia-smi gets for two questions, so that it can be ended."""


class Aside:
    """Makes blocking calls one at a time, each in a thread of its own.

    The threads are daemons: a driver that hangs holds up neither the load nor the end of the program.
    """

    def __init__(self, limit: float = _LIMIT) -> None:
        self._limit = limit
        self._under_way: asyncio.Future[Any] | None = None

    async def call(self, function: Callable[[], T]) -> T:
        """What `function` returns or raises. Raises GpuError where it, or the call before it, does not come back in
        time. To be cancelled while it waits leaves the call to end by itself."""
        await self._ended()
        result: concurrent.futures.Future[T] = concurrent.futures.Future()
        threading.Thread(target=_fill, args=(result, function), name="gpu reading", daemon=True).start()
        self._under_way = future = asyncio.wrap_future(result)
        future.add_done_callback(lambda done: done.cancelled() or done.exception())  # heard, whoever still waits
        await self._ended()
        return future.result()

    async def _ended(self) -> None:
        if self._under_way is None:
            return
        await asyncio.wait([self._under_way], timeout=self._limit)
        if not self._under_way.done():
            raise GpuError(f"the driver gave no answer within {self._limit:g} s")


def _fill(result: concurrent.futures.Future[T], function: Callable[[], T]) -> None:
    try:
        result.set_result(function())
    except Exception as error:
        result.set_exception(error)
