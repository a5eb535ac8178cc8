"""Inter-token latency."""

from runner.analysis.interval import Intervals
from runner.analysis.stamps import ClockError, arrivals
from runner.analysis.value import Absent
from runner.record.events import RequestDone


def itl(request: RequestDone, error: ClockError) -> Intervals | Absent:
    """ITL = (an event − the one before it) ÷ the tokens that it carried, counted once for each of these tokens.

    So an event of four tokens after 30 ms is four values of 7.5 ms, and a mean of all is the time from the first event
    to the last one over the tokens between. The first event has no gap. Tokens as in `tpot`.
    """
    events = request.events
    if events is None or not events.at_ns:
        return Absent("no-token-events")
    if events.tokens is None:
        return Absent("event-tokens-unknown")
    # An event that added none to the count leaves its time to the next one.
    counted = [number for number, tokens in enumerate(events.tokens) if tokens or not number]
    gaps = arrivals(events, error).picked(counted).gaps(error.drift)
    return gaps.shared([events.tokens[number] for number in counted[1:]])
