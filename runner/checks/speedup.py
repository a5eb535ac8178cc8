"""A condition is faster than the baseline by more than a bound."""

from collections.abc import Iterator

from runner.analysis.cell import concurrencies
from runner.analysis.comparison import Comparison, comparison
from runner.analysis.separation import separation
from runner.analysis.transport import transport_doubt
from runner.analysis.value import Absent
from runner.checks.finding import Finding, Judgement
from runner.checks.registry import check
from runner.record.record import Record
from runner.spec.invariants import Speedup


@check(Speedup)
def speedup(record: Record, parameters: Speedup) -> Iterator[Finding]:
    """Per arm and concurrency.

    Fails when the mean ratio is not above the bound. Passes only when the lowest ratio that any pair of samples
    shows is above it too, here and at every other concurrency that runs the same batch: otherwise the difference is
    within the rounds' own spread or the host's noise, and one sample has no spread at all. At concurrency 1, where the
    ratio is that of single requests' times, it is inconclusive if the way to the engine makes those doubtful or the
    client was the limit.
    """
    if not record.plan.others:
        yield Finding(Judgement.NOT_APPLICABLE, "one-condition")
    for arm in record.plan.others:
        if parameters.conditions is not None and arm.condition not in parameters.conditions:
            continue
        for level in concurrencies(record):
            if parameters.concurrency is None or level in parameters.concurrency:
                yield _judge(record, comparison(record, arm.id, level), parameters)


def _judge(record: Record, pair: Comparison, parameters: Speedup) -> Finding:
    subject = f"{pair.other.arm.label} C={pair.base.concurrency}"
    metric = parameters.metric
    found = pair.speedup if metric == "throughput" else pair.latency_ratio
    lowest = pair.lowest_ratio(metric)
    if isinstance(found, Absent):
        return Finding(Judgement.INCONCLUSIVE, found.reason, found.figures, subject)
    doubted = transport_doubt(record, pair.base.arm.id, pair.other.arm.id)
    if pair.base.concurrency == 1 and doubted is not None:
        return Finding(Judgement.INCONCLUSIVE, doubted.reason, doubted.figures, subject)
    figures: dict[str, float | str] = {
        "ratio": found,
        "min": parameters.min,
        "metric": "latency" if pair.base.concurrency == 1 else metric,
    }
    if found <= parameters.min:
        return Finding(Judgement.FAIL, "speedup-below", figures, subject)
    if isinstance(lowest, Absent):
        return Finding(Judgement.INCONCLUSIVE, lowest.reason, lowest.figures, subject)
    figures["lowest"] = lowest
    if lowest <= parameters.min:
        return Finding(Judgement.INCONCLUSIVE, "speedup-not-separated", figures, subject)
    apart = separation(record, pair.other.arm.id, pair.base.concurrency, metric, parameters.min)
    if isinstance(apart, Absent):
        return Finding(Judgement.INCONCLUSIVE, apart.reason, apart.figures, subject)
    if apart.unconfirmed:
        figures["levels"] = ", ".join(f"C={level}" for level in apart.unconfirmed)
        return Finding(Judgement.INCONCLUSIVE, "speedup-not-confirmed", figures, subject)
    return Finding(Judgement.PASS, "speedup-above", figures, subject)
