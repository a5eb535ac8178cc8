"""The prefix cache helped every condition alike: a warm cache in one arm alone is a head start."""

from collections.abc import Iterator

from runner.analysis.cell import cell, concurrencies
from runner.analysis.prefix_cache import prefix_hit_ratio
from runner.analysis.value import Absent
from runner.checks.finding import Finding, Judgement
from runner.checks.registry import check
from runner.plan.model import Arm
from runner.record.record import Record
from runner.spec.invariants import SamePrefixHits


@check(SamePrefixHits)
def same_prefix_hits(record: Record, parameters: SamePrefixHits) -> Iterator[Finding]:
    """Per arm and concurrency: hit ratio (Δhits ÷ Δqueries over the cell's rounds) against the baseline's."""
    if not record.plan.others:
        yield Finding(Judgement.NOT_APPLICABLE, "one-condition")
    for arm in record.plan.others:
        for level in concurrencies(record):
            yield _judge(record, arm, level, parameters.tolerance)


def _judge(record: Record, arm: Arm, level: int, tolerance: float) -> Finding:
    subject = f"{arm.label} C={level}"
    base = prefix_hit_ratio(cell(record, record.plan.baseline, level).rounds)
    own = prefix_hit_ratio(cell(record, arm.id, level).rounds)
    absent = [one for one in (base, own) if isinstance(one, Absent)]
    if len(absent) == 2 and all(one.reason == "division-by-zero" for one in absent):
        return Finding(Judgement.NOT_APPLICABLE, "no-prefix-lookups", {}, subject)
    if isinstance(base, Absent):
        return Finding(Judgement.INCONCLUSIVE, base.reason, base.figures, subject)
    if isinstance(own, Absent):
        return Finding(Judgement.INCONCLUSIVE, own.reason, own.figures, subject)
    figures = {"baseline": base, "own": own, "tolerance": tolerance}
    alike = abs(base - own) <= tolerance
    reason = "prefix-hits-alike" if alike else "prefix-hits-differ"
    return Finding(Judgement.PASS if alike else Judgement.FAIL, reason, figures, subject)
