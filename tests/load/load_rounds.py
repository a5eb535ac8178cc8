"""Rounds by the load generator's own processes, read from their captures."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from load_bytes import MODEL, completion, plain
from load_wire import Server, numbered, says

from runner.engine.verdict import Verdict
from runner.load.generator import InFlight, Load, LoadGenerator, Seen
from runner.load.reading import Heard, read_captures
from runner.record.clock import RunClock

OK = says(plain(completion()))


async def generate(
    generator: LoadGenerator,
    server: Server | str,
    tmp_path: Path,
    *,
    bodies: list[bytes] | None = None,
    requests: int = 12,
    concurrency: int = 4,
    processes: int = 2,
    timeout: float = 60.0,
    stop: asyncio.Event | None = None,
    listen: Callable[[InFlight], None] = lambda _: None,
    trouble: Callable[[Seen], None] = lambda _: None,
    stream: bool = False,
    clock: RunClock | None = None,
    **more: Any,
) -> Heard:
    """One round, read from its captures."""
    load = Load(
        server if isinstance(server, str) else server.endpoint,
        numbered(requests) if bodies is None else bodies,
        requests,
        concurrency,
        timeout,
        tmp_path / "round.capture",
        processes=processes,
        **more,
    )
    captures = await generator.send(
        load, clock=clock or RunClock(), stop=stop or asyncio.Event(), listen=listen, trouble=trouble
    )
    return read_captures(captures, model=MODEL, stream=stream)


@contextlib.asynccontextmanager
async def pair(answer: Any, **more: Any) -> AsyncIterator[tuple[Server, LoadGenerator]]:
    async with Server(answer, **more) as server, LoadGenerator() as generator:
        yield server, generator


def verdicts(heard: Heard) -> list[Verdict]:
    return [one.verdict for one in heard.judged]
