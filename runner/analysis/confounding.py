"""What else changed with a condition: the engine's own side effects."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from runner.plan.model import Arm
from runner.record.events import EvidenceRead
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
    """`declared`, `undeclared`, `contradicted` (declared otherwise), `unseen` (declared, but nothing tells),
    `varying` (the processes of one arm disagree) or `no-difference` (declared, but the baseline has it too)."""


def side_effects(record: Record, arm: Arm) -> list[Difference]:
    """Every declared side effect and every feature that differs from the baseline's without being an argument.

    Declared ones that are really there confound the comparison: what it shows may be their doing. All replicates
    are looked at: a feature on which the processes of one arm disagree is `varying`.
    """
    chosen = _changed(record.plan.arm(record.plan.baseline), arm)
    differences = []
    for name in dict.fromkeys([*arm.side_effects, *arm.sets, *_feature_names(record, arm.id)]):
        before, after = (_feature(record, one, name) for one in (record.plan.baseline, arm.id))
        declared = arm.side_effects.get(name)
        if len(before) > 1 or len(after) > 1:
            differences.append(Difference(name, _shown(before), _shown(after), declared, "varying"))
            continue
        if name.replace("-", "_") in chosen:
            continue  # an argument says it: that is the comparison, not a side effect
        if name in arm.sets:  # so does the condition; it need only be true
            if after[0] != arm.sets[name]:
                wrong = "unseen" if after[0] is None else "contradicted"
                differences.append(Difference(name, before[0], after[0], arm.sets[name], wrong))
            continue
        status = _judge(before[0], after[0], declared, is_declared=name in arm.side_effects)
        if status is not None:
            differences.append(Difference(name, before[0], after[0], declared, status))
    return differences


def confounders(record: Record, arm: Arm) -> list[Difference]:
    """Side effects that really differ, or of which nothing tells whether they do; none for an arm that never ran."""
    if not _evidence(record, arm.id):
        return []
    return [
        one
        for one in side_effects(record, arm)
        if one.status != "no-difference" and not (one.status == "contradicted" and one.baseline == one.found)
    ]


def controls(record: Record, arm: Arm) -> list[tuple[Arm, list[str]]]:
    """The other arms that are the baseline but for confounders of this one, which they share: against them the
    comparison is free of those. An argument that only says such a feature does not count as a difference."""
    base = record.plan.arm(record.plan.baseline)
    features = [one.feature for one in confounders(record, arm)]
    found = []
    for other in record.plan.others:
        if other.id == arm.id or not _evidence(record, other.id):
            continue
        shared = [name for name in features if _alike(record, other.id, arm.id, name)]
        beside = _changed(base, other) - {name.replace("-", "_") for name in shared}
        if shared and not beside and other.request == base.request:
            found.append((other, shared))
    return found


def _alike(record: Record, one: str, other: str, feature: str) -> bool:
    """Whether all processes of both arms have one known value of the feature."""
    values = [*_feature(record, one, feature), *_feature(record, other, feature)]
    return None not in values and all(value == values[0] for value in values)


def parsed_differences(record: Record, arm: Arm) -> dict[str, tuple[Any, Any]] | None:
    """Arguments that the engines parsed differently although the spec gives them alike, as (baseline, other).

    Over all replicates: where the processes of one arm disagree, its value is the list of them. None when the log
    of some process does not show its arguments.
    """
    base, own = (_parsed(record, one) for one in (record.plan.baseline, arm.id))
    if base is None or own is None:
        return None
    chosen = _changed(record.plan.arm(record.plan.baseline), arm)
    found = {}
    for name in sorted({name for parsed in (*base, *own) for name in parsed} - set(TARGET_SETS)):
        before = _distinct(parsed.get(name) for parsed in base)
        after = _distinct(parsed.get(name) for parsed in own)
        if len(before) > 1 or len(after) > 1 or (name not in chosen and before != after):
            found[name] = (_shown(before), _shown(after))
    return found


def _judge(before: Any, after: Any, declared: Any, *, is_declared: bool) -> str | None:
    if not is_declared:
        return None if before == after or before is None or after is None else "undeclared"
    if after is None:
        return "unseen"
    if after != declared:
        return "contradicted"
    return "no-difference" if before == after else "declared"


def _changed(base: Arm, arm: Arm) -> set[str]:
    """Argparse destinations whose wanted values differ by declaration."""
    names: Mapping[str, Any] = {**base.wanted, **arm.wanted}
    return {name for name in names if base.wanted.get(name) != arm.wanted.get(name)}


def _feature_names(record: Record, arm: str) -> list[str]:
    return list(dict.fromkeys(name for one in _evidence(record, arm) for name in one.features))


def _feature(record: Record, arm: str, name: str) -> list[Any]:
    """The distinct values of a feature over an arm's processes; [None] when there is no evidence."""
    found = [one.features.get(name) for one in _evidence(record, arm)]
    return _distinct(None if one is None else one.value for one in found) or [None]


def _parsed(record: Record, arm: str) -> list[dict[str, Any]] | None:
    found = [one.parsed for one in _evidence(record, arm)]
    known = [one for one in found if one is not None]
    return known if known and len(known) == len(found) else None


def _evidence(record: Record, arm: str) -> list[EvidenceRead]:
    return [engine.evidence for engine in record.of_arm(arm) if engine.evidence is not None]


def _distinct(values: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found


def _shown(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else values
