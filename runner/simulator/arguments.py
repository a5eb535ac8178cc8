"""``vllm serve`` arguments: parsing, and the dictionary of those that differ from the defaults."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runner.simulator.flags import FLAGS

DEFAULT_MODEL = "Qwen/Qwen3-0.6B"
_JSON_FLAGS = {flag.name: flag for flag in FLAGS if flag.name.endswith("-config")}
_SHORT_JSON = {flag.short: flag.name for flag in _JSON_FLAGS.values() if flag.short}


@dataclass(frozen=True, slots=True)
class Arguments:
    """`values`: every argparse destination; `non_default`: those that differ from the default, in order."""

    values: dict[str, Any]
    non_default: dict[str, Any]

    def without(self, destinations: Sequence[str], *, shown: bool) -> Arguments:
        """The same command line as if these flags had not been given; `shown` keeps them in `non_default`."""
        defaults = defaults_of_flags()
        values = {name: (defaults[name] if name in destinations else value) for name, value in self.values.items()}
        kept = {name: v for name, v in self.non_default.items() if shown or name not in destinations}
        return Arguments(values, kept)


def defaults_of_flags() -> dict[str, Any]:
    """Default of every destination."""
    return {"model_tag": None, **{_destination(flag.name): flag.default for flag in FLAGS}}


def parse(argv: Sequence[str]) -> Arguments:
    """Parse the words after the program's name.

    An unknown flag or a bad value prints argparse's message and raises SystemExit(2).
    """
    main = argparse.ArgumentParser(prog="vllm", description="vLLM CLI (embedded engine)")
    commands = main.add_subparsers(dest="subparser", required=True, metavar="{serve}")
    serve = commands.add_parser("serve", help="Launch a local OpenAI-compatible API server.")
    serve.add_argument("model_tag", nargs="?")
    for flag in FLAGS:
        names = [name for name in (flag.short, f"--{flag.name}") if name]
        if flag.kind is None:
            serve.add_argument(*names, action=argparse.BooleanOptionalAction, default=flag.default)
        else:
            serve.add_argument(
                *names,
                type=flag.kind,
                default=flag.default,
                nargs="+" if flag.many else None,
                choices=flag.choices,
            )
    namespace = main.parse_args(normalised(argv))
    values = vars(namespace)
    del values["subparser"]
    if values["model_tag"] is not None:
        values["model"] = values["model_tag"]
    non_default = {name: values[name] for name, default in defaults_of_flags().items() if values[name] != default}
    return Arguments(values, non_default)


def normalised(argv: Sequence[str]) -> list[str]:
    """Flags with ``-`` for ``_``, and dotted JSON flags gathered into one JSON value each."""
    words: list[str] = []
    gathered: dict[str, dict[str, Any]] = {}
    pending = list(argv)
    while pending:
        word = pending.pop(0)
        if not word.startswith("-") or word == "-":
            words.append(word)
            continue
        name, equals, value = word.partition("=")
        head, dot, path = name.partition(".")
        head = "--" + head[2:].replace("_", "-") if head.startswith("--") else head
        json_name = _SHORT_JSON.get(head, head.removeprefix("--"))
        if json_name not in _JSON_FLAGS:
            words.append(head + dot + path + equals + value)
            continue
        if not equals:
            value = pending.pop(0) if pending else ""
        try:
            parsed = _nested(path.split("."), _loosely(value)) if dot else json.loads(value)
        except json.JSONDecodeError:
            parsed = None
        if isinstance(parsed, dict):
            _merge(gathered.setdefault(json_name, {}), parsed)
        else:  # left for argparse to refuse
            words += [f"--{json_name}", value]
    for name, mapping in gathered.items():
        words += [f"--{name}", json.dumps(mapping)]
    return words


def _nested(path: Sequence[str], value: Any) -> dict[str, Any]:
    for key in reversed(path[1:]):
        value = {key.replace("-", "_"): value}
    return {path[0].replace("-", "_"): value}


def _loosely(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _merge(into: dict[str, Any], other: dict[str, Any]) -> None:
    for raw, value in other.items():
        key = raw.replace("-", "_")
        mine = into.get(key)
        if isinstance(mine, dict) and isinstance(value, dict):
            _merge(mine, value)
        else:
            into[key] = value


def _destination(name: str) -> str:
    return name.replace("-", "_")
