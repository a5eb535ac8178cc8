"""Time to first token."""

from runner.analysis.interval import Intervals
from runner.analysis.stamps import ClockError, arrivals, since_sent
from runner.analysis.value import Absent
from runner.record.events import RequestDone


def ttft(request: RequestDone, error: ClockError) -> Intervals | Absent:
    """TTFT = the first event that carried a generated token, of any channel (content, reasoning, a tool call), − sent.

    One value a request. An event with a role alone is no token.
    """
    if request.events is None or not request.events.at_ns:
        return Absent("no-token-events")
    return Intervals.of(since_sent(arrivals(request.events, error)[0], error))
