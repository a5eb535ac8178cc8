"""The acceptance rate is the same at every concurrency: drafts are made per sequence, whoever runs beside it."""

from collections.abc import Iterator

from runner.analysis.acceptance import drafting, speculates, speculation_known
from runner.analysis.cell import cell, concurrencies
from runner.analysis.value import Absent
from runner.checks.finding import Finding, Judgement
from runner.checks.registry import check
from runner.plan.model import Arm
from runner.record.record import Record
from runner.spec.invariants import AcceptanceConstant


@check(AcceptanceConstant)
def acceptance_constant(record: Record, parameters: AcceptanceConstant) -> Iterator[Finding]:
    """Per arm that speculates: largest minus smallest rate over the grid against the tolerance."""
    if len(concurrencies(record)) < 2:
        yield Finding(Judgement.NOT_APPLICABLE, "one-concurrency")
        return
    judged = False
    for arm in record.plan.arms:
        if speculates(record, arm.id):
            judged = True
            yield _judge(record, arm, parameters.tolerance)
    if not judged:
        known = speculation_known(record)
        judgement = Judgement.NOT_APPLICABLE if known else Judgement.INCONCLUSIVE
        yield Finding(judgement, "no-speculation" if known else "no-evidence")


def _judge(record: Record, arm: Arm, tolerance: float) -> Finding:
    rates: dict[int, float] = {}
    for level in concurrencies(record):
        rate = drafting(cell(record, arm.id, level).rounds).rate
        if isinstance(rate, Absent):
            return Finding(Judgement.INCONCLUSIVE, rate.reason, rate.figures, f"{arm.label} C={level}")
        rates[level] = rate
    low, high = min(rates.values()), max(rates.values())
    figures = {"low": low, "high": high, "spread": high - low, "tolerance": tolerance}
    if high - low > tolerance:
        return Finding(Judgement.FAIL, "acceptance-varies", figures, arm.label)
    return Finding(Judgement.PASS, "acceptance-constant", figures, arm.label)
