"""The lane of the real engine: where there is none it is skipped aloud, and in CI that is a failure."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("ci", "code", "words"), [("", 0, "SKIPPED"), ("true", 1, "ERROR")])
def test_a_real_engine_that_is_missing(tmp_path: Path, ci: str, code: int, words: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests/real_engine/test_wrong_engines.py"],
        cwd=ROOT,
        env={**os.environ, "VLLM_CPU_HOME": str(tmp_path), "CI": ci},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == code, ended.stdout
    assert f"there is no real engine in {tmp_path}; install it with tests/real_engine/install" in ended.stdout
    assert any(line.startswith(words) for line in ended.stdout.splitlines())
    assert "passed" not in ended.stdout.splitlines()[-1]
