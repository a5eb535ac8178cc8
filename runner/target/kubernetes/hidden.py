"""An object's values as they may be shown: without what sounds secret."""

from __future__ import annotations

import re
from typing import Any, Final

from runner.engine.environment import HIDDEN, is_secret, shown

_VARIABLE: Final = re.compile(r"\.env\[(?P<name>[^\]]*)\]\.value$")
_COPY: Final = "[kubectl.kubernetes.io/last-applied-configuration]"
"""Ends the path of kubectl's copy of a whole manifest, the values of its environment included."""
_INLINE: Final = re.compile(r"(?P<name>-{0,2}[A-Za-z][\w-]*)(?P<gap>=|\s+)(?P<value>'[^']*'|\"[^\"]*\"|\S+)")
_AUTHORIZATION: Final = re.compile(r"(?i)(?:proxy-)?authorization|cookie")


def hide(path: str, value: Any) -> Any:
    """The value of the field at `path`, with `(hidden)` for each value of an environment variable, of an option of a
    command line or of an HTTP header whose name sounds like a secret."""
    if isinstance(value, str):
        if path.endswith(_COPY):
            return HIDDEN
        variable = _VARIABLE.search(path)
        return _value(variable["name"] if variable else "", value)
    if isinstance(value, list):
        return _command(value) if all(isinstance(one, str) for one in value) else [hide("", one) for one in value]
    if isinstance(value, dict):
        if isinstance(name := value.get("name"), str) and isinstance(held := value.get("value"), str):
            return {**value, "value": _value(name, held)}
        return {name: hide(f"{path}[{name}]", one) for name, one in value.items()}
    return value


def _value(name: str, value: str) -> str:
    return HIDDEN if _AUTHORIZATION.fullmatch(name) else shown(name, value)


def _command(words: list[str]) -> list[str]:
    made, secret = [], False
    for word in words:
        hidden = secret and not word.startswith("--")
        made.append(HIDDEN if hidden else _INLINE.sub(_inline, shown("", word)))
        secret = word.startswith("-") and "=" not in word and is_secret(word)
    return made


def _inline(found: re.Match[str]) -> str:
    """Of `--api-key=X` and of what a shell is told: `HF_TOKEN=X vllm serve --api-key X`. A name before a blank is one
    only where it is an option."""
    if not is_secret(found["name"]) or (found["gap"] != "=" and not found["name"].startswith("-")):
        return found[0]
    return f"{found['name']}{found['gap']}{HIDDEN}"
