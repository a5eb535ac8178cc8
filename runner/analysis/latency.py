"""End-to-end latency: the client's per request, the server's mean per round."""

from statistics import fmean

from runner.analysis.client_limit import client_limit
from runner.analysis.counters import counter_delta, window_requests
from runner.analysis.value import Absent, Value, ratio
from runner.engine import metrics
from runner.plan.model import PlannedPhase
from runner.record.record import Round


def client_latencies(round_: Round) -> list[float]:
    """Seconds from sending to the last byte, of each ok measured request, in order."""
    return [
        (request.last_byte_ns - request.sent_ns) / 1e9
        for request in round_.ok
        if request.last_byte_ns is not None and request.sent_ns is not None
    ]


def latencies_by_body(round_: Round) -> dict[str, list[float]]:
    """The same, by the request body: prompts of different length have nothing to do with each other's spread."""
    times: dict[str, list[float]] = {}
    for request in round_.ok:
        if request.last_byte_ns is not None and request.sent_ns is not None:
            times.setdefault(request.body_id, []).append((request.last_byte_ns - request.sent_ns) / 1e9)
    return times


def client_mean_latency(round_: Round) -> Value:
    """Mean of the client's latencies, in seconds: of the means of each prompt, so that a request that is excluded does
    not change the mix. Used at concurrency 1, where single times mean something; absent where the client was the limit,
    for then they are not the engine's."""
    if round_.finished is None or not round_.finished.complete:
        return Absent("interrupted")
    if (limit := client_limit(round_)) is not None:
        return limit
    times = latencies_by_body(round_)
    return fmean(map(fmean, times.values())) if times else Absent("no-ok-requests")


def server_mean_latency(round_: Round, phase: PlannedPhase) -> Value:
    """Δsum ÷ Δcount of the engine's end-to-end latency histogram, in seconds (article, section 7-1).

    The window is from scrape to scrape: it holds the warm-up request where the phase counts it, and any foreign
    request that fell into it. Absent where requests failed and the engine may have finished some of them: a
    histogram cannot leave them out. Absent, too, where it contradicts what the client saw of the same requests.
    """
    count = counter_delta(round_, metrics.E2E_COUNT)
    ok, sent = window_requests(round_, warm_up_counted=phase.warm_up_counted)
    if ok < sent and count != ok:
        return Absent("failed-in-window")
    found = ratio(counter_delta(round_, metrics.E2E_SUM), count)
    client = _client_mean(round_, phase)
    if not isinstance(found, Absent) and client is not None and not _PLAUSIBLE[0] <= found / client <= _PLAUSIBLE[1]:
        return Absent("latency-contradicts", {"server": found, "client": client})
    return found


_PLAUSIBLE = (0.5, 1.25)
"""Bounds of the server's mean latency ÷ the client's over the same requests. The client's holds the server's and the
way, so that far more is impossible; half of it or less is a client, or a counter, that cannot be believed. The finer
comparison is the cross-check table's."""


def _client_mean(round_: Round, phase: PlannedPhase) -> float | None:
    """The client's mean over the ok requests of the counters' window, in seconds."""
    roles = ("excluded", "measured", *(("warm-up",) if phase.warm_up_counted else ()))
    times = [
        (request.last_byte_ns - request.sent_ns) / 1e9
        for request in round_.of_role(*roles)
        if request.verdict == "ok" and request.last_byte_ns is not None and request.sent_ns is not None
    ]
    return fmean(times) if times and sum(times) > 0 else None


def mean_latency(round_: Round, phase: PlannedPhase) -> Value:
    """The round's mean latency in seconds: the client's at concurrency 1, the server's above.

    At concurrency 1 the excluded first requests must stay out, and a histogram cannot leave them out; above, the
    client's own queueing must stay out (article, sections 4-3 and 7-1).
    """
    return client_mean_latency(round_) if round_.concurrency == 1 else server_mean_latency(round_, phase)
