"""The flags of ``vllm serve``, read from ``schemas/vllm-serve/VERSION.json``: what a real engine's parser holds.

No flag is listed in code. The order of the file is vLLM's order of registration, in which ``non-default args`` is
printed. The file's README says how it was made and what its words mean.
"""

from __future__ import annotations

import argparse
import copy
import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from runner.resources import resource
from runner.simulator import flag_classes, flag_types


@dataclass(frozen=True)
class Flags:
    """`actions` and `classes` as in the file; `usage` of ``vllm`` and of ``serve``; `redacted` destinations are
    printed as ``***``; `hints` are added to the error about an unknown flag.
    """

    version: str
    actions: Sequence[Mapping[str, Any]]
    classes: Mapping[str, Any]
    usage: Mapping[str, str]
    redacted: frozenset[str]
    hints: Mapping[str, str | None]

    @functools.cached_property
    def deprecated(self) -> tuple[str, ...]:
        """Destinations that vLLM warns of."""
        return tuple(entry["dest"] for entry in self.actions if entry.get("deprecated"))

    def defaults(self) -> dict[str, Any]:
        """Default of every destination that has one, in the order of registration."""
        found = {entry["dest"]: self._default(entry) for entry in self.actions}
        return {name: value for name, value in found.items() if value is not argparse.SUPPRESS}

    @functools.cached_property
    def parser(self) -> argparse.ArgumentParser:
        """A parser with vLLM's own errors, whose first word must be ``serve``."""
        main = _Parser(prog="vllm", usage=_usage(self.usage["vllm"]), hints=self.hints)
        main.add_argument("-v", "--version", action="version", version=self.version)
        commands = main.add_subparsers(dest="subparser", required=True)
        serve = commands.add_parser("serve", prog="vllm serve", usage=_usage(self.usage["serve"]), hints=self.hints)
        for entry in self.actions:
            self._add(serve, entry)
        return main

    def _default(self, entry: Mapping[str, Any]) -> Any:
        described = entry.get("default_object")
        if described is None:
            return copy.deepcopy(entry["default"])
        if "suppressed" in described:
            return argparse.SUPPRESS
        if "set" in described:
            return set(described["set"])
        if "enum" in described:
            return flag_classes.member(described)
        return flag_classes.Default(described["dataclass"], self.classes)

    def _add(self, serve: argparse.ArgumentParser, entry: Mapping[str, Any]) -> None:
        names = entry.get("registered", entry["options"])
        options: dict[str, Any] = {"action": entry["action"], "default": self._default(entry)}
        if entry["action"] == "switch":
            options |= {"action": _Switch, "negative": frozenset(entry["negative"])}
        elif entry["action"] == "lora_modules":
            options["action"] = _LoraModules
        options |= {key: entry[key] for key in ("nargs", "const", "choices", "required") if key in entry}
        if "type" in entry:
            options["type"] = flag_types.named(entry["type"], self.classes)
        if names:
            options["dest"] = entry["dest"]
        action = serve.add_argument(*(names or [entry["dest"]]), **options)
        # Spellings that are taken but not shown are left out of error messages.
        action.option_strings = list(entry["options"])


@functools.cache
def of(version: str) -> Flags:
    """Flags of a release. Raises FileNotFoundError when no data of it is there."""
    data = json.loads(resource("schemas", f"vllm-serve/{version}.json").read_text("utf-8"))
    return Flags(
        version=version,
        actions=data["actions"],
        classes=data["dataclasses"],
        usage=data["usage"],
        redacted=frozenset(data["redacted"]),
        hints=data["unrecognized_hint"],
    )


def _usage(text: str) -> str:
    return text.removeprefix("usage: ").rstrip("\n")


class _Parser(argparse.ArgumentParser):
    """`hints`: by flag, what to add when it is not known."""

    def __init__(self, *args: Any, hints: Mapping[str, str | None], **options: Any) -> None:
        super().__init__(*args, **options)
        self._hints = hints

    def error(self, message: str) -> NoReturn:
        if message.startswith("unrecognized arguments:"):
            words = [word.split("=")[0] for word in message.split()]
            message += "".join(hint for flag, hint in self._hints.items() if hint and flag in words)
        super().error(message)


class _Switch(argparse.Action):
    """``--x`` and the spellings in `negative` that turn it off."""

    def __init__(self, option_strings: Sequence[str], dest: str, *, negative: frozenset[str], default: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, default=default)
        self._negative = negative

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        setattr(namespace, self.dest, option not in self._negative)


@dataclass
class LoRAModulePath:
    """A LoRA adapter on the command line."""

    name: str
    path: str
    base_model_name: str | None = None
    is_3d_lora_weight: bool = False


class _LoraModules(argparse.Action):
    """``name=path`` or a JSON object each."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        found = []
        for item in filter(None, values):
            if "=" in item and "," not in item:
                name, path = item.split("=")
                found.append(LoRAModulePath(name, path))
                continue
            try:
                found.append(LoRAModulePath(**json.loads(item)))
            except json.JSONDecodeError:
                parser.error(f"Invalid JSON format for {self.option_strings[0]}: {item}")
            except TypeError as error:
                parser.error(f"Invalid fields for {self.option_strings[0]}: {item} - {error}")
        setattr(namespace, self.dest, found)
