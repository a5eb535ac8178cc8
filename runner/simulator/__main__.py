"""``python -m runner.simulator serve MODEL [flags]``; also ``nvidia-smi ...`` and ``faults``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def main(argv: Sequence[str]) -> int:
    """Run a command; its exit code."""
    if argv[:1] == ["nvidia-smi"]:
        from runner.simulator import nvidia_smi  # noqa: PLC0415 -- a sampler should not wait for the HTTP server's imports

        return nvidia_smi.main(argv[1:], os.environ)
    if argv == ["faults"]:
        from runner.simulator.fault_page import page  # noqa: PLC0415 -- as above

        sys.stdout.write(page())
        return 0
    from runner.simulator import serve  # noqa: PLC0415 -- as above

    return serve.main(argv, os.environ)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
