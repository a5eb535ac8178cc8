"""Python's printed values, as they stand in log lines: literals, and reprs that no literal can express."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any, Final

MAX_NESTING: Final = 20
"""Containers inside containers that are taken apart; what lies deeper stays text."""


class Repr(str):
    """A value that Python printed and no literal can express, e.g. a dataclass inside the arguments."""

    __slots__ = ()


_OPENING: Final = "([{"
_CLOSING: Final = ")]}"


def split_top(text: str, separator: str = ",") -> Iterator[str]:
    """The parts of ``text`` between separators that stand outside brackets and quotes, stripped."""
    start = 0
    for at, char in _top(text):
        if char == separator:
            yield text[start:at].strip()
            start = at + 1
    if last := text[start:].strip():
        yield last


def whole(text: str) -> bool:
    """Whether every bracket and quote that ``text`` opens is closed in it: a value that was cut is not whole."""
    return all(char for _, char in _top(text))


def _top(text: str) -> Iterator[tuple[int, str]]:
    """Offset and character of what stands outside brackets and quotes; a last ``""`` where one stays open."""
    depth, quote, at = 0, "", 0
    while at < len(text):
        char = text[at]
        if quote:
            if char == "\\":
                at += 1
            elif char == quote:
                quote = ""
        elif char in "'\"" and (at == 0 or not text[at - 1].isalnum()):
            quote = char  # after a letter it is an apostrophe in an unquoted value
        elif char in _OPENING:
            depth += 1
        elif char in _CLOSING:
            depth -= 1
        elif depth == 0:
            yield at, char
        at += 1
    if quote or depth:
        yield at, ""


def read_value(text: str, _depth: int = 0) -> Any:
    """A printed Python value: the literal, or a container whose other items are ``Repr``, or a ``Repr``."""
    text = text.strip()
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        pass
    inner = text[1:-1]
    if _depth >= MAX_NESTING or text[:1] + text[-1:] not in ("{}", "[]") or not whole(inner):
        return Repr(text)
    if text.startswith("["):
        return [read_value(item, _depth + 1) for item in split_top(inner)]
    items = [(item, next(split_top(item, ":"), "")) for item in split_top(inner)]
    if all(len(key) < len(item) for item, key in items):
        return {_key(key): read_value(item[len(key) :].lstrip()[1:], _depth + 1) for item, key in items}
    return Repr(text)


def _key(text: str) -> Any:
    key = read_value(text, MAX_NESTING)
    return key if isinstance(key, str | int | float) else Repr(text)


def read_assignments(text: str) -> dict[str, str]:
    """``a='x', b=C(d=1, e=2)`` by top-level key; a part without ``=`` belongs to the value before it."""
    values: dict[str, list[str]] = {}
    key = ""
    for part in split_top(text):
        if found := re.match(r"([A-Za-z_]\w*)=", part):
            key = found[1]
            values[key] = [part[found.end() :]]
        elif key:
            values[key].append(part)
    return {key: ", ".join(parts) for key, parts in values.items()}
