"""The closed loop: C slots, each sending its next request as soon as its last one is answered.

Everything happens in callbacks of the event loop: the read that ends a response sends the slot's next request.
"""

import asyncio
import contextlib
import errno
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic_ns
from typing import Protocol

from runner.engine.verdict import Verdict
from runner.load.arrival import Arrival
from runner.load.connection import Connection
from runner.load.dial import Line, dial
from runner.load.exchange import VERDICTS, closed_early

STALLED_SECONDS = 5.0
"""An answer that has begun, with more than its head, and of which nothing came for so long is said to be stalled, and
so is a connection that is not open by then."""
AHEAD_SECONDS = 10.0
"""What has not been opened after so long is no reason to keep the round waiting: it is tried again with its request."""
_BEAT_SECONDS = 0.25
_FOREVER_SECONDS = 1e9
_OWN = (errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL)
"""What keeps a connection from being opened and is no word of the server: this machine has no more sockets for us, or
no more ports."""
_RESOLUTION_NS = 1_000_000
"""An event loop's timers fire on whole milliseconds: so much later is no lag."""


class Requests(Protocol):
    """Where the numbers of the requests come from."""

    def take(self) -> int | None:
        """The next one; None when nothing is left."""


@dataclass(frozen=True, slots=True)
class Round:
    """What one loop sends: `requests`, whole as they go over the wire, in turn by number, in `slots` at once.

    `timeout` is in seconds for a whole request, its connection included; `seconds`, where it is not None, after how
    many nothing more is sent. `keep_alive`: a slot keeps its connection.
    """

    line: Line
    requests: Sequence[bytes]
    slots: int
    timeout: float
    keep_alive: bool = True
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that is wrong with a request under way, or with how it ended, seen without reading its answer."""

    kind: str
    index: int
    at_ns: int
    detail: str


@dataclass(slots=True)
class Counts:
    """What may be watched while a loop runs. `silent_ns`: since when the slot that has waited longest for a byte has
    waited, None where none waits. `peer`: whom the last connection that was opened speaks to."""

    sent: int = 0
    done: int = 0
    silent_ns: int | None = None
    peer: str = ""


class ClosedLoop:
    """One round of a process. `keep` takes each request that is over, `trouble` what is seen to go wrong; `beat` is
    called four times a second, with how late that was, in nanoseconds."""

    def __init__(
        self,
        round_: Round,
        numbers: Requests,
        *,
        keep: Callable[[Arrival], None],
        trouble: Callable[[Trouble], None] = lambda _: None,
        beat: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.round, self.numbers, self.keep, self.trouble, self.beat = round_, numbers, keep, trouble, beat
        self.seen = Counts()
        self.over = False
        self._failed: Exception | None = None
        self._slots = [_Slot(self) for _ in range(round_.slots)]
        self._busy = 0
        self._over: deque[tuple[Arrival, int | None]] = deque()
        self._due: dict[_Slot, int] = {}
        self._timing: asyncio.TimerHandle | None = None
        self._beating: asyncio.TimerHandle | None = None
        self._empty = asyncio.Event()

    async def open(self) -> None:
        """Open every slot's connection, so that no request waits for one. One that cannot be opened is tried again
        when it is needed, and its failure is that request's."""
        if self.round.keep_alive:
            await asyncio.gather(*(slot.open_ahead() for slot in self._slots))

    async def run(self) -> None:
        """Send until nothing is left, and wait for the last answer. What `keep` or `trouble` raises ends it, and so
        does a machine that has no more sockets: OSError."""
        loop = asyncio.get_running_loop()
        limit = None if self.round.seconds is None else loop.call_later(self.round.seconds, self.wind_down)
        self._busy = len(self._slots)
        for slot in self._slots:
            slot.next()
        self._next_beat()
        try:
            await self._empty.wait()
        finally:
            for timer in (self._beating, self._timing, limit):
                if timer is not None:
                    timer.cancel()
            self.close()
        if self._failed is not None:
            raise self._failed

    def wind_down(self) -> None:
        """Send nothing more; what is under way may end."""
        self.over = True

    def stop(self) -> None:
        """Send nothing more, and give up what is under way."""
        self.over = True
        for slot in self._slots:
            slot.give_up("interrupted", "given up: nothing more was to be measured")

    def fail(self, error: Exception) -> None:
        """Give the round up: what it would measure from here on is not the server."""
        self._failed = self._failed or error
        self.stop()

    def close(self) -> None:
        """Send nothing more, and give all connections back; what is under way is lost."""
        self.over = True
        for slot in self._slots:
            slot.close()

    def idle(self) -> None:
        """A slot has nothing left to send."""
        self._busy -= 1
        self._settle()

    def _settle(self) -> None:
        if not self._busy and not self._over:
            self._empty.set()

    def due(self, slot: "_Slot", at_ns: int) -> None:
        """Have a slot's request given up at that time, unless it is `ended` before.

        All have the same time, so that the one which is due first is the one that was asked for first: one timer does
        for all, and costs a request nothing.
        """
        self._due[slot] = at_ns
        if self._timing is None:
            self._wait_for_the_first()

    def ended(self, slot: "_Slot") -> None:
        """A slot's request is over."""
        self._due.pop(slot, None)

    def _wait_for_the_first(self) -> None:
        first = next(iter(self._due.values()), None)
        self._timing = None
        if first is not None:
            seconds = (max(first - monotonic_ns(), 0) + _RESOLUTION_NS) / 1e9  # not a little before it is due
            self._timing = asyncio.get_running_loop().call_later(seconds, self._give_up_the_late)

    def _give_up_the_late(self) -> None:
        now = monotonic_ns()
        for slot in [slot for slot, at in self._due.items() if at <= now]:
            slot.timed_out()
        self._wait_for_the_first()

    def put_away(self, arrival: Arrival, status: int | None) -> None:
        """Have a request that is over noted and kept: one in each turn of the event loop, between its reads, so that
        answers that end together delay no read by more than one of them."""
        self.seen.done += 1
        self._over.append((arrival, status))
        if len(self._over) == 1:
            asyncio.get_running_loop().call_soon(self._put_one_away)

    def _put_one_away(self) -> None:
        arrival, status = self._over[0]
        if self._failed is None:
            try:
                self._note(arrival, status)
                self.keep(arrival)
            except Exception as error:
                self.fail(error)  # what cannot be kept is not to be measured
        self._over.popleft()
        if self._over:
            asyncio.get_running_loop().call_soon(self._put_one_away)
        self._settle()

    def _note(self, arrival: Arrival, status: int | None) -> None:
        broken = closed_early(arrival.data) if arrival.outcome == "closed" else VERDICTS.get(arrival.outcome)
        if broken is not None and broken is not Verdict.INTERRUPTED:
            self.trouble(Trouble(broken.value, arrival.index, arrival.ended_ns, arrival.detail))
        elif broken is None and status is not None and status != 200:
            self.trouble(Trouble(Verdict.HTTP_ERROR.value, arrival.index, arrival.ended_ns, f"HTTP {status}"))

    def look(self) -> None:
        """Look at every request under way: since when nothing came, and what status its answer has."""
        now = monotonic_ns()
        silent = [since for slot in self._slots if (since := slot.look(now)) is not None]
        self.seen.silent_ns = min(silent, default=None)

    def _next_beat(self) -> None:
        self._beat_at = monotonic_ns() + int(_BEAT_SECONDS * 1e9)
        self._beating = asyncio.get_running_loop().call_later(_BEAT_SECONDS, self._beat)

    def _beat(self) -> None:
        late = max(monotonic_ns() - self._beat_at - _RESOLUTION_NS, 0)
        self.look()
        self.beat(late)
        self._next_beat()


