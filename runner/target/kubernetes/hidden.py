"""An object's values as they may be shown: without what sounds secret, and without what is none of the run's."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from runner.engine.environment import HIDDEN, is_secret, shown
from runner.target.kubernetes.field_path import below, element

_VARIABLE: Final = re.compile(r"(?:^|\.)env\[(?P<name>[^\]]*)\]\.value$")
_VARIABLES: Final = re.compile(r"(?:.*\.)?env(?:\[[^\]]*\])?")
"""A container's list of variables, or one of them."""
_NOTE: Final = re.compile(r".*\.(?:annotations|labels)(?:\[(?P<odd>[^\]]*)\]|\.(?P<plain>[^.\[]*))")
_COPY: Final = "[kubectl.kubernetes.io/last-applied-configuration]"
"""Ends the path of kubectl's copy of a whole manifest, the values of its environment included."""
_NAMED: Final = re.compile(r"(?P<name>-{0,2}[A-Za-z_][\w./-]*)(?P<gap>\\?[\"']?\s*[=:]\s*|\s+)")
"""A name, and what leads from it to its value: `--api-key X`, `HF_TOKEN=X`, `"token": "X"`, `Authorization: X`."""
_QUOTED: Final = r"\"(?:[^\"\\]|\\.)*\"|\\\"[^\"]*\"|'[^']*'"
_WORD: Final = re.compile(rf"{_QUOTED}|\S+")
_REST: Final = re.compile(rf"{_QUOTED}|[^'\"\n]+")
_WORDS: Final = re.compile(rf"(?!--)(?:{_QUOTED}|\S+)(?:[ \t]+[^\s&|;-]\S*)*")
_BEARER: Final = re.compile(r"(?i)\b(bearer)\s+[\w.~+/=-]+")
_HEADER: Final = re.compile(r"(?i)(?:proxy-)?authorization|(?:set-)?cookie")


def hide(path: str, value: Any, own_env: Collection[str] = ()) -> Any:
    """The value of the field at `path` with `(hidden)` for what sounds secret: a value by the name of its option,
    header, annotation or assignment, and whatever is sent as a bearer. An environment variable's value is shown only
    where its name is one of `own_env`, those that the run itself sets: what somebody else gave an engine may be secret
    under any name."""
    if isinstance(value, str):
        return _one(path, value, own_env)
    if isinstance(value, list):
        if all(isinstance(one, str) for one in value):
            return _command(value)
        return [hide(element(path, ""), one, own_env) for one in value]
    if isinstance(value, dict):
        if isinstance(name := value.get("name"), str) and isinstance(held := value.get("value"), str):
            own = name in own_env or not _VARIABLES.fullmatch(path)
            return {**value, "value": _named(name, held) if own else HIDDEN}
        return {name: hide(below(path, name), one, own_env) for name, one in value.items()}
    return value


def variables(manifest: Mapping[str, Any]) -> frozenset[str]:
    """The names of the environment variables that a Deployment's manifest speaks of."""
    spec = manifest["spec"]["template"]["spec"]
    containers = [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]
    return frozenset(one["name"] for container in containers for one in container.get("env") or [])


def _one(path: str, value: str, own_env: Collection[str]) -> str:
    if path.endswith(_COPY):
        return HIDDEN
    variable, note = _VARIABLE.search(path), _NOTE.fullmatch(path)
    if variable is not None:
        return _named(variable["name"], value) if variable["name"] in own_env else HIDDEN
    return _named("" if note is None else note["odd"] or note["plain"], value)


def _named(name: str, value: str) -> str:
    return HIDDEN if _secret(name) else _text(value)


def _secret(name: str) -> bool:
    return is_secret(name) or _HEADER.fullmatch(name) is not None


def _command(words: list[str]) -> list[str]:
    made: list[str] = []
    secret = False
    for word in words:
        if word.startswith("--") or (word.startswith("-") and made and made[-1] == HIDDEN):
            secret = False
        made.append(HIDDEN if secret else _text(word))
        # An option may take several values: they go on to the next option.
        secret = secret or (word.startswith("-") and "=" not in word and is_secret(word))
    return made


def _text(text: str) -> str:
    """A word or a script, without the values of the secret names in it. A name before a blank is one only where it is
    an option."""
    text = _BEARER.sub(rf"\1 {HIDDEN}", shown("", text))
    made, at = "", 0
    while (found := _NAMED.search(text, at)) is not None:
        made, at = made + text[at : found.end()], found.end()
        kind = found["gap"].strip(" \t\n\\\"'")
        if not (_secret(found["name"]) and (kind or found["name"].startswith("-"))):
            continue
        value = {"=": _WORD, ":": _REST}.get(kind, _WORDS).match(text, at)
        if value is not None:
            made, at = made + HIDDEN, value.end()
    return made + text[at:]
