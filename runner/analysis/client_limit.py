"""Was the client the limit, and not the engine?"""

from functools import lru_cache
from statistics import median

from runner.analysis.in_flight import achieved_concurrency, asked, sending
from runner.analysis.value import Absent
from runner.record.parts import ProcessWatched
from runner.record.record import Round

ENOUGH_ACHIEVED = 0.95
"""Below this share of the concurrency asked for, a slot in twenty was idle on average: the engine served another load
than the cell's name says. A closed loop that keeps up loses less than a hundredth."""
ENOUGH_WAVES = 2
"""The span of sending must hold so many requests one after another; in a shorter one the ramp at its beginning, and
the requests that happened to be short, weigh more than an idle slot."""
ENOUGH_READS = 100
"""Of fewer the p99 is the maximum: one pause of the machine."""
LAG_SECONDS = 0.01
"""And it must be more than a busy machine's scheduler takes now and then: the kernel's stamps are not late by it."""
LAG_SHARE = 0.05
"""A loop that is later than this share of a request's time, once in a hundred, sends the next request by as much too
late, and by the user clock stamps by as much too late: the same 5 % that a figure's clock may be off."""


@lru_cache(maxsize=1024)
def client_limit(round_: Round) -> Absent | None:
    """Why the client's times of a round are not the engine's; None where nothing says so.

    It kept fewer than 95 % of the asked requests in flight, over a span that holds two requests one after another; or
    its lag, of the process that lagged most, was above 10 ms and above 5 % of the median duration of the ok requests:
    that of its reads, by the user clock that of its timers, p99, of fewer than 100 reads the median. A slot that waits
    for its connection to open is not idle: what takes the time is the network or the server. Where one request at a
    time is asked for, a pause between two of them is in no request's time and changes no batch: such a round is judged
    by its lag alone. One in which the client did not watch itself is not judged by its lag.
    """
    durations = [
        (request.ended_ns - request.sent_ns) / 1e9
        for request in round_.ok
        if request.ended_ns is not None and request.sent_ns is not None
    ]
    if not durations:
        return None
    typical = median(durations)
    first, last = sending(round_)
    achieved, wanted = achieved_concurrency(round_), asked(round_)
    if (
        wanted > 1
        and not isinstance(achieved, Absent)
        and (last - first) / 1e9 >= ENOUGH_WAVES * typical
        and achieved < ENOUGH_ACHIEVED * wanted
        and not isinstance(busy := achieved_concurrency(round_, connecting=True), Absent)
        and busy < ENOUGH_ACHIEVED * wanted
    ):
        return Absent("client-limit", {"achieved": achieved, "asked": wanted})
    processes = [] if round_.client is None else round_.client.processes
    known = [found for one in processes if (found := _lag_ns(one)) is not None]
    if known:
        lag = max(known) / 1e9
        if lag > max(LAG_SECONDS, LAG_SHARE * typical):
            return Absent("client-lag", {"lag": lag, "duration": typical})
    return None


def _lag_ns(process: ProcessWatched) -> int | None:
    """How late a process got round to things: by its reads where the kernel says when their bytes had come, their p99,
    or of few reads the median, for their p99 is one of them; else by its timers."""
    if process.read_lag_p99_ns is None:
        return process.loop_lag_p99_ns
    return process.read_lag_p99_ns if process.reads >= ENOUGH_READS else process.read_lag_p50_ns
