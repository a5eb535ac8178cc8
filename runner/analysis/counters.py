"""Counters over a round's window, from the scrape before to the scrape after."""

from runner.analysis.value import Absent, Value
from runner.engine.exposition import delta
from runner.record.record import Round


def counter_delta(round_: Round, name: str, **labels: str) -> Value:
    """The change of a counter over the round's window; absent when a scrape or the series is missing, or when
    the counter was reset."""
    if round_.before is None or round_.after is None:
        return Absent("scrape-missing", {"why": "; ".join(round_.scrape_errors) or "not scraped"})
    change = delta(round_.before, round_.after, name, **labels)
    if change.value is not None:
        return change.value
    reason = {"reset": "counter-reset", "mixed-models": "models-mixed"}.get(change.reason or "", "series-absent")
    return Absent(reason, {"name": name})


def window_requests(round_: Round, *, warm_up_counted: bool) -> tuple[int, int]:
    """How many requests in the counters' window were ok, and how many were sent."""
    roles = ("excluded", "measured", *(("warm-up",) if warm_up_counted else ()))
    sent = round_.of_role(*roles)
    return sum(request.verdict == "ok" for request in sent), len(sent)
