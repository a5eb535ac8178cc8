"""Is a found value the wanted one, however either is written?"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from .printed import Repr
from .reply import load_json

_HIDDEN: Final = "***"
"""What newer versions print in place of a secret."""
_SUFFIXES: Final[Mapping[str, int]] = {
    **{letter: 1000**power for power, letter in enumerate("kmgt", 1)},
    **{letter: 1024**power for power, letter in enumerate("KMGT", 1)},
}


def same(wanted: object, found: object) -> bool | None:
    """Whether a found value is the wanted one, in any representation; None where it cannot be told.

    Tolerated: ``[x]`` and x; ``"4k"`` = 4000 and ``"4K"`` = 4096 (vLLM's own suffixes); ``"0.30"`` = 0.3;
    keys of mappings with ``-`` or ``_``; a mapping as JSON text; a comma list as text. A boolean equals a
    boolean (or its printed word) only.
    """
    if isinstance(found, Repr) or found == _HIDDEN:
        return None
    mapping, other = as_mapping(wanted), as_mapping(found)
    if mapping is not None or other is not None:
        return None if mapping is None or other is None else _same_mapping(mapping, other)
    if isinstance(wanted, list | tuple) or isinstance(found, list | tuple):
        return _same_list(wanted, found)
    if isinstance(wanted, bool) or isinstance(found, bool):
        return _as_bool(wanted) is not None and _as_bool(wanted) == _as_bool(found)
    if wanted is None or found is None:
        return wanted is found
    number, other_number = _as_number(wanted), _as_number(found)
    if number is not None and other_number is not None:
        return number == other_number
    return str(wanted) == str(found)


def same_resolved(name: str, wanted: object, configured: object) -> bool | None:
    """``same`` for a value that the engine may have resolved from the wanted one."""
    if wanted == "auto" or (name == "max_model_len" and wanted == -1):
        return None  # the engine's choice: any value is what was wanted
    if name == "dtype":
        return _dtype(wanted) == _dtype(configured)
    if name == "served_model_name" and isinstance(wanted, list | tuple) and wanted and isinstance(configured, str):
        wanted = wanted[0]  # the configuration has the first name only
    mapping, section = as_mapping(wanted), as_mapping(configured)
    if mapping is not None and section is not None:
        # A section shows all of its keys, and what the engine made of a value that was given.
        given = {str(key).replace("-", "_"): value for key, value in mapping.items()}
        return True if all(key in section and same(value, section[key]) for key, value in given.items()) else None
    if isinstance(configured, Repr) and isinstance(wanted, str):
        # The configuration line prints text without quotes. Another word may be what the engine made of this one.
        return True if str(configured) == wanted else None
    return same(wanted, configured)


def _dtype(value: object) -> str:
    name = str(value).removeprefix("torch.")
    return {"half": "float16", "float": "float32"}.get(name, name)


def as_mapping(value: object) -> Mapping[Any, object] | None:
    if isinstance(value, Mapping):
        return value
    if isinstance(value, str) and value.lstrip().startswith("{"):
        for read in (load_json, ast.literal_eval):
            try:
                parsed = read(value)
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                continue
            if isinstance(parsed, dict):
                return parsed
    return None


def _same_mapping(wanted: Mapping[Any, object], found: Mapping[Any, object]) -> bool | None:
    left = {str(key).replace("-", "_"): value for key, value in wanted.items()}
    right = {str(key).replace("-", "_"): value for key, value in found.items()}
    if left.keys() != right.keys():
        return False
    return _all(same(value, right[key]) for key, value in left.items())


def _same_list(wanted: object, found: object) -> bool | None:
    left, right = _as_list(wanted, found), _as_list(found, wanted)
    if len(left) != len(right):
        return False
    return _all(same(item, other) for item, other in zip(left, right, strict=True))


def _as_list(value: object, other: object) -> list[object]:
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, str) and isinstance(other, list | tuple) and len(other) > 1:
        return list(value.split(","))
    return [value]


def _all(verdicts: Any) -> bool | None:
    """Like all(), with None (cannot be told) weaker than False."""
    known = list(verdicts)
    return False if False in known else None if None in known else True


def _as_bool(value: object) -> bool | None:
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value.lower()) if isinstance(value, str) else None


def _as_number(value: object) -> Decimal | None:
    if isinstance(value, int | float):
        return Decimal(repr(float(value)) if isinstance(value, float) else value)
    if not isinstance(value, str):
        return None
    text = value.strip()
    factor = _SUFFIXES.get(text[-1:], 1)
    if not re.fullmatch(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", text if factor == 1 else text[:-1]):
        return None
    try:
        return Decimal(text if factor == 1 else text[:-1]) * factor
    except InvalidOperation:
        return None


def same_variable(text: str, found: object) -> bool | None:
    """Whether an environment variable's text is the value that vLLM read from it; None where it cannot be told.

    vLLM changes case, expands paths and resolves words: another text is another value only where both are numbers or
    both are truth values.
    """
    if isinstance(found, bool):
        truth = _TRUTH.get(text.strip().lower())
        return None if truth is None else truth is found
    if isinstance(found, int | float):
        number = _as_number(text)
        return None if number is None else number == _as_number(found)
    if not isinstance(found, str):
        return None
    if text == found:
        return True
    for read in (lambda word: _TRUTH.get(word.strip().lower()), _as_number):
        one, other = read(text), read(found)
        if one is not None and other is not None and one != other:
            return False
    return None


_TRUTH: Final[Mapping[str, bool]] = {"1": True, "true": True, "0": False, "false": False}
