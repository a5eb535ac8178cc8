"""The load generator: processes of its own, so that nothing that the runner does beside a round delays a request."""

import asyncio
import base64
import contextlib
import json
import socket
import subprocess
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from runner.access import OPEN, Access
from runner.interpreter import python
from runner.load.budget import Budget
from runner.load.destination import Destination
from runner.record.clock import RunClock

T = TypeVar("T")

_LINE_LIMIT = 1 << 20
_END_SECONDS = 5.0


class LoadError(Exception):
    """A process of the load generator ended by itself: what it had under way is lost."""


@dataclass(frozen=True, slots=True)
class Load:
    """What one round sends to `endpoint`: `requests` of them, numbered from `first_index`, with `bodies` in turn by
    number, `concurrency` at once, over `processes`.

    `timeout` is in seconds, for a whole request; `seconds`: after how many nothing more is sent. `capture` is the file
    into which everything that comes is written; with several processes one beside it for each.
    """

    endpoint: str
    bodies: Sequence[bytes]
    requests: int
    concurrency: int
    timeout: float
    capture: Path
    first_index: int = 0
    processes: int = 1
    keep_alive: bool = True
    seconds: float | None = None
    access: Access = OPEN


@dataclass(frozen=True, slots=True)
class InFlight:
    """How a round goes: requests sent and over, and for how many seconds the slot that has waited longest for a byte
    has waited, None where none waits."""

    sent: int = 0
    done: int = 0
    silent_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """The first trouble of its kind in a round; `at_ns` by the run's clock."""

    kind: str
    index: int
    at_ns: int
    detail: str


