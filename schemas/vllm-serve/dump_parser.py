"""Writes the parser of ``vllm serve`` down as JSON; runs where vLLM is installed, without this project.

    python dump_parser.py --platform cuda > 0.26.0.json

The platform is forced, so that no GPU is needed: `cuda` puts empty modules where vLLM's compiled extensions
would be loaded, since the parser never calls them. README.md says what the entries mean.

A type, an action or a default that this script does not know ends it with an error: a new release must be looked
at, not guessed at.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import enum
import importlib.metadata
import inspect
import json
import os
import platform
import re
import sys
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

EXTENSIONS = ("_C", "_C_stable_libtorch", "_moe_C", "_moe_C_stable_libtorch")
# Commands beside ``serve`` whose modules load models' code; only their names matter, for the usage line.
HEAVY_COMMANDS = ("preload",)
NAMED_TYPES = ("str", "int", "float", "human_readable_int", "human_readable_int_or_auto", "union_dict_and_str")
LAMBDAS = {
    's.lower().replace("-", "_")': "lower_with_underscores",
    "int(device_id) if device_id.isdigit() else device_id": "comma_separated_devices",
}
# Of a pydantic field's metadata, what limits its value.
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
LIMITS = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern")


class Captured(Exception):
    """Carries the parser out of vLLM's own main function."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        super().__init__()
        self.parser = parser


