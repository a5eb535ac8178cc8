"""Output that may not be written: its reader went away (`run SPEC | head -1`), or the device is full."""

import contextlib
import os
import sys
from typing import TextIO


def silence(stream: TextIO) -> None:
    """Send what is still to be printed nowhere, so that the interpreter's last flush does not fail."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def say(*lines: str) -> None:
    """Print to standard output; the exit code of a run must not depend on whether it can be read."""
    _print(sys.stdout, lines)


def tell(*lines: str) -> None:
    """Print to standard error, with the same care."""
    _print(sys.stderr, lines)


def _print(stream: TextIO, lines: tuple[str, ...]) -> None:
    try:
        print("\n".join(lines), file=stream, flush=True)
    except (OSError, ValueError):
        silence(stream)
