"""Counters over a round's window, from the scrape before to the scrape after."""

from collections.abc import Sequence
from dataclasses import dataclass

from runner.analysis.value import Absent, Value
from runner.engine import metrics
from runner.engine.exposition import delta
from runner.record.events import RequestDone
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


def summed_delta(rounds: Sequence[Round], name: str, **labels: str) -> Value:
    """The changes of a counter over the windows of several rounds, added up; absent as soon as one is."""
    if not rounds:
        return Absent("not-measured")
    total = 0.0
    for round_ in rounds:
        change = counter_delta(round_, name, **labels)
        if isinstance(change, Absent):
            return change
        total += change
    return total


def window_requests(round_: Round, *, warm_up_counted: bool) -> tuple[int, int]:
    """How many requests in the counters' window were ok, and how many were sent."""
    sent = _in_window(round_, warm_up_counted=warm_up_counted)
    return sum(request.verdict == "ok" for request in sent), len(sent)


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A counter's change over a window, and what the replies in it add up to."""

    name: str
    counted: float
    answered: int


def disagreement(round_: Round, *, warm_up_counted: bool) -> Disagreement | None:
    """The first counter that the replies contradict, in a window whose requests are all ok; None where none does.

    vLLM counts every finished request, its first token, its whole prompt and the tokens that it sent, so the four
    changes are sums over the replies. A counter that is absent, or a reply without usage, contradicts nothing.
    """
    requests = _in_window(round_, warm_up_counted=warm_up_counted)
    for name, values in (
        (metrics.REQUEST_SUCCESS, [1] * len(requests)),
        (metrics.TTFT_COUNT, [1] * len(requests)),
        (metrics.PROMPT_TOKENS, [request.prompt_tokens for request in requests]),
        (metrics.GENERATION_TOKENS, [request.completion_tokens for request in requests]),
    ):
        known = [value for value in values if value is not None]
        counted = counter_delta(round_, name)
        if len(known) == len(values) and not isinstance(counted, Absent) and counted != sum(known):
            return Disagreement(name, counted, sum(known))
    return None


def _in_window(round_: Round, *, warm_up_counted: bool) -> list[RequestDone]:
    return round_.of_role("excluded", "measured", *(("warm-up",) if warm_up_counted else ()))
