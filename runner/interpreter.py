"""Processes of our own that are Python too: how each is started."""

import sys
from pathlib import Path

_HOME = Path(__file__).parents[1]
_START = (
    "import importlib, sys; sys.path.append(sys.argv.pop(1)); "
    "sys.exit(importlib.import_module(sys.argv.pop(1)).main(sys.argv[1:]))"
)


def python(module: str, *words: str) -> list[str]:
    """The command that calls `main(words)` of a module of ours.

    The package is found where we found it, and no module that lies about in the working directory is taken for one of
    Python's own, as `-m` would.
    """
    return [sys.executable, "-P", "-c", _START, str(_HOME), module, *words]