def vllm_parser(kind: str) -> argparse.ArgumentParser:
    """The parser that ``vllm`` itself builds and calls, on a platform of this kind (cuda or cpu)."""
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    sys.argv = ["vllm", "serve"]
    if kind == "cuda":
        for name in EXTENSIONS:
            sys.modules[f"vllm.{name}"] = types.ModuleType(f"vllm.{name}")
        from vllm import platforms
        from vllm.platforms.cuda import NonNvmlCudaPlatform

        platforms._current_platform = NonNvmlCudaPlatform()
    from vllm.entrypoints import cli

    for name in HEAVY_COMMANDS:
        module = empty_command(name)
        sys.modules[f"vllm.entrypoints.cli.{name}"] = module
        setattr(cli, name, module)
    from vllm.entrypoints.cli import main
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    def capture(self: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
        raise Captured(self)

    real = FlexibleArgumentParser.parse_args
    FlexibleArgumentParser.parse_args = capture
    try:
        main.main()
    except Captured as captured:
        return captured.parser
    finally:
        FlexibleArgumentParser.parse_args = real
    raise SystemExit("vLLM's main function parsed nothing")


def empty_command(name: str) -> types.ModuleType:
    """A module of vLLM's command line with one command of this name."""
    module = types.ModuleType(name)
    command = types.SimpleNamespace(name=name, cmd=None, subparser_init=lambda commands: commands.add_parser(name))
    module.cmd_init = lambda: [command]
    return module


def serve_parser(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Its sub-parser for ``serve``."""
    [commands] = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return commands.choices["serve"]


def dumped(parser: argparse.ArgumentParser, kind: str) -> dict[str, Any]:
    """Everything that README.md lists."""
    from vllm.platforms import current_platform

    serve = serve_parser(parser)
    if serve._mutually_exclusive_groups:
        raise SystemExit("mutually exclusive groups are not written down")
    if current_platform.device_type != kind:
        raise SystemExit(f"the platform is {current_platform.device_type}, not {kind}")
    classes: dict[str, Any] = {}
    actions = [
        described(action, serve, classes) for action in serve._actions if not isinstance(action, argparse._HelpAction)
    ]
    return {
        "version": importlib.metadata.version("vllm"),
        "build": built(),
        "platform": kind,
        "python": platform.python_version(),
        "pydantic": importlib.metadata.version("pydantic"),
        "usage": {"vllm": parser.format_usage(), "serve": serve.format_usage()},
        "redacted": redacted(),
        "unrecognized_hint": {"--task": hint(parser, "--task")},
        "actions": actions,
        "dataclasses": dict(sorted(classes.items())),
    }


def built() -> str:
    """Version, as vLLM names its build (with commit, where it knows it)."""
    from vllm import _version

    return str(getattr(_version, "__commit_id__", None) or getattr(_version, "commit_id", None) or "")


def redacted() -> list[str]:
    """Destinations whose values vLLM's log line of non-default arguments hides."""
    module = sys.modules[log_non_default_args().__module__]
    return sorted(getattr(module, "_SENSITIVE_ARG_FIELDS", ()))


def log_non_default_args() -> Callable[..., Any]:
    """vLLM's function that logs the arguments; its home differs between releases."""
    try:
        from vllm.entrypoints.common.startup import log_non_default_args as found
    except ImportError:
        from vllm.entrypoints.serve.utils.api_utils import log_non_default_args as found
    return found


def hint(parser: argparse.ArgumentParser, flag: str) -> str | None:
    """What an error about an unknown flag says beyond argparse's own words."""
    said: list[str] = []
    real = argparse.ArgumentParser.error

    def error(self: argparse.ArgumentParser, message: str) -> None:
        said.append(message)
        raise SystemExit(2)

    argparse.ArgumentParser.error = error
    try:
        parser.parse_args(["serve", "m", flag, "x"])
    except SystemExit:
        pass
    finally:
        argparse.ArgumentParser.error = real
    return said[0].removeprefix(f"unrecognized arguments: {flag} x") or None


def described(action: argparse.Action, parser: argparse.ArgumentParser, classes: dict[str, Any]) -> dict[str, Any]:
    """One entry of `actions`."""
    registered = [name for name, owner in parser._option_string_actions.items() if owner is action]
    entry: dict[str, Any] = {"dest": action.dest, "options": list(action.option_strings)}
    if registered != entry["options"]:
        entry["registered"] = registered
    entry["action"] = action_kind(action)
    if entry["action"] == "switch":
        negative = getattr(action, "negative_option_strings", None)
        if negative is None:
            negative = {name for name in registered if name.startswith("--no-")}
        entry["negative"] = sorted(negative)
    if action.nargs not in (None, 0):
        entry["nargs"] = action.nargs
    if action.const is not None and entry["action"] != "store_true":
        entry["const"] = action.const
    if entry["action"] not in ("switch", "store_true"):
        entry["type"] = type_of(action.type, classes)
    if action.choices is not None:
        entry["choices"] = list(action.choices)
    entry |= default_of(action.default, classes)
    if action.required and action.option_strings:
        entry["required"] = True
    if action in parser._deprecated:
        entry["deprecated"] = True
    [entry["group"]] = [group.title for group in parser._action_groups if action in group._group_actions]
    return entry


def action_kind(action: argparse.Action) -> str:
    """store, store_true, append, switch (--x / --no-x) or lora_modules."""
    if isinstance(action, argparse.BooleanOptionalAction):
        return "switch"
    name = type(action).__name__
    # The deprecated one stores and warns.
    known = {
        "_StoreAction": "store",
        "DeprecatedLogConfigFileAction": "store",
        "_StoreTrueAction": "store_true",
        "_AppendAction": "append",
        "LoRAParserAction": "lora_modules",
    }
    if name not in known:
        raise SystemExit(f"{action.dest}: unknown action {name}")
    return known[name]


def type_of(function: Any, classes: dict[str, Any]) -> Any:
    """What turns the word into a value: a name, or an object that wraps one."""
    if function is None:
        return None
    if function is json.loads:
        return "json"
    name = getattr(function, "__name__", "")
    if name in ("_optional_type", "_parse_type"):
        [cell] = function.__closure__
        wrapped = type_of(cell.cell_contents, classes)
        return {"optional" if name == "_optional_type" else "checked": wrapped}
    if name == "parse_dataclass":
        return {"dataclass": class_of(function.__defaults__[0], classes)}
    if name == "parse_reasoning_parser":
        return "none_is_empty"
    if name == "<lambda>":
        source = inspect.getsource(function)
        found = [meaning for text, meaning in LAMBDAS.items() if text in source]
        if len(found) == 1:
            return found[0]
    if name in NAMED_TYPES:
        return name
    raise SystemExit(f"unknown type {function!r}")


def default_of(value: Any, classes: dict[str, Any]) -> dict[str, Any]:
    """`default` as JSON, or `default_object` for what JSON has no word for."""
    if value is argparse.SUPPRESS:
        return {"default_object": {"suppressed": True}}
    if isinstance(value, enum.Enum):
        same = bool(value == value.value)
        return {"default_object": {"enum": repr(value), "value": value.value, "equals_its_value": same}}
    if isinstance(value, set):
        return {"default_object": {"set": sorted(value)}}
    if dataclasses.is_dataclass(value):
        return {"default_object": {"dataclass": class_of(type(value), classes)}}
    if json.loads(json.dumps(value)) != value:
        raise SystemExit(f"unknown default {value!r}")
    return {"default": value}


def class_of(cls: type, classes: dict[str, Any]) -> str:
    """Name of a configuration class; its fields go into `classes`."""
    if cls.__name__ in classes:
        return cls.__name__
    entry: dict[str, Any] = {}
    classes[cls.__name__] = entry
    decorators = getattr(cls, "__pydantic_decorators__", None)
    checks = sorted([*decorators.field_validators, *decorators.model_validators]) if decorators else []
    checks += [name for name in ("__post_init__", "__repr__") if written_by_hand(cls, name)]
    entry["code"] = checks
    instance = instance_of(cls)
    if "__repr__" in checks and instance is not None:
        entry["shown"] = list(ast.literal_eval(re.sub(r"<\w+\.\w+: [^>]*>", "0", repr(instance))))
    entry["fields"] = [
        {"name": name, "type": annotation_of(field.annotation, field.metadata, classes)}
        | ({"required": True} if field.is_required() else default_of_field(field, classes))
        | ({"init": False} if field.init is False else {})
        | ({"repr": False} if field.repr is False else {})
        | settled(instance, name, field)
        for name, field in cls.__pydantic_fields__.items()
    ]
    return cls.__name__


def instance_of(cls: type) -> Any:
    """An instance of nothing but defaults; None for a class that needs values."""
    try:
        return cls()
    except (TypeError, ValueError):
        return None


def settled(instance: Any, name: str, field: Any) -> dict[str, Any]:
    """`settles_as`: what a default has become once the class's own code has run."""
    if instance is None or field.is_required():
        return {}
    before = field.default_factory() if field.default_factory is not None else field.default
    after = getattr(instance, name, before)
    if after == before or dataclasses.is_dataclass(after):
        return {}
    if isinstance(after, str) and UUID.fullmatch(after):
        return {"settles_as": {"uuid": 4}}
    return {"settles_as": after if json.loads(json.dumps(after, default=repr)) == after else repr(after)}


def written_by_hand(cls: type, name: str) -> bool:
    """Whether the class has this method from its author, not from ``dataclass``."""
    code = getattr(inspect.unwrap(cls.__dict__.get(name, cls)), "__code__", None)
    return code is not None and code.co_filename == inspect.getfile(cls)


def default_of_field(field: Any, classes: dict[str, Any]) -> dict[str, Any]:
    value = field.default_factory() if field.default_factory is not None else field.default
    try:
        return default_of(value, classes)
    except (SystemExit, TypeError):
        return {"default_object": {"repr": repr(value)}}


def annotation_of(annotation: Any, metadata: list[Any], classes: dict[str, Any]) -> Any:
    """A field's type: a name or an object; `any` for what JSON cannot give anyway."""
    limits = {
        name: getattr(item, name) for item in metadata for name in LIMITS if getattr(item, name, None) is not None
    }
    inner = plain_annotation(annotation, classes)
    return {"limited": inner, **limits} if limits else inner


def plain_annotation(annotation: Any, classes: dict[str, Any]) -> Any:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return annotation_of(arguments[0], list(arguments[1:]), classes)
    if origin in (typing.Union, types.UnionType):
        return {"union": [plain_annotation(item, classes) for item in arguments]}
    if origin is typing.Literal:
        return {"literal": list(arguments)}
    if origin in (list, set, dict):
        return {origin.__name__: [plain_annotation(item, classes) for item in arguments]}
    if origin is tuple:
        return {"tuple": ["..." if item is Ellipsis else plain_annotation(item, classes) for item in arguments]}
    return class_annotation(annotation, classes)


def class_annotation(annotation: Any, classes: dict[str, Any]) -> Any:
    if annotation is type(None):
        return None
    if annotation in (str, int, float, bool, list, dict, set, tuple):
        return annotation.__name__
    if annotation is Path:
        return "path"
    if isinstance(annotation, type) and hasattr(annotation, "__pydantic_fields__"):
        return {"dataclass": class_of(annotation, classes)}
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return {"enum": annotation.__name__, "members": {item.name: jsonable(item.value) for item in annotation}}
    return "any"


def jsonable(value: Any) -> Any:
    return value if isinstance(value, (str, int, float, bool)) else repr(value)


def text_of(data: dict[str, Any]) -> str:
    """JSON with one action and one dataclass field a line, so that releases can be compared by ``diff``."""
    parts = []
    for key, value in data.items():
        if key == "actions":
            lines = ",\n".join("  " + json.dumps(entry, ensure_ascii=False) for entry in value)
            parts.append(f' "actions": [\n{lines}\n ]')
        elif key == "dataclasses":
            parts.append(' "dataclasses": {\n' + ",\n".join(class_text(*item) for item in value.items()) + "\n }")
        else:
            parts.append(f" {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def class_text(name: str, entry: dict[str, Any]) -> str:
    lines = ",\n".join("    " + json.dumps(field, ensure_ascii=False) for field in entry["fields"])
    head = json.dumps({key: value for key, value in entry.items() if key != "fields"}).removesuffix("}")
    return f'  {json.dumps(name)}: {head}, "fields": [\n{lines}\n  ]}}'


def main() -> None:
    own = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    own.add_argument("--platform", choices=("cuda", "cpu"), required=True)
    kind = own.parse_args().platform
    sys.stdout.write(text_of(dumped(vllm_parser(kind), kind)))


if __name__ == "__main__":
    main()
