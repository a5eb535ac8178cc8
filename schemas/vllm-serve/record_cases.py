"""Runs command lines through vLLM's own parser and writes down what became of each, as JSON on stdout.

    python record_cases.py --platform cuda > vllm-serve-cases-0.26.0.json

Runs where vLLM is installed, beside dump_parser.py. Every flag gets a value that its type takes and one that it
should not; odd-lines.txt holds the forms that need a look of their own, one command line a line, in shell quoting.
The outcome is whatever the real parser did.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import io
import json
import logging
import os
import platform
import re
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

import dump_parser

TAKEN = {
    "str": "text",
    "int": "7",
    "float": "0.5",
    "json": '{"a": 1}',
    "human_readable_int": "4k",
    "human_readable_int_or_auto": "auto",
    "union_dict_and_str": '{"a": 1}',
    "lower_with_underscores": "text",
    "comma_separated_devices": "0, 1,x",
    "none_is_empty": "NONE",
    None: "text",
}
REFUSED = {
    "int": "1.5",
    "float": "much",
    "json": "{",
    "human_readable_int": "4 k",
    "human_readable_int_or_auto": "some",
    "union_dict_and_str": "{a}",
}
FILES = {
    "plain.yaml": "model: from-file\nport: 12323\nmax-num-seqs: 4\nenforce-eager: true\nenable-prefix-caching: false\n"
    "served-model-name: [a, b]\n",
    "nested.yml": "speculative-config:\n  method: ngram\n  num_speculative_tokens: 3\nmax_num_batched_tokens: 4k\n"
    "disable-log-stats: false\nseed: 010\ndtype: half\n",
    "float.yaml": "seed: 1e3\n",
    "no-model.yaml": "seed: 3\n",
    "plain.json": "{}",
}


def value_for(kind: Any, refused: bool) -> str | None:
    """A word for a type; None when nothing is known that it refuses."""
    if isinstance(kind, dict):
        [(wrapper, inner)] = kind.items()
        if wrapper == "dataclass":
            return "{" if refused else "{}"
        return value_for(inner, refused)
    return REFUSED.get(kind) if refused else TAKEN[kind]


def lines_for(entry: dict[str, Any]) -> list[tuple[str, ...]]:
    """Command lines for one flag: taken, refused, in another spelling."""
    [*names] = entry["options"]
    if not names:
        return []
    flag = next(name for name in names if name.startswith("--"))
    if entry["action"] in ("switch", "store_true"):
        forms = [(name,) for name in entry.get("registered", names)]
        return [("m", *form) for form in (*forms, (f"{flag}=true",))]
    choices = entry.get("choices")
    # A choice `None` is no word that can be given: the word None is converted before the choices are looked at.
    words = [choice for choice in choices or () if choice not in (None, "None")]
    taken = str(words[-1]) if words else value_for(entry["type"], False)
    refused = "no-such-choice" if choices else value_for(entry["type"], True)
    spelt = "--" + flag[2:].replace("-", "_")
    found = [("m", flag, str(taken)), ("m", f"{spelt}={taken}"), ("m", flag)]
    if refused is not None:
        found.append(("m", flag, refused))
    return found if flag != "--config" else []


def unstable(text: str) -> str:
    """Addresses, random names and the place of the installation differ between runs."""
    text = re.sub(r" at 0x[0-9a-f]+", " at 0x0", text)
    text = dump_parser.UUID.sub("00000000-0000-0000-0000-000000000000", text)
    return re.sub(r"\S*/vllm/transformers_utils/", "VLLM/transformers_utils/", text)


class Listening(logging.Handler):
    """Collects what vLLM's argument parser logs."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text, mark, keys = record.getMessage().partition("Found duplicate keys ")
        # vLLM prints a set here, in an order that differs between processes.
        self.said.append(text + mark + ", ".join(sorted(keys.split(", "))))


def outcome(parser: argparse.ArgumentParser, line: tuple[str, ...], listening: Listening) -> dict[str, Any]:
    """What the parser, its checks and the log line of non-default arguments make of a command line."""
    from vllm import logger
    from vllm.entrypoints.cli.serve import ServeSubcommand

    listening.said.clear()
    getattr(logger, "_print_warning_once", logger).cache_clear()
    out, err = io.StringIO(), io.StringIO()
    result: dict[str, Any] = {}
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            arguments = parser.parse_args(["serve", *line])
            ServeSubcommand().validate(arguments)
        if arguments.model_tag is not None:
            arguments.model = arguments.model_tag
        result["non_default"] = unstable(shown(arguments))
    except SystemExit as ended:
        result["exit"] = ended.code
        if ended.code:
            usage, mark, message = unstable(err.getvalue()).partition("vllm serve: error: ")
            if not mark:
                usage, mark, message = unstable(err.getvalue()).partition("vllm: error: ")
            result["error"] = (mark + message).rstrip("\n")
            result["usage"] = "serve" if "vllm serve" in usage else "vllm"
        else:
            result["printed"] = out.getvalue()
    except Exception as error:  # whatever vLLM raises is the outcome
        result["raised"] = unstable(f"{type(error).__name__}: {error}")
    if listening.said:
        result["warned"] = list(listening.said)
    return result


def shown(arguments: argparse.Namespace) -> str:
    """The dictionary that vLLM's own function logs."""
    log = dump_parser.log_non_default_args()
    said: list[Any] = []
    module = sys.modules[log.__module__]
    real = module.logger
    module.logger = argparse.Namespace(info=lambda _, value: said.append(value))
    try:
        log(arguments)
    finally:
        module.logger = real
    return str(said[0])


def main() -> None:
    own = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    own.add_argument("--platform", choices=("cuda", "cpu"), required=True)
    kind = own.parse_args().platform
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # vLLM logs to standard output
    parser = dump_parser.vllm_parser(kind)
    listening = Listening()
    logging.getLogger("vllm").addHandler(listening)
    logging.getLogger("vllm").setLevel(logging.WARNING)
    classes: dict[str, Any] = {}
    serve = dump_parser.serve_parser(parser)
    entries = [
        dump_parser.described(action, serve, classes)
        for action in serve._actions
        if not isinstance(action, argparse._HelpAction)
    ]
    lines = [line for entry in entries for line in lines_for(entry)]
    odd = [
        tuple(shlex.split(line)) for line in (Path(__file__).parent / "odd-lines.txt").read_text("utf-8").splitlines()
    ]
    cases = []
    os.chdir(tempfile.mkdtemp())
    for name, text in FILES.items():
        Path(name).write_text(text, "utf-8")
    for line in dict.fromkeys([*odd, *lines]):
        cases.append({"argv": list(line), **outcome(parser, line, listening)})
    head = {
        "version": importlib.metadata.version("vllm"),
        "platform": kind,
        "python": platform.python_version(),
        "pydantic": importlib.metadata.version("pydantic"),
        "files": FILES,
    }
    text = ",\n".join("  " + json.dumps(case, ensure_ascii=False) for case in cases)
    start = json.dumps(head, ensure_ascii=False, indent=1).removesuffix("\n}")
    output.write(f'{start},\n "cases": [\n{text}\n ]\n}}\n')


if __name__ == "__main__":
    main()
