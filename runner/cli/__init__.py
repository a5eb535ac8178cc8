"""The command `run`. Each command is a module of this package, imported only when it is asked for."""

import sys
import traceback
from collections.abc import Sequence

from runner.cli.dispatch import Usage, dispatch

INTERNAL_ERROR = 70


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code (the table is in `runner.checks.outcome` and in the README)."""
    try:
        return dispatch(list(sys.argv[1:] if argv is None else argv))
    except Usage as error:
        print(f"run: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output went away; there is nobody left to tell.
        sys.stderr.close()
        return 141
    except Exception:
        traceback.print_exc()
        print("run: internal error; please report it with the lines above", file=sys.stderr)
        return INTERNAL_ERROR
