"""What the schema cannot say: references, spellings, files and words that the engine must know.

Every rule looks at the plain document and passes over what has the wrong shape, so that these problems are
reported together with the schema's own, not after they are mended.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any

from runner.engine import arguments
from runner.engine.evidence import FEATURES
from runner.spec.document import Document
from runner.spec.nearest import hint
from runner.spec.problem import Path, Problem
from runner.spec.prompts import PromptError, read_prompt_file

TARGET_OPTIONS = ("host", "port")
"""Options that the target gives the engine itself."""

RUNNER_FIELDS = {
    "messages": "they come from the prompts",
    "stream": "a phase says it: phases.<name>.stream",
    "n": "a comparison counts one completion per request",
}
"""Request fields that the runner sets, and where they are said instead."""

Found = Iterator[tuple[Path, str, bool]]
"""Path, message, and whether the problem is the key (else its value)."""


def check_meaning(document: Document, folder: FilePath) -> list[Problem]:
    """All problems of meaning. `folder` is the spec's own; files are looked up from there."""
    root = document.value
    if not isinstance(root, Mapping):
        return []
    rules: Sequence[Callable[[], Found]] = (
        lambda: _arguments(root),
        lambda: _conditions(root),
        lambda: _side_effects(root),
        lambda: _prompts(root, folder),
        lambda: _request_fields(root),
        lambda: _phases(root),
        lambda: _invariants(root),
        lambda: _environment(root),
    )
    return [
        Problem(path, document.position(path, of_key=of_key), message)
        for rule in rules
        for path, message, of_key in rule()
    ]


def _arguments(root: Mapping[str, Any]) -> Found:
    for path, args in _places(root, "args"):
        yield from _argument_map(path, args)
    for path, matrix in _places(root, "matrix"):
        yield from _spelled_once(path, matrix)
        for name, values in matrix.items():
            if isinstance(values, list):
                if not values:
                    yield (*path, name), "a factor needs at least one value", False
                for index, value in enumerate(values):
                    yield from _renderable((*path, name, index), name, value)
                    if value in values[:index]:
                        yield (*path, name, index), f"the value {value!r} stands twice", False
    for name in _map(root.get("conditions")):
        changed = _map(_map(_map(root.get("conditions")).get(name)).get("args"))
        factors = {
            arguments.identity(str(key))
            for key in _map(_map(_map(root["conditions"]).get(name)).get("matrix"))
        }
        for key in changed:
            if arguments.identity(key) in factors:
                yield (
                    ("conditions", name, "args", key),
                    f'"{key}" is a factor of this condition\'s matrix too',
                    True,
                )


def _argument_map(path: Path, args: Mapping[str, Any]) -> Found:
    yield from _spelled_once(path, args)
    for name, value in args.items():
        yield from _renderable((*path, name), name, value)


def _spelled_once(path: Path, args: Mapping[str, Any]) -> Found:
    seen: dict[str, str] = {}
    for name in args:
        identity = arguments.identity(name)
        if identity in seen:
            yield (*path, name), f'"{name}" and "{seen[identity]}" are one option; give it once', True
        seen.setdefault(identity, name)
        if identity in TARGET_OPTIONS:
            yield (*path, name), f'the target sets "{name}"; leave it out', True


def _renderable(path: Path, name: str, value: Any) -> Found:
    try:
        arguments.render({name: value})
    except ValueError as error:
        yield path, str(error), False


def _conditions(root: Mapping[str, Any]) -> Found:
    conditions = _map(root.get("conditions"))
    if not conditions and not _map(root.get("matrix")):
        yield ("conditions",), 'at least one condition is needed, in "conditions" or by "matrix"', True
    baseline = root.get("baseline")
    if isinstance(baseline, str) and conditions and baseline not in conditions:
        yield ("baseline",), f'"{baseline}" is not a condition; {hint(baseline, conditions)}', False
    first = baseline if isinstance(baseline, str) else next(iter(conditions), None)
    if first is not None and _map(_map(conditions.get(first)).get("matrix")):
        yield ("conditions", first, "matrix"), "the baseline is one condition and takes no matrix", True


def _side_effects(root: Mapping[str, Any]) -> Found:
    for path, effects in _places(root, "side-effects"):
        for name, value in effects.items():
            where = (*path, name)
            if name not in FEATURES:
                yield where, f'unknown side effect "{name}"; {hint(name, FEATURES)}', True
                continue
            vocabulary = FEATURES[name]
            if vocabulary == "integer":
                if isinstance(value, bool) or not isinstance(value, int):
                    yield where, f"must be a whole number, not {value!r}", False
            elif vocabulary == "options":
                if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
                    yield where, f"must be a list of request options, not {value!r}", False
            elif value not in vocabulary:
                yield where, f"must be one of {', '.join(vocabulary)}, not {value!r}", False


