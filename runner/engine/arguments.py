"""Engine arguments by type: from a mapping of the spec to the words of a command line, and to what was meant.

The module knows argparse's rules and no flag's name: a flag that nobody has heard of passes through.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


class Repeated(list[Any]):
    """A list whose author wants the option once per item: ``--x a --x b``."""


class CommaSeparated(list[Any]):
    """A list whose author wants one word: ``--x a,b``."""


class WrittenFloat(float):
    """A float that remembers how its author spelt it: ``0.30`` stays ``0.30``."""

    text: str

    def __new__(cls, text: str) -> WrittenFloat:
        """Raises ValueError where ``text`` is no float."""
        self = super().__new__(cls, text)
        self.text = text.strip()
        return self

    def __reduce__(self) -> tuple[type[WrittenFloat], tuple[str]]:
        # copy and pickle build the object anew from its text, not from its value
        return WrittenFloat, (self.text,)


def canonical(name: str) -> str:
    """An option's one spelling: kebab-case, no leading dashes (``--max_num_seqs`` gives ``max-num-seqs``)."""
    return name.strip().lstrip("-").replace("_", "-")


def destination(name: str) -> str:
    """An option's name as argparse stores it: ``max-num-seqs`` gives ``max_num_seqs``."""
    return canonical(name).replace("-", "_")


def identity(name: str) -> str:
    """What two keys share that set the same option: ``x``, ``no-x``, ``--no_x`` all give ``x``.

    argparse's BooleanOptionalAction makes the pair. An option whose own name begins with ``no-`` would be
    taken for the negation of the rest; it would still be rendered as it is written.
    """
    return canonical(name).removeprefix("no-")


def _refuse_twice(args: Mapping[str, object]) -> None:
    seen: dict[str, str] = {}
    for key in args:
        if not canonical(key):
            raise ValueError(f"{key!r} is no option's name")
        earlier = seen.setdefault(identity(key), key)
        if earlier != key:
            raise ValueError(f"{earlier!r} and {key!r} set the same option")


def _word(key: str, value: object) -> str:
    """One value as one word; raises ValueError for what has no spelling on a command line."""
    if isinstance(value, bool) or value is None:
        raise ValueError(f"{key!r}: {value!r} has no spelling as one item of a list")
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{key!r}: {value!r} is no number that an engine can take")
        return value.text if isinstance(value, WrittenFloat) else repr(float(value))
    if isinstance(value, Mapping):
        return _json(key, value)
    raise ValueError(f"{key!r}: a {type(value).__name__} cannot be rendered as an engine argument")


def _json(key: str, value: Mapping[Any, Any]) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{key!r}: the mapping cannot be written as JSON: {error}") from error


def _pair(flag: str, word: str) -> list[str]:
    # argparse takes a separate word that begins with a dash for the next flag
    return [f"{flag}={word}"] if word.startswith("-") or not word else [flag, word]


def render(args: Mapping[str, object]) -> list[str]:
    """The words of a command line, in the mapping's order.

    true: ``--x``; false: ``--no-x`` (of a key ``no-x``: ``--x``); None: nothing; list: ``--x`` and its
    items as separate words; ``Repeated``: ``--x a --x b``; ``CommaSeparated``: ``--x a,b``; mapping:
    ``--x`` and compact JSON; text and number: ``--x value``, or ``--x=value`` where the value begins with
    a dash or is empty.

    Raises ValueError, naming the key, for two spellings of one option, an empty list, an item of a plain list
    that begins with a dash (no spelling of it survives argparse) and any value that has no spelling.
    """
    _refuse_twice(args)
    words: list[str] = []
    for key, value in args.items():
        words += _option(key, value)
    return words


def _option(key: str, value: object) -> list[str]:
    flag = f"--{canonical(key)}"
    if value is None:
        return []
    if value is True:
        return [flag]
    if value is False:
        positive = identity(key)
        return [f"--{positive}" if canonical(key) != positive else f"--no-{positive}"]
    if isinstance(value, list | tuple):
        return _list(key, flag, value)
    return _pair(flag, _word(key, value))


def _list(key: str, flag: str, value: list[Any] | tuple[Any, ...]) -> list[str]:
    if not value:
        raise ValueError(f"{key!r}: an empty list has no spelling; leave the option out, or give null")
    items = [_word(key, item) for item in value]
    if isinstance(value, Repeated):
        return [word for item in items for word in _pair(flag, item)]
    if isinstance(value, CommaSeparated):
        if holds_comma := [item for item in items if "," in item]:
            raise ValueError(f"{key!r}: {holds_comma[0]!r} holds a comma and cannot be one item of a comma list")
        return _pair(flag, ",".join(items))
    if dashed := [item for item in items if item.startswith("-")]:
        raise ValueError(f"{key!r}: the list item {dashed[0]!r} begins with a dash, which argparse reads as a flag")
    return [flag, *items]


def overlay(base: Mapping[str, object], override: Mapping[str, object]) -> dict[str, object]:
    """``base`` with the options of ``override`` in place of its own.

    A value is replaced wholly (a mapping is not merged), by ``identity``: any spelling replaces any other,
    and the override's spelling stays. The position of the base is kept; new options follow in their own
    order.
    Raises ValueError where one side sets an option twice.
    """
    _refuse_twice(base)
    _refuse_twice(override)
    replacing = {identity(key): key for key in override}
    merged: dict[str, object] = {}
    for key, value in base.items():
        name = replacing.pop(identity(key), None)
        merged[key if name is None else name] = value if name is None else override[name]
    merged.update((key, override[key]) for key in replacing.values())
    return merged


def wanted(args: Mapping[str, object]) -> dict[str, object]:
    """argparse destination to the value that vLLM is meant to have parsed.

    ``no-x: true`` is x False. None (the option is not given) is left out. Values stay as the author gave
    them.
    Raises ValueError where an option is set twice.
    """
    _refuse_twice(args)
    meant: dict[str, object] = {}
    for key, value in args.items():
        if value is None:
            continue
        negated = isinstance(value, bool) and identity(key) != canonical(key)
        meant[destination(identity(key) if negated else key)] = (not value) if negated else value
    return meant
