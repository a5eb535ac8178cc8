"""Time between chunks."""

from runner.analysis.interval import Intervals
from runner.analysis.stamps import ClockError, arrivals
from runner.analysis.value import Absent
from runner.record.events import RequestDone


def chunk_gap(request: RequestDone, error: ClockError) -> Intervals | Absent:
    """Chunk gap = an event that carried a token − the one before it, however many tokens each carried.

    It is what a reader of the stream sees, and no time of a token.
    """
    events = request.events
    if events is None or not events.at_ns:
        return Absent("no-token-events")
    return arrivals(events, error).gaps(error.drift)
