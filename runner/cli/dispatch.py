"""Which command is meant: the first word, if it is a command; else a spec to run."""

import importlib
from collections.abc import Mapping
from pathlib import Path

from runner import __version__
from runner.spec.nearest import nearest

COMMANDS: Mapping[str, tuple[str, str]] = {
    "validate": ("runner.cli.validate", "check specs and say everything that is wrong with them"),
    "plan": ("runner.cli.plan", "show what a spec would do, without doing it"),
    "report": ("runner.cli.report", "make a run's report again, from its record alone"),
    "explain": ("runner.cli.explain", "say what a table shows and by which formula, or what an invariant judges"),
    "read": ("runner.cli.read", "say what the readers find in recordings of a real engine"),
    "schema": ("runner.cli.schema", "print the JSON schema of a spec, for editors"),
}
RUN_SPEC = "runner.cli.run_spec"

_HELP = """usage: run SPEC [--target NAME] [--site FILE] [--yes]
       run COMMAND ...

Run an experiment of LLM serving, written in YAML, and report what it shows.
Without a target named it runs on the embedded engine, and every table says "simulated".

commands:
{commands}

`run SPEC --help` and `run COMMAND --help` say more. Exit codes: see the README.
"""


class Usage(Exception):
    """A command line that means nothing; the text says what would."""


def dispatch(argv: list[str]) -> int:
    """Run the command that `argv` names. Raises Usage."""
    if not argv or argv[0] in ("-h", "--help", "help"):
        lines = "\n".join(f"  {name:<10}{summary}" for name, (_, summary) in COMMANDS.items())
        print(_HELP.format(commands=lines), end="")
        return 0 if argv else 2
    first = argv[0]
    if first == "--version":
        print(__version__)
        return 0
    if first in COMMANDS:
        return _command(COMMANDS[first][0], argv[1:])
    if first.startswith("-") or first.endswith((".yaml", ".yml")) or _exists(first):
        return _command(RUN_SPEC, argv)
    found = nearest(first, COMMANDS)
    meant = f'did you mean "run {found}"?' if found else f"commands: {', '.join(COMMANDS)}."
    raise Usage(f'"{first}" is neither a command nor a file; {meant} A spec is named by its path: run specs/NAME.yaml')


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except OSError:
        return False  # too long for a name, or in a folder that cannot be looked into


def _command(module: str, argv: list[str]) -> int:
    code: int = importlib.import_module(module).main(argv)
    return code
