"""`disabled-features`: what the engine changed along with the condition (article, 3-3)."""

import json
from typing import Any

from runner.analysis.confounding import side_effects
from runner.plan.model import Arm
from runner.record.parts import FeatureFound
from runner.report.markdown import code, escape
from runner.report.table import Source, Table, table


@table("disabled-features")
def disabled_features(source: Source) -> list[Table]:
    """Per condition: feature; effective value in the baseline → here, and whether the spec declares it; nature.

    The value in force in both arms is shown, not the warning alone: a warning that states what the baseline
    has too is no difference.
    """
    words = source.words
    tables = []
    for arm in source.record.plan.others:
        base, own = _features(source, source.record.plan.baseline), _features(source, arm.id)
        if not own:
            continue
        statuses = {one.feature: one for one in side_effects(source.record, arm)}
        rows, notes = [], []
        for name in dict.fromkeys([*own, *arm.side_effects]):
            before, after = _value(base.get(name)), _value(own.get(name))
            one = statuses.get(name)
            if one is not None:
                status = words(f"status.{one.status}", declared=escape(str(one.declared)))
            else:
                status = _unlisted(source, arm, name, before, after)
            title = source.feature(name)
            nature = f"nature.{name}" if words.has(f"nature.{name}") else "nature.other"
            content = f"{_shown(source, before)} → {_shown(source, after)} ({status})"
            rows.append([title, content, words(nature)])
            found = own.get(name)
            if found is not None and found.quote:
                notes.append(words("note-quote", label=source.named(arm.id), feature=title, quote=code(found.quote)))
        tables.append(
            Table(
                "disabled-features",
                [words("warning"), words("content"), words("nature")],
                rows,
                ["left"] * 3,
                notes,
                subject=source.label(arm.id) if len(source.record.plan.others) > 1 else "",
            )
        )
    return tables


def _unlisted(source: Source, arm: Arm, name: str, before: Any, after: Any) -> str:
    if before is None or after is None:
        return source.words("unknown")
    return source.words("status.same" if before == after else "status.chosen")


def _features(source: Source, arm: str) -> dict[str, FeatureFound]:
    return next((one.evidence.features for one in source.record.of_arm(arm) if one.evidence is not None), {})


def _value(feature: FeatureFound | None) -> Any:
    return None if feature is None else feature.value


def _shown(source: Source, value: Any) -> str:
    if value is None:
        return source.words("unknown")
    if value == []:
        return source.words("none")
    if isinstance(value, list):
        return code(", ".join(value))
    return code(value if isinstance(value, str) else json.dumps(value))
