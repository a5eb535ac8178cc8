"""Sending requests and hearing what came back: the load generator's captures become judged requests."""

import asyncio
import itertools
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from runner.execution.context import Context
from runner.execution.requests import KINDS, Place
from runner.load.capture import compress
from runner.load.generator import InFlight, Load, Seen
from runner.load.reading import Heard, read_captures
from runner.plan.processes import processes
from runner.record.directory import ARTIFACTS
from runner.record.events import TroubleSeen

SUFFIX, PACKED = ".capture", ".gz"


async def send(
    context: Context,
    place: Place,
    endpoint: str,
    bodies: Sequence[bytes],
    *,
    requests: int,
    concurrency: int,
    kind: str = "",
    first_index: int = 0,
    timeout: float | None = None,
    seconds: float | None = None,
    stop: asyncio.Event | None = None,
    listen: Callable[[InFlight], None] = lambda _: None,
) -> list[Path]:
    """Send requests with `bodies` in turn by number. `kind` is added to the capture's name; `timeout` in seconds is the
    plan's by default, `seconds` ends the sending.

    What came is in the captures, whose paths come back: `hear` reads them, and `pack` compresses them, once nothing
    presses any more. Raises LoadError.
    """
    load = Load(
        endpoint,
        bodies,
        requests,
        concurrency,
        context.plan.limits.request_timeout_seconds if timeout is None else timeout,
        context.artifact(place.folder, f"{place.stem}{kind}{SUFFIX}"),
        first_index,
        processes(context.plan.load, concurrency, requests, _cpus()),
        context.plan.load.connection == "keep-alive",
        seconds,
        context.access,
    )

    def trouble(seen: Seen) -> None:
        if not place.round:
            return  # before the first round an engine may still be starting, and is asked until it answers
        context.emit(
            TroubleSeen.model_validate(
                {**place.fields, "at_ns": seen.at_ns, "kind": seen.kind, "index": seen.index, "detail": seen.detail}
            )
        )

    return await context.load.send(load, clock=context.clock, stop=stop or context.stop, listen=listen, trouble=trouble)


async def hear(context: Context, captures: Sequence[Path], *, model: str, stream: bool) -> Heard:
    """Read what came. Raises CaptureError."""

    def named(path: Path) -> str:
        return packed_name(path, context.directory)

    # A large round takes a while to read, and a signal is to be heard meanwhile.
    return await asyncio.to_thread(read_captures, captures, model=model, stream=stream, artifact=named)


def _cpus() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def packed_name(path: Path, directory: Path) -> str:
    """How the journal names a capture, which by the time of reading may not be packed yet."""
    return path.relative_to(directory).as_posix().removesuffix(PACKED) + PACKED


def captures(folder: Path, place: Place, kind: str = "") -> list[Path]:
    """The captures of a place below a folder of artifacts, packed or not, one a process."""
    stem = folder / place.folder / f"{place.stem}{kind}"
    numbered = (stem if number == 1 else stem.with_name(f"{stem.name}-{number}") for number in itertools.count(1))
    names = ((one.with_name(one.name + SUFFIX), one.with_name(one.name + SUFFIX + PACKED)) for one in numbered)
    found = (next((path for path in pair if path.exists()), None) for pair in names)
    return [path for path in itertools.takewhile(lambda path: path is not None, found) if path is not None]


async def pack(context: Context, place: Place) -> None:
    """Compress what was captured at a place."""
    for kind in KINDS:
        for path in captures(context.directory / ARTIFACTS, place, kind):
            if path.suffix == SUFFIX:
                await asyncio.to_thread(compress, path)
