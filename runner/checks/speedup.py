"""A condition is faster than the baseline by more than a bound."""

from collections.abc import Iterator

from runner.analysis.cell import concurrencies
from runner.analysis.comparison import Comparison, comparison
from runner.analysis.value import Absent
from runner.checks.finding import Finding, Judgement
from runner.checks.registry import check
from runner.record.record import Record
from runner.spec.invariants import Speedup


@check(Speedup)
def speedup(record: Record, parameters: Speedup) -> Iterator[Finding]:
    """Per arm and concurrency.

    Fails when the mean ratio is not above the bound. Passes only when the lowest ratio that any pair of samples
    shows is above it too: otherwise the difference is within the rounds' own spread, and one sample has no
    spread at all.
    """
    if not record.plan.others:
        yield Finding(Judgement.NOT_APPLICABLE, "one-condition")
    for arm in record.plan.others:
        if parameters.conditions is not None and arm.condition not in parameters.conditions:
            continue
        for level in concurrencies(record):
            if parameters.concurrency is None or level in parameters.concurrency:
                yield _judge(comparison(record, arm.id, level), parameters, f"{arm.label} C={level}")


def _judge(pair: Comparison, parameters: Speedup, subject: str) -> Finding:
    metric = parameters.metric
    found = pair.speedup if metric == "throughput" else pair.latency_ratio
    lowest = pair.lowest_ratio(metric)
    if isinstance(found, Absent):
        return Finding(Judgement.INCONCLUSIVE, found.reason, found.figures, subject)
    figures = {"ratio": found, "min": parameters.min, "metric": metric}
    if found <= parameters.min:
        return Finding(Judgement.FAIL, "speedup-below", figures, subject)
    if isinstance(lowest, Absent):
        return Finding(Judgement.INCONCLUSIVE, lowest.reason, lowest.figures, subject)
    figures["lowest"] = lowest
    if lowest <= parameters.min:
        return Finding(Judgement.INCONCLUSIVE, "speedup-not-separated", figures, subject)
    return Finding(Judgement.PASS, "speedup-above", figures, subject)
