"""vLLM's configuration classes, as far as the data under ``schemas/vllm-serve`` describes them.

Fields, their types and limits, and their defaults are the data's; what the classes check in code of their own is
named there (`code`) but not imitated, except that an enumeration is also taken by its member's name.
"""

from __future__ import annotations

import copy
import dataclasses
import enum
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Union

import pydantic
from pydantic import ValidationError

__all__ = ["Default", "Shown", "ValidationError", "member", "parsed"]

_PLAIN = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "list": list,
    "dict": dict,
    "set": set,
    "tuple": tuple,
    "path": Path,
    "any": Any,
}
_GENERIC: dict[str, Any] = {"list": list, "dict": dict, "set": set}


def parsed(name: str, text: str, classes: Mapping[str, Any]) -> Any:
    """An instance from JSON text. Raises ValidationError in pydantic's words."""
    return pydantic.TypeAdapter(_class(name, classes)).validate_json(text)


class Default:
    """An instance of nothing but defaults, built only when it is compared with another one or printed: most
    command lines give none of these flags, and building the classes takes as long as all the rest.
    """

    def __init__(self, name: str, classes: Mapping[str, Any]) -> None:
        self._name = name
        self._classes = classes

    def built(self) -> Any:
        return parsed(self._name, "{}", self._classes)

    def __eq__(self, other: object) -> bool:
        return other._name == self._name if isinstance(other, Default) else bool(self.built() == other)

    def __hash__(self) -> int:
        return hash(self._name)

    def __repr__(self) -> str:
        return repr(self.built())


class Shown:
    """A value that is only printed."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shown) and repr(other) == self._text

    def __hash__(self) -> int:
        return hash(self._text)


def member(described: Mapping[str, Any]) -> Any:
    """A member of an enumeration that the command line cannot name, or its value if the two are equal."""
    return described["value"] if described["equals_its_value"] else Shown(described["enum"])


_built: dict[int, dict[str, type]] = {}


def _class(name: str, classes: Mapping[str, Any]) -> type:
    built = _built.setdefault(id(classes), {})
    if name not in built:
        fields = [_field(described, classes) for described in classes[name]["fields"]]
        own = _printing(classes[name])
        bare = dataclasses.make_dataclass(name, fields, namespace=own, repr=not own)
        forbidding = pydantic.ConfigDict(extra="forbid")
        built[name] = pydantic.dataclasses.dataclass(bare, config=forbidding, repr=not own)
    return built[name]


def _printing(described: Mapping[str, Any]) -> dict[str, Any]:
    """The one form of printing that vLLM wrote itself: a dictionary, in which an inner class that was given as
    nothing but defaults is empty.
    """
    shown = described.get("shown")
    if shown is None:
        return {}

    def as_dictionary(instance: Any) -> str:
        return str({name: _plain(name, getattr(instance, name)) for name in shown})

    return {"__repr__": as_dictionary}


def _plain(name: str, value: Any) -> Any:
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if name != "pass_config":
        return fields
    usual = type(value)()
    return {field: mine for field, mine in fields.items() if mine != getattr(usual, field)}


def _field(described: Mapping[str, Any], classes: Mapping[str, Any]) -> tuple[str, Any, Any]:
    options: dict[str, Any] = {"init": False} if described.get("init") is False else {}
    if not described.get("required"):
        options["default_factory"] = _factory(described, classes)
    annotation = _annotation(described["type"], classes)
    if described.get("repr") is False:
        options["repr"] = False
    if described.get("default", "") is None:  # a default that the declared type may not allow
        annotation = annotation | None
    return described["name"], annotation, dataclasses.field(**options)


def _factory(described: Mapping[str, Any], classes: Mapping[str, Any]) -> Any:
    settled = described.get("settles_as", described.get("default"))
    if settled == {"uuid": 4}:
        return lambda: str(uuid.uuid4())
    value = described.get("default_object")
    if value is None or "settles_as" in described:
        return lambda: copy.deepcopy(settled)
    if "dataclass" in value:
        return Default(value["dataclass"], classes).built
    if "set" in value:
        return lambda: set(value["set"])
    if "enum" in value:
        return lambda: Shown(value["enum"])
    return lambda: Shown(value["repr"])


def _annotation(described: Any, classes: Mapping[str, Any]) -> Any:
    if described is None or isinstance(described, str):
        return None if described is None else _PLAIN[described]
    if "limited" in described:
        limits = {name: limit for name, limit in described.items() if name != "limited"}
        return Annotated[_annotation(described["limited"], classes), pydantic.Field(**limits)]
    if "enum" in described:
        return _enumeration(described["enum"], described["members"])
    [(kind, inner)] = described.items()
    if kind == "dataclass":
        return _class(inner, classes)
    if kind == "literal":
        return Literal[tuple(inner)]
    arguments: Any = tuple(Ellipsis if item == "..." else _annotation(item, classes) for item in inner)
    if kind == "union":
        return Union[arguments]  # noqa: UP007  # of a computed number of types
    if kind == "tuple":
        return tuple[arguments]
    return _GENERIC[kind][arguments if len(arguments) > 1 else arguments[0]]


def _enumeration(name: str, members: Mapping[str, Any]) -> Any:
    found = enum.Enum(name, dict(members))  # type: ignore[misc]  # its members are data

    def by_name(value: Any) -> Any:
        return found[value.upper()] if isinstance(value, str) and value.upper() in found.__members__ else value

    return Annotated[found, pydantic.BeforeValidator(by_name)]
