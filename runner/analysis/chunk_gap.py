"""Time between chunks."""

from collections.abc import Sequence
from itertools import pairwise

from runner.analysis.interval import Interval
from runner.analysis.stamps import ClockError, arrivals, between
from runner.analysis.value import Absent
from runner.record.events import RequestDone


def chunk_gap(request: RequestDone, error: ClockError) -> Sequence[Interval] | Absent:
    """Chunk gap = an event that carried a token − the one before it, however many tokens each carried.

    It is what a reader of the stream sees, and no time of a token.
    """
    events = request.events
    if events is None or not events.at_ns:
        return Absent("no-token-events")
    return [between(first, second, error) for first, second in pairwise(arrivals(events, error))]
