"""Processes of our own that are Python are of the package that starts them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from runner.interpreter import python


def test_another_package_of_our_name_is_not_taken(tmp_path: Path) -> None:
    other = tmp_path / "runner"
    (other / "simulator").mkdir(parents=True)
    for place in (other, other / "simulator"):
        (place / "__init__.py").write_text("raise SystemExit('another runner')\n")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    words = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    ran = subprocess.run(
        python("runner.simulator.__main__", *words), env=env, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip()