def _prompts(root: Mapping[str, Any], folder: FilePath) -> Found:
    for name, prompt in _map(root.get("prompts")).items():
        given = [key for key in ("messages", "file") if _map(prompt).get(key) is not None]
        if isinstance(prompt, Mapping) and len(given) != 1:
            what = 'give "messages" or "file"' if not given else 'give "messages" or "file", not both'
            yield ("prompts", name), what, True
        file = _map(prompt).get("file")
        if isinstance(file, str) and file:
            try:
                read_prompt_file(folder / file)
            except PromptError as error:
                yield ("prompts", name, "file"), str(error), False


def _request_fields(root: Mapping[str, Any]) -> Found:
    for path, fields in _places(root, "request"):
        for name, value in fields.items():
            if name in RUNNER_FIELDS:
                yield (*path, name), f'"{name}" is not given here: {RUNNER_FIELDS[name]}', True
            try:
                json.dumps(value, allow_nan=False)
            except (TypeError, ValueError):
                yield (*path, name), "the value cannot be sent as JSON", False


def _phases(root: Mapping[str, Any]) -> Found:
    conditions, prompts = _map(root.get("conditions")), _map(root.get("prompts"))
    for name, phase in _map(root.get("phases")).items():
        fields = _map(phase)
        excluded = _map(fields.get("exclude-first"))
        for condition, count in excluded.items():
            where: Path = ("phases", name, "exclude-first", condition)
            if condition not in conditions:
                yield where, f'"{condition}" is not a condition; {hint(condition, conditions)}', True
            requests = fields.get("requests")
            if isinstance(count, int) and isinstance(requests, int) and count >= requests:
                yield where, f"{count} of {requests} requests excluded: none would be left", False
        grid = fields.get("concurrency")
        if isinstance(grid, list):
            if excluded and grid != [1]:
                path = ("phases", name, "exclude-first")
                yield path, "first requests can only be told apart at concurrency 1", True
            for index, level in enumerate(grid):
                if level in grid[:index]:
                    yield ("phases", name, "concurrency", index), f"{level} stands twice", False
        for index, prompt in enumerate(_list(fields.get("prompts"))):
            if isinstance(prompt, str) and prompt not in prompts:
                yield (
                    ("phases", name, "prompts", index),
                    f'"{prompt}" is not a prompt; {hint(prompt, prompts)}',
                    False,
                )
    yield from _one_phase_per_concurrency(root)


def _one_phase_per_concurrency(root: Mapping[str, Any]) -> Found:
    seen: dict[int, str] = {}
    for name, phase in _map(root.get("phases")).items():
        for index, level in enumerate(_list(_map(phase).get("concurrency"))):
            if isinstance(level, int) and seen.setdefault(level, name) != name:
                yield (
                    ("phases", name, "concurrency", index),
                    f'concurrency {level} is measured by the phase "{seen[level]}" already; tables could not tell them apart',
                    False,
                )


def _invariants(root: Mapping[str, Any]) -> Found:
    conditions, invariants = _map(root.get("conditions")), _map(root.get("invariants"))
    grid = {
        level
        for phase in _map(root.get("phases")).values()
        for level in _list(_map(phase).get("concurrency"))
    }
    for name, parameters in invariants.items():
        fields = _map(parameters)
        for index, condition in enumerate(_list(fields.get("conditions"))):
            if isinstance(condition, str) and condition not in conditions:
                message = f'"{condition}" is not a condition; {hint(condition, conditions)}'
                yield ("invariants", name, "conditions", index), message, False
        for index, level in enumerate(_list(fields.get("concurrency"))):
            if isinstance(level, int) and level not in grid:
                message = f"concurrency {level} is not in any phase"
                yield ("invariants", name, "concurrency", index), message, False
    if isinstance(invariants.get("queue-only-above"), Mapping):
        queue = _map(invariants["queue-only-above"])
        if (queue.get("argument") is None) == (queue.get("limit") is None):
            path = ("invariants", "queue-only-above")
            yield path, 'give "argument" (an engine argument that holds the limit) or "limit"', True
        argument = queue.get("argument")
        known = {arguments.identity(key) for _, args in _places(root, "args") for key in args} | {
            arguments.identity(key) for _, matrix in _places(root, "matrix") for key in matrix
        }
        if isinstance(argument, str) and arguments.identity(argument) not in known:
            message = f'"{argument}" is not an argument of this spec; {hint(argument, known)}'
            yield ("invariants", "queue-only-above", "argument"), message, False


def _environment(root: Mapping[str, Any]) -> Found:
    for path, variables in _places(root, "env"):
        for name in variables:
            if not name or "=" in name or "\0" in name:
                yield (*path, name), f'"{name}" cannot be the name of an environment variable', True


def _places(root: Mapping[str, Any], key: str) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The maps under `key` at the root and in each condition."""
    if isinstance(root.get(key), Mapping):
        yield (key,), root[key]
    for name, condition in _map(root.get("conditions")).items():
        if isinstance(_map(condition).get(key), Mapping):
            yield ("conditions", name, key), condition[key]


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
