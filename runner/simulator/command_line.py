"""What vLLM does to the words of a command line before argparse sees them.

A model given by flag moves to the front, a configuration file is put in place, underscores in a flag's name become
dashes, ``-O3`` is spelt out, and dotted words (``--x.a.b 1``, ``-x.a+=1,2``) are gathered into one JSON object each.
Source of the rules: vllm-project/vllm 0.26.0, ``utils/argparse_utils.py``; 0.32.0 and 0.33.0 have the same ones.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from runner.simulator.flag_types import human_readable_int

Warn = Callable[[str], None]


def prepared(argv: Sequence[str], warn: Warn) -> list[str]:
    """Words after ``serve`` as argparse should see them. Raises what vLLM raises: ValueError, AssertionError,
    IndexError, OSError.
    """
    words = _model_first(list(argv), warn)
    if words[:1] and words[0].startswith("-") and not _given(words, "--config") and _given(_dashed(words), _SERVED):
        raise ValueError(
            "`model` should be provided as the first positional argument when using `vllm serve`. "
            "i.e. `vllm serve <model> --<arg> <value>`."
        )
    if "--config" in words:
        words = _with_file(words, warn)
    return _gathered([spelt for word in _levelled(words) for spelt in _spelt(word)], warn)


_SERVED = "--served-model-name"


def _given(words: Sequence[str], flag: str) -> bool:
    return any(word == flag or re.match(rf"{flag}=.", word) for word in words)


def _dashed(words: Sequence[str]) -> list[str]:
    return [word.replace("_", "-") for word in words]


def _model_first(words: list[str], warn: Warn) -> list[str]:
    for position, word in enumerate(words):
        if word != "--model" and not re.match(r"--model=.", word):
            continue
        warn(
            "With `vllm serve`, you should provide the model as a positional argument or in a config file instead "
            "of via the `--model` option. The `--model` option will be removed in a future version."
        )
        if word == "--model":
            return [words[position + 1], *words[:position], *words[position + 2 :]]
        return [word.removeprefix("--model="), *words[:position], *words[position + 1 :]]
    return words


def _with_file(words: list[str], warn: Warn) -> list[str]:
    if words.count("--config") > 1:
        raise AssertionError("More than one config file specified!")
    position = words.index("--config")
    if position == len(words) - 1:
        raise ValueError("No config file specified! Please check your command-line arguments.")
    from_file = _file_words(words[position + 1], warn)
    rest = words[:position] + words[position + 2 :]
    if not words[0].startswith("-"):
        return [words[0], *from_file, *rest[1:]]
    if "--model" not in from_file:
        raise ValueError(
            "No model specified! Please specify model either as a positional argument or in a config file."
        )
    return from_file + rest


def _file_words(name: str, warn: Warn) -> list[str]:
    extension = name.rsplit(".", maxsplit=1)[-1]
    if extension not in ("yaml", "yml"):
        raise ValueError(f"Config file must be of a yaml/yml type. {extension} supplied")
    reader = YAML(typ="safe", pure=True)
    reader.version = (1, 1)  # what vLLM's own reader speaks
    try:
        text = Path(name).read_text("utf-8")
    except OSError:
        warn(f"Unable to read the config file at {name}. Check path correctness")
        raise
    words: list[str] = []
    for key, value in reader.load(text).items():
        if isinstance(value, bool):
            words += [f"--{key}"] if value else []  # false is dropped, whatever the default
        elif isinstance(value, list):
            words += [f"--{key}", *map(str, value)] if value else []
        else:
            words += [f"--{key}", json.dumps(value) if isinstance(value, dict) else str(value)]
    return words


def _levelled(words: Sequence[str]) -> list[str]:
    levels = {"0", "1", "2", "3"}
    following = [*words[1:], ""] if words else []
    return [
        "--optimization-level" if word == "-O" and after in levels else word
        for word, after in zip(words, following, strict=True)
    ]


def _spelt(word: str) -> list[str]:
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        head, dot, path = name.partition(".")
        return [head.replace("_", "-") + dot + path + equals + value]
    if word.startswith("-O") and word != "-O":
        return ["--optimization-level", word[2:].removeprefix("=")]
    return [word]


def _gathered(words: list[str], warn: Warn) -> list[str]:
    kept: list[str] = []
    objects: dict[str, dict[str, Any]] = {}
    seen: set[str] = set()
    twice: set[str] = set()
    pending = iter(words)
    for word in pending:
        name, equals, value = word.partition("=")
        if word.startswith("--") and "." not in word:
            (twice if name in seen else seen).add(name)
        if not word.startswith("-") or "." not in name:
            kept.append(word)
            continue
        if not equals:
            value = _next(pending)
        flag, *keys = name.removesuffix("+").split(".")
        parsed = _loose(json.dumps(value.split(",")) if name.endswith("+") else value)
        for key in reversed(keys):
            parsed = {key: parsed}
        twice |= {f"{flag}.{key}" for key in _merge(objects.setdefault(flag, {}), parsed)}
    if twice:
        warn(f"Found duplicate keys {', '.join(sorted(twice))}")
    return kept + [part for flag, gathered in objects.items() for part in (flag, json.dumps(gathered))]


def _next(pending: Any) -> str:
    for word in pending:
        return str(word)
    raise IndexError("list index out of range")


def _loose(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        try:
            return human_readable_int(text)
        except (ValueError, argparse.ArgumentTypeError):
            return text


def _merge(into: dict[str, Any], other: dict[str, Any]) -> set[str]:
    """Put `other` into the first; the dotted keys that were overwritten."""
    overwritten = set()
    for key, value in other.items():
        mine = into.get(key)
        if isinstance(mine, dict) and isinstance(value, dict):
            overwritten |= {f"{key}.{inner}" for inner in _merge(mine, value)}
        elif isinstance(mine, list) and isinstance(value, list):
            mine += value
        else:
            overwritten |= {key} & into.keys()
            into[key] = value
    return overwritten
