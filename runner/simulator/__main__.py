"""``python -m runner.simulator serve MODEL [flags]``."""

from __future__ import annotations

import os
import sys

from runner.simulator.serve import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
