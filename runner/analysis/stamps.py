"""What a stamp is worth: the clock that took it, and how far it can be from the truth."""

from collections.abc import Iterable
from dataclasses import dataclass

from runner.analysis.interval import Interval, Intervals
from runner.record.events import RequestDone
from runner.record.parts import TokenEvents
from runner.record.record import Round

TIMER_SECONDS = 0.001
"""An event loop's timer fires on whole milliseconds: the lag that it shows is without this one."""


@dataclass(frozen=True, slots=True)
class ClockError:
    """Seconds. What came may have come up to `late` before its stamp: by the user clock, the time it lay unread.
    `drift` is how far any two stamps may be apart from the truth, either way: by the kernel's clock, how far the wall
    clock moved against the monotonic one over the round."""

    late: float = 0.0
    drift: float = 0.0


def clock_error(round_: Round, request: RequestDone) -> ClockError | None:
    """The error of one request's receive stamps; None where nothing tells, as before the client watched itself.

    By the user clock it is the p99 of the loop's lag and a timer's own millisecond, of the process that lagged most:
    bytes are read when the loop gets round to it. A round that was over before a timer fired does not tell. By the
    kernel's clock it is the largest drift of a process.
    """
    if round_.client is None or not round_.client.processes or request.clock is None:
        return None
    processes = round_.client.processes
    if request.clock == "kernel":
        return ClockError(drift=max(abs(one.drift_ns) for one in processes) / 1e9)
    lags = [one.loop_lag_p99_ns for one in processes if one.loop_lag_p99_ns is not None]
    return ClockError(late=max(lags) / 1e9 + TIMER_SECONDS) if len(lags) == len(processes) else None


def arrivals(events: TokenEvents, error: ClockError) -> Intervals:
    """When each event of a stream came, in seconds after its request was sent.

    The clock's error says how early an event can have come. One behind which the same read held more came, besides, at
    any time after the read before.
    """
    stamps = [at / 1e9 for at in events.at_ns]
    lows = [max(at - error.late, 0.0) for at in stamps] if error.late else list(stamps)
    for number, earliest in events.bounds:
        lows[number] = min(max(earliest / 1e9, 0.0), lows[number])
    return Intervals(lows, stamps, stamps)


def between(first: Interval, second: Interval, error: ClockError) -> Interval:
    """The time from one event to a later one."""
    return Intervals.of(first, second).gaps(error.drift)[0]


def since_sent(moment: Interval, error: ClockError) -> Interval:
    """The time from sending until then. The stamp of sending is the client's own, and exact."""
    return Interval(max(moment.low - error.drift, 0.0), moment.value, moment.high + error.drift)


def clocks(requests: Iterable[RequestDone]) -> list[str]:
    """The clocks that stamped what these requests received. Before the clock was recorded it was the user's."""
    return sorted({request.clock or "user" for request in requests})
