"""The sequential requests of two conditions do not overlap (article, 4-3)."""

from collections.abc import Iterator

from runner.analysis.cell import concurrencies
from runner.analysis.comparison import comparison
from runner.analysis.transport import transport_doubt
from runner.analysis.value import Absent
from runner.checks.finding import Finding, Judgement
from runner.checks.registry import check
from runner.record.record import Record
from runner.spec.invariants import SequentialSeparated


@check(SequentialSeparated)
def sequential_separated(record: Record, parameters: SequentialSeparated) -> Iterator[Finding]:
    """Per arm, at concurrency 1: the ranges of the single requests' latencies, prompt by prompt. It fails where they
    overlap, and is open with fewer than two requests a side, and where the way to the engine makes the client's times
    doubtful or the client was the limit."""
    if 1 not in concurrencies(record) or not record.plan.others:
        yield Finding(Judgement.NOT_APPLICABLE, "one-condition" if not record.plan.others else "no-sequential")
        return
    for arm in record.plan.others:
        if parameters.conditions is not None and arm.condition not in parameters.conditions:
            continue
        pair = comparison(record, arm.id, 1)
        lowest, highest = pair.lowest_ratio("latency"), pair.highest_ratio("latency")
        if isinstance(lowest, Absent):
            yield Finding(Judgement.INCONCLUSIVE, lowest.reason, lowest.figures, arm.label)
        elif isinstance(highest, Absent):
            yield Finding(Judgement.INCONCLUSIVE, highest.reason, highest.figures, arm.label)
        elif (doubted := transport_doubt(record, record.plan.baseline, arm.id)) is not None:
            yield Finding(Judgement.INCONCLUSIVE, doubted.reason, doubted.figures, arm.label)
        else:
            figures = {"lowest": lowest, "highest": highest}
            apart = lowest > 1 or highest < 1
            reason = "ranges-apart" if apart else "ranges-overlap"
            yield Finding(Judgement.PASS if apart else Judgement.FAIL, reason, figures, arm.label)
