"""Where a field of an object is, in one spelling: `spec.template.spec.containers[vllm].env[HF_HOME].value`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

Object = dict[str, Any]

_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]+")
_SERVER: Final = re.compile(r"\.(?P<name>[^.\[\]]+)|\[(?P<inside>(?:\"(?:\\.|[^\"\\])*\"|[^\"\]])*)\]")
_NAMED: Final = re.compile(r"(?P<map>.*\.(?:annotations|labels|nodeSelector|limits|requests))\.(?P<name>.+)")
"""A map of names chosen by people: the server writes their dots as it writes the path's own."""
_PAIR: Final = re.compile(r"(?:^|,)[\w.-]+=(\"(?:\\.|[^\"\\])*\"|[^,]*)")


def below(path: str, name: str) -> str:
    """The path of a field of the map at `path`; a name that is not plain (`a.b/c`) stands in brackets."""
    if not _PLAIN.fullmatch(name):
        return f"{path}[{name}]"
    return f"{path}.{name}" if path else name


def element(path: str, key: str) -> str:
    """The path of an element of the list at `path`."""
    return f"{path}[{key}]"


def key_of(values: Iterable[object]) -> str:
    """An element's key from the values of its key fields: `vllm`, `8000/TCP`."""
    return "/".join(str(value) for value in values)


def within(path: str, places: Iterable[str]) -> bool:
    """Whether the path is one of the places or lies below one."""
    return any(path == place or path.startswith((f"{place}.", f"{place}[")) for place in places)


def from_server(path: str) -> str:
    """A path as the API server's conflicts have it (`.spec.containers[name="vllm"].args`), in this spelling; given
    back as it is where it cannot be read."""
    named = _NAMED.fullmatch(path)
    if named is not None:
        return below(from_server(named["map"]), named["name"])
    made, end = "", 0
    for found in _SERVER.finditer(path):
        if found.start() != end:
            return path
        end = found.end()
        if (name := found["name"]) is not None:
            made = below(made, name)
        else:
            made = element(made, _element_key(found["inside"]))
    return made if made and end == len(path) else path


def _element_key(inside: str) -> str:
    values = _PAIR.findall(inside) if "=" in inside.partition('"')[0] else [inside.removeprefix("=")]
    return key_of(_unquoted(value) for value in values)


def _unquoted(text: str) -> str:
    try:
        return str(json.loads(text)) if text.startswith('"') else text
    except ValueError:
        return text.strip('"')


def from_fields(fields: Mapping[str, Any], path: str = "") -> list[str]:
    """The leaves of a `fieldsV1`: what a manager owns. A map or an element that it owns as such, and nothing of what is
    in it, is one path."""
    found: list[str] = []
    for key, inner in fields.items():
        if key == ".":
            continue
        kind, _, name = key.partition(":")
        place = below(path, name) if kind == "f" else element(path, _listed(kind, name))
        deeper = from_fields(inner, place) if isinstance(inner, dict) else []
        found += deeper or [place]
    return found


def _listed(kind: str, text: str) -> str:
    """k: the key fields of an element of a list of maps, v: the value of a set's, i: an index."""
    if kind == "i":
        return text
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return key_of(value.values()) if kind == "k" and isinstance(value, dict) else str(value)
