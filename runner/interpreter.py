"""Processes of our own that are Python too: how each is started."""

import sys
from pathlib import Path

_HOME = Path(__file__).parents[1]
_START = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); import runner; del sys.path[0]; import importlib; "
    "sys.exit(importlib.import_module(sys.argv.pop(1)).main(sys.argv[1:]))"
)


def python(module: str, *words: str) -> list[str]:
    """The command that calls `main(words)` of a module of ours.

    The package is the one that we are of, whatever other is installed, and no module that lies about in the working
    directory is taken for one of Python's own, as `-m` would.
    """
    return [sys.executable, "-P", "-c", _START, str(_HOME), module, *words]
