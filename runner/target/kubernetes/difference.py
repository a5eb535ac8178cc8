"""How two states of an object differ, field by field, as Kubernetes merges them."""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from runner.engine.environment import HIDDEN
from runner.target.kubernetes.field_path import below, element, key_of, within
from runner.target.kubernetes.hidden import hide

RUNTIME: Final = frozenset(
    {
        "metadata.resourceVersion",
        "metadata.generation",
        "metadata.managedFields",
        "metadata.annotations[deployment.kubernetes.io/revision]",
        "status",
    }
)
"""What differs between a saved object and the same object put back, though nothing of it is another."""

_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "env": ("name",),
    "volumes": ("name",),
    "imagePullSecrets": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "ports": ("containerPort", "protocol"),
    "hostAliases": ("ip",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "resourceClaims": ("name",),
    "conditions": ("type",),
    "ownerReferences": ("uid",),
}
"""The key fields of Kubernetes' lists of maps; any other list is atomic."""
_SERVICE_PORTS: Final = ("port", "protocol")
_DEFAULT_KEY: Final[Mapping[str, str]] = {"protocol": "TCP"}


@dataclass(frozen=True, slots=True)
class Difference:
    """A field that differs; None on a side where it is absent, or empty, which is the same to Kubernetes. A value that
    must not be shown is `(hidden)` on both sides."""

    path: str
    before: Any
    after: Any

    def one(self) -> str:
        """As one line."""
        if _words(self.before) and _words(self.after):
            return f"{self.path}: {_word_by_word(self.before, self.after)}"
        return f"{self.path}: {printed(self.before)} → {printed(self.after)}{self._unseen()}"

    def _unseen(self) -> str:
        same = printed(self.before) == printed(self.after)
        return ", which differs" if same else ""


def differences(
    before: Any, after: Any, *, ignore: Iterable[str] = (), own_env: Collection[str] = ()
) -> list[Difference]:
    """The fields that differ, from the first to the last by path. Elements of lists of maps are held against each other
    by their keys, in whatever order they stand; what is below a path of `ignore` is left out. Values of the variables
    `own_env`, which the run itself sets, are shown, those of all others hidden."""
    return [
        Difference(path, hide(path, old, own_env), hide(path, new, own_env))
        for path, old, new in _walk("", before, after, tuple(ignore))
    ]


def printed(value: Any) -> str:
    """A value on one line."""
    if value is None:
        return "absent"
    return HIDDEN if value == HIDDEN else json.dumps(value, ensure_ascii=False)


def keyed(field: str, values: list[Any]) -> dict[str, Any] | None:
    """A list's elements by their keys; None where the list is atomic, or two of its elements have the same key."""
    keys = _KEYS.get(field)
    if keys is None or not all(isinstance(one, dict) for one in values):
        return None
    if field == "ports" and not all("containerPort" in one for one in values):
        keys = _SERVICE_PORTS
    made = {key_of(one.get(key, _DEFAULT_KEY.get(key, "")) for key in keys): one for one in values}
    return made if len(made) == len(values) else None


def empty(value: Any) -> bool:
    """Whether a value says no more than its absence. Text is never empty: a label may be."""
    if isinstance(value, dict):
        return all(empty(one) for one in value.values())
    return value is None or value == []


def _walk(path: str, before: Any, after: Any, ignore: tuple[str, ...]) -> Iterator[tuple[str, Any, Any]]:
    if within(path, ignore):
        return
    before, after = (None if empty(one) else one for one in (before, after))
    if before == after:
        return
    pair = _parts(path, before, after)
    if pair is not None:
        for place, old, new in pair:
            yield from _walk(place, old, new, ignore)
    elif not (_unset(path, before) and _unset(path, after)):
        yield path, before, after


def _parts(path: str, before: Any, after: Any) -> list[tuple[str, Any, Any]] | None:
    """The parts that two values are compared by; None where they are compared as wholes.

    A map that only one side has is gone through where it is one of names chosen by people or a level of the object; an
    element of a list that only one side has is one difference.
    """
    old, new = before, after
    if isinstance(before or after, dict) and isinstance(after or before, dict):
        if (before is None or after is None) and not is_open(path):
            return None
        old, new = before or {}, after or {}
        return [(below(path, name), old.get(name), new.get(name)) for name in _both(old, new)]
    if isinstance(before or [], list) and isinstance(after or [], list):
        field = path.rpartition(".")[2]
        old_by, new_by = keyed(field, before or []), keyed(field, after or [])
        if old_by is not None and new_by is not None:
            return [(element(path, key), old_by.get(key), new_by.get(key)) for key in _both(old_by, new_by)]
    return None


_OPEN: Final = ("metadata", "annotations", "labels", "nodeSelector", "limits", "requests", "resources", "spec")


def is_open(path: str) -> bool:
    """Whether the map there is gone through name by name, even where one side lacks it."""
    return not path or path.rpartition(".")[2] in _OPEN


def _both(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    return [*old, *(name for name in new if name not in old)]


def _unset(path: str, value: Any) -> bool:
    """An environment variable's value of no characters is what it has without one."""
    return value is None or (value == "" and path.endswith(".value"))


def _words(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)


def _word_by_word(before: list[str], after: list[str]) -> str:
    """Which words of a list went, came, or stand elsewhere now."""
    gone: list[list[str]] = []
    come: list[list[str]] = []
    for kind, i, j, k, m in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind != "equal":
            gone += [before[i:j]] if i < j else []
            come += [after[k:m]] if k < m else []
    moved = [run for run in gone if run in come]
    for run in moved:
        gone.remove(run)
        come.remove(run)
    told = [f"without {_run(run)}" for run in gone] + [f"with {_run(run)}" for run in come]
    told += [f"{_run(run)} elsewhere" for run in moved]
    return ", ".join(told) if told else "a hidden word differs"


def _run(words: list[str]) -> str:
    return " ".join(printed(word) for word in words)
