"""What the schema cannot say: references, spellings, files and words that the engine must know.

Every rule looks at the plain document and passes over what has the wrong shape, so that these problems are
reported together with the schema's own, not after they are mended.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from pathlib import Path as FilePath
from typing import Any, TypeGuard

from runner.engine import arguments
from runner.engine.environment import is_secret
from runner.engine.features import FEATURES
from runner.spec.authorities import authority_problems
from runner.spec.client import access_problems
from runner.spec.document import Document
from runner.spec.kubernetes_meaning import kubernetes_problems
from runner.spec.nearest import hint
from runner.spec.problem import Path, Problem, shown
from runner.spec.prompts import PromptError, read_prompt_file
from runner.spec.validation import one_of

TARGET_OPTIONS = ("host", "port")
"""Options that the target gives the engine itself."""

MAX_ARMS = 1000
"""More conditions than anybody measures; a product of factors grows quickly."""

RUNNER_FIELDS = {
    "messages": "they come from the prompts",
    "stream": "a phase says it: phases.<name>.stream",
    "n": "a comparison counts one completion per request",
}
"""Request fields that the runner sets, and where they are said instead."""

Found = Iterator[tuple[Path, str, bool]]
"""Path, message, and whether the problem is the key (else its value)."""


Sound = Callable[..., bool]
"""Whether what stands at a path is neither misspelt nor of the wrong shape, so that a reference to it can be judged."""


def check_meaning(document: Document, folder: FilePath, doubtful: Set[Path] = frozenset()) -> list[Problem]:
    """All problems of meaning. `folder` is the spec's own; files are looked up from there.

    `doubtful` are the paths of problems already found: what only follows from them is not reported.
    """
    root = document.value
    if not isinstance(root, Mapping) or () in doubtful:
        return []

    def sound(*path: str | int) -> bool:
        return not any(path[:end] in doubtful for end in range(1, len(path) + 1))

    rules: Sequence[Callable[[], Found]] = (
        lambda: _arguments(root),
        lambda: _conditions(root, sound),
        lambda: _labels(root),
        lambda: _side_effects(root),
        lambda: _prompts(root, folder, sound),
        lambda: _request_fields(root),
        lambda: _phases(root, sound),
        lambda: _invariants(root, sound),
        lambda: _process(root),
        lambda: kubernetes_problems(root, folder, _variables(root)),
    )
    return _placed(document, rules)


def check_site_meaning(document: Document, folder: FilePath, doubtful: Set[Path] = frozenset()) -> list[Problem]:
    """The same for a site file."""
    root = document.value
    if not isinstance(root, Mapping) or () in doubtful:
        return []
    rules: Sequence[Callable[[], Found]] = (
        lambda: access_problems(root),
        lambda: authority_problems(root, folder),
        lambda: kubernetes_problems(root, folder),
    )
    return _placed(document, rules)


def _placed(document: Document, rules: Sequence[Callable[[], Found]]) -> list[Problem]:
    return [
        Problem(path, document.position(path, of_key=of_key), message)
        for rule in rules
        for path, message, of_key in rule()
    ]


def _variables(root: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for _, variables in _places(root, "env") for name, value in variables.items()}


def _arguments(root: Mapping[str, Any]) -> Found:
    for path, args in _places(root, "args"):
        yield from _argument_map(path, args)
    for path, matrix in _places(root, "matrix"):
        yield from _spelled_once(path, matrix)
        for name, values in matrix.items():
            if isinstance(values, list):
                if not values:
                    yield (*path, name), "a factor needs at least one value", False
                seen: list[list[str]] = []
                for index, value in enumerate(values):
                    yield from _renderable((*path, name, index), name, value)
                    words = _words(name, value)
                    if words in seen:
                        yield (*path, name, index), f"the value {shown(value)} stands twice", False
                    seen += [words] if words is not None else []
        count = math.prod(len(values) for values in matrix.values() if isinstance(values, list))
        if count > MAX_ARMS:
            yield path, f"the factors multiply to {count} conditions; at most {MAX_ARMS} can be run", True
    for name in _map(root.get("conditions")):
        changed = _map(_map(_map(root.get("conditions")).get(name)).get("args"))
        factors = {arguments.identity(str(key)) for key in _map(_map(_map(root["conditions"]).get(name)).get("matrix"))}
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
        if not identity or re.search(r"[\s=\0]", identity):
            yield (*path, name), f"{shown(name)} is no option's name", True
            continue
        if identity in seen:
            yield (*path, name), f'"{name}" and "{seen[identity]}" are one option; give it once', True
        seen.setdefault(identity, name)
        if identity in TARGET_OPTIONS:
            yield (*path, name), f'the target sets "{name}"; leave it out', True
        if is_secret(identity) and isinstance(args[name], str):
            yield (*path, name), _SECRET, True


_SECRET = (
    "this sounds like a secret, and what a spec says stands in every plan, journal and report; put it into the "
    "environment of the shell, or into process: {env: ...} of the site file"
)


def _renderable(path: Path, name: str, value: Any) -> Found:
    try:
        words = arguments.render({name: value})
    except ValueError as error:
        if arguments.canonical(name):
            yield path, str(error).removeprefix(f"{name!r}: "), False
    else:
        if any("\0" in word for word in words[1:]):
            yield path, "a NUL character cannot be given to a process", False


def _words(name: str, value: Any) -> list[str] | None:
    try:
        return arguments.render({name: value})
    except ValueError:
        return None


def _conditions(root: Mapping[str, Any], sound: Sound) -> Found:
    conditions = _map(root.get("conditions"))
    if not conditions and not _map(root.get("matrix")) and sound("conditions") and sound("matrix"):
        yield ("conditions",), 'at least one condition is needed, in "conditions" or by "matrix"', True
    baseline = root.get("baseline")
    if isinstance(baseline, str) and baseline and sound("conditions") and baseline not in conditions:
        meant = (
            hint(baseline, conditions) if conditions else "without conditions, the matrix's first one is the baseline"
        )
        yield ("baseline",), f"{shown(baseline)} is not a condition; {meant}", False
    first = baseline if isinstance(baseline, str) else next(iter(conditions), None)
    if first is not None and _map(_map(conditions.get(first)).get("matrix")):
        yield ("conditions", first, "matrix"), "the baseline is one condition and takes no matrix", True


def _labels(root: Mapping[str, Any]) -> Found:
    seen: dict[str, str] = {}
    for name, condition in _map(root.get("conditions")).items():
        given = _map(condition).get("label")
        label = given if isinstance(given, str) else name
        if label in seen:
            path: Path = ("conditions", name, *(("label",) if label is given else ()))
            message = f'"{label}" is what tables call the condition "{seen[label]}" already'
            yield path, message, label is not given
        seen.setdefault(label, name)


def _side_effects(root: Mapping[str, Any]) -> Found:
    for key, called in (("side-effects", "side effect"), ("sets", "feature")):
        for path, effects in _places(root, key):
            for name, value in effects.items():
                yield from _feature((*path, name), called, name, value)
    for condition, body in _map(root.get("conditions")).items():
        effects = _map(_map(body).get("side-effects"))
        for name in _map(_map(body).get("sets")):
            if name in effects:
                where = ("conditions", condition, "sets", name)
                yield where, f'"{name}" is a side effect of this condition already; it is one or the other', False


def _feature(where: Path, called: str, name: str, value: Any) -> Found:
    if name not in FEATURES:
        yield where, f'unknown {called} "{name}"; {hint(name, FEATURES)}', True
        return
    vocabulary = FEATURES[name]
    if vocabulary == "integer":
        if isinstance(value, bool) or not isinstance(value, int):
            yield where, f"must be a whole number, not {shown(value)}", False
    elif vocabulary == "options":
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            yield where, f"must be a list of request options, not {shown(value)}", False
    elif value not in vocabulary:
        yield where, one_of(vocabulary, value), False


def _prompts(root: Mapping[str, Any], folder: FilePath, sound: Sound) -> Found:
    for name, prompt in _map(root.get("prompts")).items():
        given = [key for key in ("messages", "file") if _map(prompt).get(key) is not None]
        told = not all(sound("prompts", name, key) for key in ("messages", "file"))
        if isinstance(prompt, Mapping) and len(given) != 1 and not told:
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
            elif "-" in name:
                meant = name.replace("-", "_")
                yield (*path, name), f'the engine would ignore "{name}"; did you mean "{meant}"?', True
            yield from _json((*path, name), value)
        if "stream_options" in fields and any(
            _map(phase).get("stream") is not True for phase in _map(root.get("phases")).values()
        ):
            what = "an engine takes it only with a streamed request, and not every phase has stream: true"
            yield (*path, "stream_options"), what, True
    for path, values in _places(root, "template-values"):
        for name, value in values.items():
            yield from _json((*path, name), value)


def _json(path: Path, value: Any) -> Found:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        yield path, "the value cannot be written as JSON", False


def _phases(root: Mapping[str, Any], sound: Sound) -> Found:
    conditions, prompts = _map(root.get("conditions")), _map(root.get("prompts"))
    for name, phase in _map(root.get("phases")).items():
        fields = _map(phase)
        excluded = _map(fields.get("exclude-first"))
        for condition, count in excluded.items():
            where: Path = ("phases", name, "exclude-first", condition)
            if condition not in conditions and sound("conditions"):
                yield where, f"{shown(condition)} is not a condition; {hint(condition, conditions)}", True
            requests = fields.get("requests")
            if _is_int(count) and _is_int(requests) and count >= requests >= 1:
                yield where, f"{count} of {requests} requests excluded: none would be left", False
        grid = fields.get("concurrency")
        if isinstance(grid, list) and grid and all(_is_int(level) and level >= 1 for level in grid):
            if excluded and grid != [1]:
                path = ("phases", name, "exclude-first")
                yield path, "first requests can only be told apart at concurrency 1", True
            for index, level in enumerate(grid):
                if level in grid[:index]:
                    yield ("phases", name, "concurrency", index), f"{level} stands twice", False
        for index, prompt in enumerate(_list(fields.get("prompts"))):
            if isinstance(prompt, str) and prompt and prompt not in prompts and sound("prompts"):
                message = f"{shown(prompt)} is not a prompt; {hint(prompt, prompts)}"
                yield ("phases", name, "prompts", index), message, False
    yield from _one_phase_per_concurrency(root)


def _one_phase_per_concurrency(root: Mapping[str, Any]) -> Found:
    seen: dict[int, str] = {}
    for name, phase in _map(root.get("phases")).items():
        for index, level in enumerate(_list(_map(phase).get("concurrency"))):
            if _is_int(level) and level >= 1 and seen.setdefault(level, name) != name:
                message = (
                    f'concurrency {level} is in the phase "{seen[level]}" already; tables could not tell them apart'
                )
                yield ("phases", name, "concurrency", index), message, False


def _invariants(root: Mapping[str, Any], sound: Sound) -> Found:
    conditions, invariants = _map(root.get("conditions")), _map(root.get("invariants"))
    phases = _map(root.get("phases"))
    grid = {level for phase in phases.values() for level in _list(_map(phase).get("concurrency")) if _is_int(level)}
    grid_known = sound("phases") and all(sound("phases", name, "concurrency") for name in phases)
    for name, parameters in invariants.items():
        fields = _map(parameters)
        if parameters is None and sound("invariants", name):
            yield ("invariants", name), f'write "{name}: {{}}" to ask for it, or leave it out', True
        for index, condition in enumerate(_list(fields.get("conditions"))):
            if isinstance(condition, str) and condition and condition not in conditions and sound("conditions"):
                message = f"{shown(condition)} is not a condition; {hint(condition, conditions)}"
                yield ("invariants", name, "conditions", index), message, False
        for index, level in enumerate(_list(fields.get("concurrency"))):
            if _is_int(level) and level >= 1 and level not in grid and grid_known:
                message = f"concurrency {level} is not in any phase"
                yield ("invariants", name, "concurrency", index), message, False
    if isinstance(invariants.get("queue-only-above"), Mapping):
        queue = _map(invariants["queue-only-above"])
        path = ("invariants", "queue-only-above")
        told = not (sound(*path, "argument") and sound(*path, "limit"))
        if (queue.get("argument") is None) == (queue.get("limit") is None) and not told:
            yield path, 'give "argument" (an engine argument that holds the limit) or "limit"', True
        argument = queue.get("argument")
        maps = [found for key in ("args", "matrix") for _, found in _places(root, key)]
        known = sorted({arguments.identity(name) for found in maps for name in found})
        places: list[Path] = [(key,) for key in ("args", "matrix")]
        places += [("conditions", name, key) for name in conditions for key in ("args", "matrix")]
        all_known = sound("conditions") and all(sound(*place) for place in places)
        if isinstance(argument, str) and argument and arguments.identity(argument) not in known and all_known:
            message = f"{shown(argument)} is not an argument of this spec; {hint(argument, known)}"
            yield (*path, "argument"), message, False


def _process(root: Mapping[str, Any]) -> Found:
    own: Path = ("process", "env")
    for path, variables in [*_places(root, "env"), (own, _map(_map(root.get("process")).get("env")))]:
        for name, value in variables.items():
            if is_secret(name):
                yield (*path, name), _SECRET, True
            if not name or "=" in name or "\0" in name:
                yield (*path, name), f"{shown(name)} cannot be the name of an environment variable", True
            if isinstance(value, str) and "\0" in value:
                yield (*path, name), "a NUL character cannot be given to a process", False
    model = root.get("model")
    if isinstance(model, str) and ("\0" in model or model.startswith("-")):
        yield ("model",), f"{shown(model)} is neither a model id nor a path", False


def _places(root: Mapping[str, Any], key: str) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The maps under `key` at the root and in each condition."""
    if isinstance(root.get(key), Mapping):
        yield (key,), root[key]
    for name, condition in _map(root.get("conditions")).items():
        if isinstance(_map(condition).get(key), Mapping):
            yield ("conditions", name, key), condition[key]


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _is_int(value: Any) -> TypeGuard[int]:
    return type(value) is int


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
