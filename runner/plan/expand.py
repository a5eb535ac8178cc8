"""From conditions and matrices to arms, with labels that read well in a table."""

import itertools
import json
import re
from collections.abc import Container, Iterator, Mapping
from typing import Any

from runner.engine import arguments
from runner.plan.model import Arm
from runner.spec.model import Condition, Experiment


def expand(experiment: Experiment) -> list[Arm]:
    """The arms in the order of the spec: conditions (each by its own matrix), then the top matrix over the base.

    Each id is unique: names that only differ in case or signs are numbered. Raises ValueError when two arms come
    out with one label, which no table could tell apart.
    """
    arms: dict[str, Arm] = {}
    labels: set[str] = set()
    for name, condition, matrix in _sources(experiment):
        for factors, varied in _combinations(matrix):
            arm = _arm(experiment, name, condition or Condition(), factors, varied, arms)
            if arm.label in labels:
                raise ValueError(f'two conditions come out as "{arm.label}"; give one a label of its own')
            labels.add(arm.label)
            arms[arm.id] = arm
    return list(arms.values())


def _sources(experiment: Experiment) -> Iterator[tuple[str, Condition | None, Mapping[str, list[Any]]]]:
    for name, condition in experiment.conditions.items():
        yield name, condition, condition.matrix if condition else {}
    if experiment.matrix:
        yield "", None, experiment.matrix


def _combinations(matrix: Mapping[str, list[Any]]) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Each combination of the factors, and the names of those that vary."""
    varied = [name for name, values in matrix.items() if len(values) > 1] or list(matrix)
    for values in itertools.product(*matrix.values()):
        yield dict(zip(matrix, values, strict=True)), varied


def _free_id(text: str, taken: Container[str]) -> str:
    """The text as a part of a file's name, letters of any script kept, with a number where it is taken."""
    plain = re.sub(r"[^\w.]+", "-", text).strip("-.").lower()[:60].strip("-.") or "condition"
    numbered = (f"{plain}-{number}" for number in itertools.count(2))
    return next(found for found in itertools.chain([plain], numbered) if found not in taken)


def _arm(
    experiment: Experiment,
    name: str,
    condition: Condition,
    factors: dict[str, Any],
    varied: list[str],
    taken: Container[str],
) -> Arm:
    args = arguments.overlay(arguments.overlay(experiment.args, condition.args), factors)
    setting = ", ".join(f"{arguments.canonical(key)}={_shown(factors[key])}" for key in varied)
    label = ", ".join(part for part in (condition.label or name, setting) if part)
    return Arm(
        id=_free_id(", ".join(part for part in (name, setting) if part), taken),
        label=label,
        condition=name,
        args=dict(args),
        argv=arguments.render(args),
        wanted=arguments.wanted(args),
        env={**experiment.env, **condition.env},
        request={**experiment.request, **condition.request},
        template_values={**experiment.template_values, **condition.template_values},
        side_effects=dict(condition.side_effects),
        sets=dict(condition.sets),
    )


def _shown(value: Any) -> str:
    match value:
        case None:
            return "default"
        case bool():
            return "true" if value else "false"
        case arguments.WrittenFloat():
            return value.text
        case str() | int() | float():
            return str(value)
        case _:
            return json.dumps(value, ensure_ascii=False)