class _Slot:
    """One of the C: at most one request under way, and its connection."""

    def __init__(self, owner: ClosedLoop) -> None:
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self._opening: asyncio.Task[None] | None = None
        self._timeout_ns = int(min(owner.round.timeout, _FOREVER_SECONDS) * 1e9)
        self._told = False
        self._index: int | None = None
        self._planned = 0
        self._connect: tuple[int, int] | None = None
        self._sent: int | None = None

    async def _open(self) -> None:
        self._connection = await dial(self._owner.round.line, self._ended)
        with contextlib.suppress(OSError):
            self._owner.seen.peer = self._connection.peer

    async def open_ahead(self) -> None:
        """Have a connection when the first request is to be sent, if one is to be had by then."""
        with contextlib.suppress(OSError, ValueError):
            async with asyncio.timeout(min(self._owner.round.timeout, AHEAD_SECONDS)):
                await self._open()

    def next(self) -> None:
        """Take the next request and send it, opening a connection where none is."""
        owner = self._owner
        self._planned = monotonic_ns()
        self._index = None if owner.over else owner.numbers.take()
        if self._index is None:
            owner.idle()
            return
        self._connect = self._sent = None
        self._told = False
        owner.seen.sent += 1
        owner.due(self, self._planned + self._timeout_ns)
        if self._connection is not None and self._connection.usable():
            self._send(self._connection)
        else:
            self._opening = self._loop.create_task(self._open_and_send())

    def _send(self, connection: Connection) -> None:
        assert self._index is not None
        requests = self._owner.round.requests
        self._sent = connection.send(requests[self._index % len(requests)])

    async def _open_and_send(self) -> None:
        asked = monotonic_ns()
        try:
            await self._open()
        except (OSError, ValueError) as error:  # no ValueError but of a name that TLS cannot ask for
            if getattr(error, "errno", None) in _OWN:
                self._owner.fail(error)
                return
            self._ended("refused", getattr(error, "strerror", None) or str(error))
            return
        self._connect = asked, monotonic_ns()
        if self._connection is not None:
            self._send(self._connection)

    def timed_out(self) -> None:
        """Give up a request that has had its time."""
        self.give_up("timed-out", f"no complete answer within {self._owner.round.timeout:g} s")

    def give_up(self, outcome: str, detail: str) -> None:
        """End the request under way, if there is one; its connection is of no use any more."""
        if self._index is None:
            return
        if self._opening is not None:
            self._opening.cancel()
        if self._connection is not None:
            self._connection.close()
        self._ended(outcome, detail)

    def _ended(self, outcome: str, detail: str) -> None:
        connection, index, planned = self._connection, self._index, self._planned
        if index is None:
            return
        ended = monotonic_ns()
        self._owner.ended(self)
        sent, connect, self._opening = self._sent, self._connect, None
        status = None
        heard: tuple[list[bytes], list[Sequence[tuple[int, int, bytes]]], list[int]] = ([], [], [])
        if connection is not None and sent is not None:
            heard, status = (connection.data, connection.notes, connection.seen), connection.status
            if not self._owner.round.keep_alive:
                connection.close()
        self.next()  # first the next request goes out, then the last one is put away
        arrival = Arrival(index, planned, connect, sent, ended, outcome, detail, *heard)
        self._owner.put_away(arrival, status)

    def look(self, now: int) -> int | None:
        """Since when the request under way has had no byte; None where none is under way."""
        connection = self._connection
        if self._index is None:
            return None
        if connection is None or self._sent is None:
            if not self._told and now - self._planned > STALLED_SECONDS * 1e9:
                self._tell("stalled", now, f"no connection for {STALLED_SECONDS:g} s")
            return None
        reads = connection.seen
        since = reads[-1] if reads else self._sent
        if self._told:
            return since
        begun = len(reads) > 1 or (len(reads) == 1 and not connection.data[0].endswith(b"\r\n\r\n"))
        stalled = begun and now - since > STALLED_SECONDS * 1e9
        refused = connection.status is not None and connection.status != 200
        if stalled or refused:
            detail = f"HTTP {connection.status}" if refused else f"no byte for {STALLED_SECONDS:g} s"
            self._tell("http-error" if refused else "stalled", now, detail)
        return since

    def _tell(self, kind: str, now: int, detail: str) -> None:
        assert self._index is not None
        self._told = True
        self._owner.trouble(Trouble(kind, self._index, now, detail))

    def close(self) -> None:
        """Give the connection back, or leave off opening one."""
        if self._opening is not None:
            self._opening.cancel()
        if self._connection is not None:
            self._connection.close()
