"""Inter-token latency."""

from collections.abc import Sequence

from runner.analysis.interval import Interval
from runner.analysis.stamps import ClockError, arrivals, between
from runner.analysis.value import Absent
from runner.record.events import RequestDone


def itl(request: RequestDone, error: ClockError) -> Sequence[Interval] | Absent:
    """ITL = (an event − the one before it) ÷ the tokens that it carried, counted once for each of these tokens.

    So an event of four tokens after 30 ms is four values of 7.5 ms, and a mean of all is the time from the first event
    to the last one over the tokens between. The first event has no gap. Tokens as in `tpot`.
    """
    events = request.events
    if events is None or not events.at_ns:
        return Absent("no-token-events")
    if events.tokens is None:
        return Absent("event-tokens-unknown")
    moments = arrivals(events, error)
    values: list[Interval] = []
    before = moments[0]
    for moment, tokens in zip(moments[1:], events.tokens[1:], strict=True):
        if tokens:  # an event that added none to the count leaves its time to the next one
            gap = between(before, moment, error)
            values += [Interval(*(seconds / tokens for seconds in gap))] * tokens
            before = moment
    return values
