"""A process of the load generator: `main([CONTROL, BUDGET])`, two inherited file descriptors.

It speaks JSON, one message a line. `prepare` describes a round; once its connections are open it answers `ready`, and
`go` starts it, at the same moment in every process. While it runs it tells how it goes and what goes wrong; `stop`
gives it up. `done` closes it, with what the process saw of itself. When the control socket closes, it ends.
"""

import asyncio
import base64
import contextlib
import json
import resource
import signal
import socket
from dataclasses import asdict
from pathlib import Path
from time import monotonic_ns
from typing import Any

from runner.load.budget import Budget
from runner.load.capture import CaptureWriter, Closing
from runner.load.closed_loop import ClosedLoop, Round, Trouble
from runner.load.destination import Destination
from runner.load.dial import Line
from runner.load.stamps import enable_stamps, keep_stamping, wall_offset
from runner.load.watch import SelfWatch, peak_memory_bytes, quantile

LINE_LIMIT = 1 << 30
"""Bytes of one message: it may hold every prompt of an experiment."""


class Worker:
    """Carries out the rounds that it is told of, one after the other."""

    def __init__(self, control: socket.socket, budget: Budget) -> None:
        self._control, self._budget = control, budget

    async def serve(self) -> None:
        """Until the control socket closes."""
        reader, self._writer = await asyncio.open_connection(sock=self._control, limit=LINE_LIMIT)
        try:
            while line := await reader.readline():
                told = json.loads(line)
                if isinstance(told, dict):  # else a stop that came when the round was over
                    await self._round(told, reader)
        finally:
            self._writer.close()

    def _tell(self, kind: str, **more: Any) -> None:
        if not self._writer.is_closing():  # else nobody is left to hear it
            self._writer.write(json.dumps({"tell": kind, **more}).encode() + b"\n")

    async def _round(self, told: dict[str, Any], reader: asyncio.StreamReader) -> None:
        round_ = _round(told)
        offset = wall_offset()
        writer = CaptureWriter(Path(told["capture"]), told["origin_ns"], offset)
        closing: Closing | None = None
        watch = SelfWatch()

        def beat(late_ns: int) -> None:
            watch.late(late_ns)
            self._progress(loop)

        def trouble(seen: Trouble) -> None:
            self._tell("trouble", seen={**asdict(seen), "at_ns": seen.at_ns - told["origin_ns"]})

        loop = ClosedLoop(round_, self._budget, keep=writer, trouble=trouble, beat=beat)
        try:
            if await self._agreed(loop, reader):
                await self._run(loop, watch, reader)
            closing = _closing(loop, watch, wall_offset() - offset)
        finally:
            writer.close(closing)
        self._tell("done", sent=loop.seen.sent, done=loop.seen.done)

    async def _agreed(self, loop: ClosedLoop, reader: asyncio.StreamReader) -> bool:
        """Open the connections and wait for all to start; False when the round is given up before."""
        heard = asyncio.ensure_future(reader.readline())
        opening = asyncio.ensure_future(loop.open())
        await asyncio.wait({heard, opening}, return_when=asyncio.FIRST_COMPLETED)
        if heard.done():
            opening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await opening
        self._tell("ready")
        agreed = (await heard).strip() == b'"go"'
        if not agreed:
            loop.close()
        return agreed

    async def _run(self, loop: ClosedLoop, watch: SelfWatch, reader: asyncio.StreamReader) -> None:
        async def stopped() -> None:
            with contextlib.suppress(ConnectionError):  # whoever told us is gone, and left words of ours unread
                await reader.readline()
            loop.stop()

        stopping = asyncio.ensure_future(stopped())
        try:
            with watch:
                await loop.run()
        finally:
            stopping.cancel()
            await asyncio.gather(stopping, return_exceptions=True)

    def _progress(self, loop: ClosedLoop) -> None:
        seen = loop.seen
        silent = None if seen.silent_ns is None else (monotonic_ns() - seen.silent_ns) / 1e9
        self._tell("progress", sent=seen.sent, done=seen.done, silent_seconds=silent)


def _closing(loop: ClosedLoop, watch: SelfWatch, drift_ns: int) -> Closing:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        why_user = enable_stamps(probe)
    return Closing(
        slots=loop.round.slots,
        requests=loop.seen.sent,
        seconds=watch.seconds,
        cpu_seconds=watch.cpu_seconds,
        queued_seconds=watch.queued_seconds,
        loop=type(asyncio.get_running_loop()).__module__.partition(".")[0],
        loop_lag_p99_ns=quantile(watch.loop_lags, 0.99),
        loop_lag_max_ns=max(watch.loop_lags, default=None),
        why_user=why_user,
        drift_ns=drift_ns,
        peak_memory_bytes=peak_memory_bytes(),
        address=loop.seen.peer,
    )


def _round(told: dict[str, Any]) -> Round:
    destination = Destination(**told["destination"])
    trusted = None
    if destination.tls:
        from runner.tls import trusted as certificates  # noqa: PLC0415 - it imports httpx: http does without

        trusted = certificates(told["authorities"])
    addresses = [(family, tuple(address)) for family, address in told["addresses"]]
    line = Line(destination, addresses, trusted, told["none"])
    bodies = [base64.b64decode(body) for body in told["bodies"]]
    headers = [(name, value) for name, value in told["headers"]]
    return Round(
        line,
        [destination.request(body, headers, keep_alive=told["keep_alive"]) for body in bodies],
        told["slots"],
        told["timeout"],
        told["keep_alive"],
        told["seconds"],
    )


def main(argv: list[str]) -> None:
    """Serve on the inherited control socket until it closes."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # whoever started us is told, puts things in order, and closes the socket
    _open_as_many_as_may_be()
    control, budget = socket.socket(fileno=int(argv[0])), Budget(int(argv[1]))
    with contextlib.ExitStack() as kept, contextlib.suppress(ConnectionError):
        with contextlib.suppress(OSError):  # without it the first reads may lack their stamps, which will be said
            kept.enter_context(keep_stamping())
        _runner()(Worker(control, budget).serve())


def _open_as_many_as_may_be() -> None:
    """Each slot has a socket, and the limit that a shell gives is often 1,024."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(OSError, ValueError):  # macOS has limits above those that it grants
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _runner() -> Any:
    try:
        import uvloop  # noqa: PLC0415 - absent on some systems
    except ImportError:
        return asyncio.run
    return uvloop.run