class LoadGenerator:
    """Starts its processes when they are first needed, and keeps them until it is left."""

    def __init__(self) -> None:
        self._budget: Budget | None = None
        self._processes: list[_Process] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await asyncio.gather(*(process.end() for process in self._processes))
        finally:
            if self._budget is not None:
                self._budget.close()

    async def start(self, count: int) -> Budget:
        """Have so many processes, so that the next round does not wait for them; what they take requests from."""
        self._budget = self._budget or Budget()
        while len(self._processes) < count:
            self._processes.append(await _Process.start(self._budget))
        return self._budget

    async def send(
        self,
        load: Load,
        *,
        clock: RunClock,
        stop: asyncio.Event,
        listen: Callable[[InFlight], None] = lambda _: None,
        trouble: Callable[[Seen], None] = lambda _: None,
    ) -> list[Path]:
        """Send every request, and write what comes into captures, whose paths come back, one a process.

        When `stop` is set nothing more is sent, and what is under way is captured as interrupted. When it raises or is
        cancelled its processes are ended, for nobody hears them any more. Raises LoadError.
        """
        if not load.requests:
            return []
        slots = min(load.concurrency, load.requests)
        count = max(1, min(load.processes, slots))
        budget = await self.start(count)
        budget.fill(range(load.first_index, load.first_index + load.requests))
        message = await _unless(stop, _message(load, clock))
        if message is None:
            return []
        captures = [_capture(load.capture, number) for number in range(count)]
        working = self._processes[:count]
        for number, (process, capture) in enumerate(zip(working, captures, strict=True)):
            share = slots // count + (number < slots % count)
            process.tell({**message, "slots": share, "capture": str(capture.absolute())})
        hear = _Ears(count, listen, trouble)
        stopping = asyncio.ensure_future(_pass_on(stop, working))
        try:
            await asyncio.gather(*(process.heard("ready", hear, number) for number, process in enumerate(working)))
            for process in working:
                process.tell("go")
            await asyncio.gather(*(process.heard("done", hear, number) for number, process in enumerate(working)))
        except BaseException:
            self._processes = self._processes[count:]
            await asyncio.gather(*(process.end() for process in working))
            raise
        finally:
            stopping.cancel()
            await asyncio.gather(stopping, return_exceptions=True)
        return captures


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """What `work` returns; None when `stop` is set before: a name that is not found may take minutes."""
    task, told = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({task, told}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        task.cancel()
        told.cancel()
        await asyncio.gather(task, told, return_exceptions=True)


async def _pass_on(stop: asyncio.Event, processes: Sequence["_Process"]) -> None:
    await stop.wait()
    for process in processes:
        process.tell("stop")


def _capture(path: Path, number: int) -> Path:
    return path if not number else path.with_name(f"{path.stem}-{number + 1}{path.suffix}")


async def _message(load: Load, clock: RunClock) -> dict[str, Any]:
    destination = Destination.of(load.endpoint)
    none = ""
    try:
        addresses = await destination.addresses()
    except OSError as error:
        addresses, none = [], error.strerror or str(error)
    return {
        "destination": asdict(destination),
        "addresses": [[int(family), list(address)] for family, address in addresses],
        "none": none,
        "bodies": [base64.b64encode(body).decode() for body in load.bodies],
        "headers": list(load.access.headers),
        "authorities": load.access.authorities,
        "timeout": load.timeout,
        "keep_alive": load.keep_alive,
        "seconds": load.seconds,
        "origin_ns": clock.origin_ns,
    }


class _Ears:
    """Puts together what the processes tell."""

    def __init__(self, count: int, listen: Callable[[InFlight], None], trouble: Callable[[Seen], None]) -> None:
        self._of = [InFlight()] * count
        self._listen, self._trouble = listen, trouble
        self._kinds: set[str] = set()

    def progress(self, number: int, sent: int, done: int, silent: float | None) -> None:
        """A process's progress; the listener hears the sum."""
        self._of[number] = InFlight(sent, done, silent)
        waits = [one.silent_seconds for one in self._of if one.silent_seconds is not None]
        total = InFlight(sum(one.sent for one in self._of), sum(one.done for one in self._of), max(waits, default=None))
        self._listen(total)

    def trouble(self, seen: Seen) -> None:
        """The first of each kind is passed on."""
        if seen.kind not in self._kinds:
            self._kinds.add(seen.kind)
            self._trouble(seen)


class _Process:
    """One process, and the socket over which it is told what to do."""

    def __init__(
        self, child: asyncio.subprocess.Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._child, self._reader, self._writer = child, reader, writer
        assert child.stderr is not None
        self._stderr = asyncio.ensure_future(child.stderr.read())

    @classmethod
    async def start(cls, budget: Budget) -> Self:
        ours, theirs = socket.socketpair()
        with theirs:
            child = await asyncio.create_subprocess_exec(
                *python("runner.load.worker", str(theirs.fileno()), str(budget.fd)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=(theirs.fileno(), budget.fd),
                start_new_session=True,  # Ctrl-C is the runner's to hear
            )
        reader, writer = await asyncio.open_connection(sock=ours, limit=_LINE_LIMIT)
        return cls(child, reader, writer)

    def tell(self, message: Any) -> None:
        self._writer.write(json.dumps(message).encode() + b"\n")

    async def heard(self, kind: str, ears: _Ears, number: int) -> None:
        """Listen until it says this. Raises LoadError when it ends instead."""
        while True:
            line = b""
            with contextlib.suppress(ConnectionError):
                line = await self._reader.readline()
            if not line.endswith(b"\n"):
                raise LoadError(f"a process of the load generator {await self._words()}")
            told = json.loads(line)
            match told.pop("tell"):
                case "trouble":
                    ears.trouble(Seen(**told["seen"]))
                case "progress":
                    ears.progress(number, told["sent"], told["done"], told["silent_seconds"])
                case "done":
                    ears.progress(number, told["sent"], told["done"], None)
                    return
                case said if said == kind:
                    return

    async def _words(self) -> str:
        words = await self._stderr
        code = await self._child.wait()
        last = words.decode("utf-8", "replace").strip().splitlines()[-1:]
        return f"ended with exit code {code}{': ' + last[0] if last else ''}"

    async def end(self) -> None:
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()
        try:
            async with asyncio.timeout(_END_SECONDS):
                await self._child.wait()
        except TimeoutError:
            self._child.kill()
            await self._child.wait()
        await self._stderr
