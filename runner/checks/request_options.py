"""No request uses an option that its condition disables."""

from collections.abc import Iterator

from runner.checks.finding import Finding, Judgement
from runner.checks.registry import check
from runner.engine.features import UNSUPPORTED_SAMPLING
from runner.engine.request import disabled_options
from runner.plan.model import Arm
from runner.record.events import EvidenceRead
from runner.record.record import Record
from runner.spec.invariants import RequestOptions


@check(RequestOptions)
def request_options(record: Record, _: RequestOptions) -> Iterator[Finding]:
    """Every body of an arm against the options that its engine says are without effect."""
    for arm in record.plan.arms:
        for engine in record.of_arm(arm.id):
            yield _judge(record, arm, engine.evidence)
        if not record.of_arm(arm.id):
            yield _judge(record, arm, None)


def _judge(record: Record, arm: Arm, evidence: EvidenceRead | None) -> Finding:
    if evidence is None:
        return Finding(Judgement.INCONCLUSIVE, "no-evidence", subject=arm.label)
    feature = evidence.features.get(UNSUPPORTED_SAMPLING)
    if feature is None or not isinstance(feature.value, list):
        return Finding(Judgement.INCONCLUSIVE, "features-unknown", {"names": UNSUPPORTED_SAMPLING}, arm.label)
    used = {option for body in _bodies(record, arm) for option in disabled_options(body, feature.value)}
    if used:
        return Finding(Judgement.FAIL, "options-disabled", {"options": ", ".join(sorted(used))}, arm.label)
    return Finding(Judgement.PASS, "options-free", {"options": ", ".join(feature.value) or "—"}, arm.label)


def _bodies(record: Record, arm: Arm) -> list[dict[str, object]]:
    phases = record.plan.phases
    return [record.plan.body(arm, name, stream=phase.stream) for phase in phases for name in phase.prompts]
