"""Wall time of a round."""

from runner.analysis.value import Absent, Value
from runner.record.record import Round


def wall_seconds(round_: Round) -> Value:
    """Seconds from the sending of the first measured request until the last one was over, failed ones included.

    Warm-up and excluded requests are outside. This is what `time` around a whole pipeline of clients shows
    (article, section 7-1), without the clients' own start.
    """
    if round_.finished is None or not round_.finished.complete:
        return Absent("interrupted")
    went_out = [request for request in round_.of_role("measured") if request.sent_ns is not None]
    sent = [request.sent_ns for request in went_out if request.sent_ns is not None]
    ended = [request.ended_ns for request in went_out if request.ended_ns is not None]
    if not sent or not ended or not round_.ok:
        return Absent("no-ok-requests")
    if len(ended) < len(sent):
        return Absent("interrupted")  # without the end of each, the last end is not known: the wall would be too short
    return (max(ended) - min(sent)) / 1e9
