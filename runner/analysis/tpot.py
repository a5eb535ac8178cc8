"""Time per output token."""

from runner.analysis.interval import Interval, Intervals
from runner.analysis.stamps import ClockError, arrivals, between
from runner.analysis.value import Absent
from runner.record.events import RequestDone


def tpot(request: RequestDone, error: ClockError) -> Intervals | Absent:
    """TPOT = (last token − first token) ÷ (completion tokens − tokens of the first event).

    One value a request; none where all its tokens came in one event. The first event's tokens came before the time
    that is divided began. Tokens are the server's own count (usage), never the number of chunks: with speculative
    decoding one chunk carries several.
    """
    events = request.events
    if events is None or not events.at_ns:
        return Absent("no-token-events")
    if events.tokens is None or request.completion_tokens is None:
        return Absent("event-tokens-unknown")
    later = request.completion_tokens - events.tokens[0]
    if len(events.at_ns) < 2 or later <= 0:
        return Intervals()
    moments = arrivals(events, error)
    whole = between(moments[0], moments[-1], error)
    return Intervals.of(Interval(*(seconds / later for seconds in whole)))
