"""Requests in flight over time, and the concurrency that a round achieved."""

from itertools import groupby, pairwise

from runner.analysis.value import Absent, Value
from runner.record.events import RequestDone
from runner.record.record import Round


def asked(round_: Round) -> int:
    """How many requests should be in flight at a time: the concurrency, or all there are."""
    return min(round_.concurrency, len(_sent(round_)))


def in_flight(round_: Round, *, connecting: bool = False) -> list[tuple[int, int]]:
    """The step series (nanoseconds, requests in flight from then on), of the excluded and the measured requests.

    A request is in flight from its sending until it was over, whatever became of it; one whose end is not known stays.
    Requests that begin and end in the same instant make one step, and none where the number stays. With `connecting`
    each begins when its connection was asked for, where it had to wait for one.
    """
    changes = [
        (request.sent_ns - (request.connect_ns or 0 if connecting else 0), 1)
        for request in _sent(round_)
        if request.sent_ns is not None
    ]
    changes += [(request.ended_ns, -1) for request in _sent(round_) if request.ended_ns is not None]
    steps: list[tuple[int, int]] = []
    count = 0
    for at, together in groupby(sorted(changes), key=lambda change: change[0]):
        change = sum(by for _, by in together)
        if change:
            count += change
            steps.append((at, count))
    return steps


def achieved_concurrency(round_: Round, *, connecting: bool = False) -> Value:
    """Time in flight between the first and the last sending ÷ that span: the mean number of requests in flight while
    there was still one to send. Absent where all were sent at once. `connecting` as in `in_flight`."""
    requests = _sent(round_)
    if not requests:
        return Absent("not-measured")
    if any(request.ended_ns is None for request in requests):
        return Absent("interrupted")
    first, last = sending(round_)
    if first == last:
        return Absent("sent-at-once")
    steps = [(max(at, first), count) for at, count in in_flight(round_, connecting=connecting) if at <= last]
    whole = sum(count * (until - at) for (at, count), (until, _) in pairwise([*steps, (last, 0)]))
    return whole / (last - first)


def sending(round_: Round) -> tuple[int, int]:
    """When the first and the last request were sent, in nanoseconds. Raises ValueError where none was."""
    sent = [request.sent_ns for request in _sent(round_) if request.sent_ns is not None]
    return min(sent), max(sent)


def _sent(round_: Round) -> list[RequestDone]:
    return [request for request in round_.of_role("excluded", "measured") if request.sent_ns is not None]
