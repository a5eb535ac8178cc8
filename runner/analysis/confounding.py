"""What else changed with a condition: the engine's own side effects."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runner.plan.model import Arm
from runner.record.events import FeatureFound
from runner.record.record import Record

TARGET_SETS = ("host", "port")
"""Parsed arguments that differ between launches because the target gives each its own address."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A feature that the two arms do not share. `found` None: nothing tells."""

    feature: str
    baseline: Any
    found: Any
    declared: Any
    status: str
    """`declared`, `undeclared`, `contradicted` (declared otherwise), `unseen` (declared, but nothing tells) or
    `no-difference` (declared, but the baseline has it too)."""


def side_effects(record: Record, arm: Arm) -> list[Difference]:
    """Every declared side effect and every feature that differs from the baseline's without being an argument.

    Declared ones that are really there confound the comparison: what it shows may be their doing.
    """
    base = _features(record, record.plan.baseline)
    own = _features(record, arm.id)
    chosen = _changed(record.plan.arm(record.plan.baseline), arm)
    differences = []
    for name in dict.fromkeys([*arm.side_effects, *own]):
        before, after = _value(base.get(name)), _value(own.get(name))
        declared = arm.side_effects.get(name)
        if name.replace("-", "_") in chosen:
            continue  # an argument says it: that is the comparison, not a side effect
        if name in arm.side_effects:
            status = _judge_declared(before, after, declared)
        elif before == after or before is None or after is None:
            continue
        else:
            status = "undeclared"
        differences.append(Difference(name, before, after, declared, status))
    return differences


def confounders(record: Record, arm: Arm) -> list[Difference]:
    """Side effects that really differ, or of which nothing tells whether they do."""
    return [
        one for one in side_effects(record, arm) if one.status in ("declared", "undeclared", "contradicted", "unseen")
    ]


def parsed_differences(record: Record, arm: Arm) -> dict[str, tuple[Any, Any]] | None:
    """Arguments that the two engines parsed differently although the spec gives them alike, as (baseline, other).

    None when the log of one of them does not show its arguments.
    """
    base, own = (_parsed(record, one) for one in (record.plan.baseline, arm.id))
    if base is None or own is None:
        return None
    chosen = _changed(record.plan.arm(record.plan.baseline), arm)
    return {
        name: (base.get(name), own.get(name))
        for name in sorted({*base, *own})
        if name not in TARGET_SETS and name not in chosen and base.get(name) != own.get(name)
    }


def _judge_declared(before: Any, after: Any, declared: Any) -> str:
    if after is None:
        return "unseen"
    if after != declared:
        return "contradicted"
    return "no-difference" if before == after else "declared"


def _changed(base: Arm, arm: Arm) -> set[str]:
    """Argparse destinations whose wanted values differ by declaration."""
    names: Mapping[str, Any] = {**base.wanted, **arm.wanted}
    return {name for name in names if base.wanted.get(name) != arm.wanted.get(name)}


def _features(record: Record, arm: str) -> dict[str, FeatureFound]:
    for engine in record.of_arm(arm):
        if engine.evidence is not None:
            return engine.evidence.features
    return {}


def _parsed(record: Record, arm: str) -> dict[str, Any] | None:
    for engine in record.of_arm(arm):
        if engine.evidence is not None:
            return engine.evidence.parsed
    return None


def _value(feature: FeatureFound | None) -> Any:
    return feature.value if feature is not None else None
