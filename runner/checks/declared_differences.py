"""Conditions differ in what the spec declares, and in nothing else."""

from collections.abc import Iterator

from runner.analysis.confounding import parsed_differences, side_effects
from runner.checks.finding import Finding, Judgement
from runner.checks.registry import check
from runner.plan.model import Arm
from runner.record.record import Record
from runner.spec.invariants import DeclaredDifferences

_UNDECLARED = {
    "undeclared": "difference-undeclared",
    "contradicted": "difference-contradicted",
    "varying": "difference-varying",
}


@check(DeclaredDifferences)
def declared_differences(record: Record, _: DeclaredDifferences) -> Iterator[Finding]:
    """Each arm against the baseline: parsed arguments, and what the engine changed by itself."""
    if not record.plan.others:
        yield Finding(Judgement.NOT_APPLICABLE, "one-condition")
    for arm in record.plan.others:
        yield from _judge(record, arm)


def _judge(record: Record, arm: Arm) -> Iterator[Finding]:
    parsed = parsed_differences(record, arm)
    if parsed is None:
        yield Finding(Judgement.INCONCLUSIVE, "arguments-unseen", subject=arm.label)
    for name, (before, after) in (parsed or {}).items():
        figures = {"feature": name, "baseline": before, "found": after}
        yield Finding(Judgement.FAIL, "difference-undeclared", figures, arm.label)
    declared = []
    for one in side_effects(record, arm):
        figures = {
            "feature": one.feature,
            "baseline": one.baseline,
            "found": one.found,
            "declared": one.declared,
        }
        if one.status in _UNDECLARED:
            yield Finding(Judgement.FAIL, _UNDECLARED[one.status], figures, arm.label)
        elif one.status == "unseen":
            yield Finding(Judgement.INCONCLUSIVE, "difference-unseen", figures, arm.label)
        elif one.status == "declared":
            declared.append(one.feature)
    unknown = [name for name in _unknown_features(record, arm) if name not in arm.side_effects]
    if unknown:
        yield Finding(Judgement.INCONCLUSIVE, "features-unknown", {"names": ", ".join(unknown)}, arm.label)
    if declared:
        yield Finding(Judgement.PASS, "differences-declared", {"names": ", ".join(declared)}, arm.label)
    elif parsed is not None and not unknown:
        yield Finding(Judgement.PASS, "differences-none", subject=arm.label)


def _unknown_features(record: Record, arm: Arm) -> list[str]:
    """Features of which nothing tells, in this arm or in the baseline."""
    names: dict[str, None] = {}
    for one in (record.plan.baseline, arm.id):
        for engine in record.of_arm(one):
            if engine.evidence is not None:
                names |= dict.fromkeys(
                    name for name, feature in engine.evidence.features.items() if feature.value is None
                )
    return list(names)
