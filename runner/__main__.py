"""`python -m runner` is the console script `run`."""

import sys

from runner.cli import main

if __name__ == "__main__":
    sys.exit(main())
