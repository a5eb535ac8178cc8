"""The cluster's lane comes last; where there is no cluster it is skipped aloud, and in CI that is a failure."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KIT_TESTS = "tests/cluster/test_kit.py"


def run_pytest(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != "RUNNER_TEST_KUBECONFIG"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words],
        cwd=ROOT,
        env={**kept, **more},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("ci", "code", "word"), [("", 0, "SKIPPED"), ("true", 1, "ERROR")])
def test_a_cluster_that_is_missing(tmp_path: Path, ci: str, code: int, word: str) -> None:
    test = f"{KIT_TESTS}::test_the_cluster_is_ready_and_has_one_gpu"
    ended = run_pytest(test, TC_CACHE=str(tmp_path), CI=ci)
    assert ended.returncode == code, ended.stdout
    [said] = [line for line in ended.stdout.splitlines() if line.startswith(word)]
    assert "there is no cluster: " in said and "tests/cluster/kit/build" in said
    assert "$RUNNER_TEST_KUBECONFIG" in said
    assert "passed" not in ended.stdout.splitlines()[-1]


def test_the_lanes_that_wait_for_what_ci_builds_come_last() -> None:
    ended = run_pytest("--collect-only", "-q", "tests/cluster", "tests/real_engine", "tests/house")
    assert ended.returncode == 0, ended.stdout
    lanes = [line.split("/")[1] for line in ended.stdout.splitlines() if line.startswith("tests/")]
    assert list(dict.fromkeys(lanes)) == ["house", "real_engine", "cluster"]
    assert lanes == sorted(lanes, key=["house", "real_engine", "cluster"].index)


def test_ci_builds_the_cluster_before_it_installs_anything() -> None:
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert ci.index("tests/cluster/kit/build") < ci.index("pip install") < ci.index("-m pytest")
