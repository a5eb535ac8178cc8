"""The command `run`. Each command is a module of this package, imported only when it is asked for."""

import io
import sys
import traceback
from collections.abc import Sequence

from runner.cli.dispatch import Usage, dispatch
from runner.cli.pipe import silence, tell
from runner.exit_code import ExitCode


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code (the table is in `runner.exit_code` and in the README)."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without UTF-8 is no reason to fail
    try:
        return dispatch(list(sys.argv[1:] if argv is None else argv))
    except Usage as error:
        tell(f"run: {error}")
        return ExitCode.INVALID
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # What printed had done its work; whoever read it has seen enough.
        silence(sys.stdout)
        return 0
    except Exception:
        tell(traceback.format_exc(), "run: internal error; please report it with the lines above")
        return ExitCode.INTERNAL
