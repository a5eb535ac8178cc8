"""What turns a word of the command line into a value, by the names that the data under ``schemas/vllm-serve`` uses.

The error texts are vLLM's and argparse's; argparse prints the name of a function that raises ValueError.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from runner.simulator import flag_classes

Convert = Callable[[str], Any]

_DECIMAL = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SUFFIXED = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])")


def human_readable_int(text: str) -> int:
    """``4096``, ``4k`` (4000), ``4K`` (4096), ``25.6k``. Raises ValueError or ArgumentTypeError for others."""
    found = _SUFFIXED.fullmatch(text.strip())
    if not found:
        return int(text.strip())
    number, suffix = found.groups()
    if suffix in _DECIMAL:
        return int(float(number) * _DECIMAL[suffix])
    if "." in number:
        raise argparse.ArgumentTypeError(
            f"Decimals are not allowed with binary suffixes like {suffix}. "
            f"Did you mean to use {number}{suffix.lower()} instead?"
        )
    return int(number) * _BINARY[suffix]


def human_readable_int_or_auto(text: str) -> int:
    """The same, and -1 for ``auto`` in any case."""
    return -1 if text.strip().lower() == "auto" or text.strip() == "-1" else human_readable_int(text)


def checked(kind: Convert) -> Convert:
    """`kind`, whose ValueError becomes vLLM's sentence."""

    def _parse_type(text: str) -> Any:
        try:
            return kind(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"Value {text} cannot be converted to {kind}.") from error

    return _parse_type


def optional(kind: Convert) -> Convert:
    """`kind`, but None for the word ``None`` and for an empty one."""

    def _optional_type(text: str) -> Any:
        return None if text in ("", "None") else checked(kind)(text)

    return _optional_type


def union_dict_and_str(text: str) -> Any:
    """A JSON object where the word is in braces, else the word."""
    return optional(json.loads)(text) if re.match(r"(?s)\s*{.*}\s*$", text) else text


def none_is_empty(text: str) -> str:
    """The word, but nothing for ``none`` in any case."""
    return "" if text.lower() == "none" else text


def lower_with_underscores(text: str) -> str:
    """The word in the spelling of vLLM's backends."""
    return text.lower().replace("-", "_")


def comma_separated_devices(text: str) -> list[int | str]:
    """Numbers where they are numbers, else names."""
    return [int(part) if part.isdigit() else part for part in (part.strip() for part in text.split(","))]


_NAMED: dict[str, Convert] = {
    "str": str,
    "int": int,
    "float": float,
    "json": json.loads,
    **{
        function.__name__: function
        for function in (
            human_readable_int,
            human_readable_int_or_auto,
            union_dict_and_str,
            none_is_empty,
            lower_with_underscores,
            comma_separated_devices,
        )
    },
}


def named(described: Any, classes: Mapping[str, Any]) -> Convert | None:
    """Function of a type in the data; None leaves the word as it is. Raises KeyError for an unknown name."""
    if described is None:
        return None
    if isinstance(described, str):
        return _NAMED[described]
    [(wrapper, inner)] = described.items()
    if wrapper == "dataclass":
        return _configuration(inner, classes)
    kind = named(inner, classes)
    assert kind is not None
    return {"optional": optional, "checked": checked}[wrapper](kind)


def _configuration(name: str, classes: Mapping[str, Any]) -> Convert:
    def parse_dataclass(text: str) -> Any:
        try:
            return flag_classes.parsed(name, with_numbers_expanded(text), classes)
        except flag_classes.ValidationError as error:
            raise argparse.ArgumentTypeError(repr(error)) from error

    return parse_dataclass


def with_numbers_expanded(text: str) -> str:
    """JSON text in which ``5k`` outside of strings is a number."""
    parts = re.split(r'("(?:[^"\\]|\\.)*")', text)
    for position in range(0, len(parts), 2):
        parts[position] = re.sub(
            rf"\b{_SUFFIXED.pattern}\b", lambda found: str(human_readable_int(found[0])), parts[position]
        )
    return "".join(parts)
