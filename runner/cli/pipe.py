"""Output that may not be written: its reader went away (`run SPEC | head -1`), or the device is full."""

import contextlib
import os
import sys


def silence_stdout() -> None:
    """Send what is still to be printed nowhere, so that the interpreter's last flush does not fail."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say(*lines: str) -> None:
    """Print lines; the exit code of a run must not depend on whether it can be read."""
    try:
        print("\n".join(lines), flush=True)
    except (OSError, ValueError):
        silence_stdout()
