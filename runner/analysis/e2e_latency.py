"""End-to-end latency of single requests."""

from runner.analysis.interval import Interval, Intervals
from runner.analysis.stamps import ClockError, since_sent
from runner.analysis.value import Absent
from runner.record.events import RequestDone


def e2e_latency(request: RequestDone, error: ClockError) -> Intervals | Absent:
    """E2E latency = last byte − sent. One value a request, streamed or not.

    The time that its connection took to open is before it.
    """
    if request.sent_ns is None or request.last_byte_ns is None:
        return Absent("no-last-byte")
    took = (request.last_byte_ns - request.sent_ns) / 1e9
    return Intervals.of(since_sent(Interval(max(took - error.late, 0.0), took, took), error))
