"""Requests wait only above the engine's limit, and there they do."""

from collections.abc import Iterator

from runner.analysis.cell import Cell, cells
from runner.analysis.gauges import gauge, waiting_reasons
from runner.analysis.value import Absent
from runner.checks.finding import Finding, Judgement
from runner.checks.registry import check
from runner.record.record import Record
from runner.spec.invariants import QueueOnlyAbove


@check(QueueOnlyAbove)
def queue_only_above(record: Record, parameters: QueueOnlyAbove) -> Iterator[Finding]:
    """Per cell: the median of waiting requests over the steady samples is 0 up to the limit and above 0 beyond.

    Beyond it the batch must be full: requests that wait while slots are free wait for something else. No sample may
    show more running than the limit. The median, because a request that has just arrived waits for the next step
    in any engine.
    """
    for cell in cells(record):
        yield _judge(cell, parameters)


def _judge(cell: Cell, parameters: QueueOnlyAbove) -> Finding:
    subject = f"{cell.arm.label} C={cell.concurrency}"
    limit = parameters.limit
    if parameters.argument is not None:
        value = cell.arm.argument(parameters.argument)
        if isinstance(value, bool) or not isinstance(value, int):
            return Finding(Judgement.INCONCLUSIVE, "limit-unknown", {"argument": parameters.argument}, subject)
        limit = value
    assert limit is not None
    waiting = gauge(cell.rounds, lambda sample: sample.waiting)
    if isinstance(waiting, Absent):
        return Finding(Judgement.INCONCLUSIVE, waiting.reason, waiting.figures, subject)
    running = gauge(cell.rounds, lambda sample: sample.running)
    if isinstance(running, Absent):
        return Finding(Judgement.INCONCLUSIVE, running.reason, running.figures, subject)
    figures = {
        "running": running.high if running.high > limit else running.median,
        "waiting": waiting.median,
        "limit": limit,
        "samples": waiting.samples,
        "reasons": ", ".join(waiting_reasons(cell.rounds)) or "—",
    }
    if running.high > limit:
        return Finding(Judgement.FAIL, "limit-exceeded", figures, subject)
    if cell.concurrency <= limit:
        judgement = Judgement.PASS if waiting.median == 0 else Judgement.FAIL
        return Finding(judgement, "queue-none" if waiting.median == 0 else "queue-below-limit", figures, subject)
    if waiting.median > 0 and running.median < limit:
        return Finding(Judgement.FAIL, "queue-elsewhere", figures, subject)
    judgement = Judgement.PASS if waiting.median > 0 else Judgement.FAIL
    return Finding(judgement, "queue-above-limit" if waiting.median > 0 else "queue-missing", figures, subject)
