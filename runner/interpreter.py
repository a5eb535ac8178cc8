"""Processes of our own that are Python too: how each is started, and, as a script, what it starts with."""

import importlib
import sys
from pathlib import Path


def python(module: str, *words: str) -> list[str]:
    """The command that calls `main(words)` of a module of ours.

    The package is the one that we are of, whatever other is installed, and no module that lies about in the working
    directory is taken for one of Python's own, as `-m` would.
    """
    return [sys.executable, "-P", __file__, module, *words]


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    importlib.import_module("runner")
    del sys.path[0]  # what else lies there is nobody's to import
    sys.exit(importlib.import_module(sys.argv[1]).main(sys.argv[2:]))
