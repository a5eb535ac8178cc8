"""Real engines that do not do what the spec says, and real engines that die."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import vllm_cpu
from finished_run import Finished

pytestmark = pytest.mark.timeout(400)

LAUNCHER = """\
#!{python}
# vllm, but for {what}
import sys
{change}
from vllm.entrypoints.cli.main import main

if __name__ == "__main__":  # the engine's own processes import this file again
    sys.argv[0] = "vllm"
    sys.exit(main())
"""


def launcher(folder: Path, what: str, change: str) -> Path:
    """A program in vllm's place."""
    path = folder / "vllm-but"
    path.write_text(LAUNCHER.format(python=vllm_cpu.program("python"), what=what, change=change), encoding="utf-8")
    path.chmod(0o755)
    return path


def dropping(*options: str) -> str:
    return (
        f"for option in {options!r}:\n"
        "    if option in sys.argv:\n"
        "        at = sys.argv.index(option)\n"
        "        del sys.argv[at : at + 2]\n"
    )


SWALLOWING = """\
from vllm.engine.arg_utils import EngineArgs

EngineArgs.create_speculative_config = lambda self, *rest, **more: None
"""


def only_on(spec: dict[str, Any]) -> None:
    """One condition, one short round: what is asked here is decided before it."""
    spec["conditions"] = {"on": spec["conditions"]["on"]}
    spec["baseline"] = "on"
    spec["phases"] = {"load": {"concurrency": [4], "requests": 8}}
    spec["invariants"] = {}


def run_with(folder: Path, executable: Path) -> Finished:
    def use(spec: dict[str, Any]) -> None:
        spec["process"]["executable"] = str(executable)

    return vllm_cpu.run(folder, str(vllm_cpu.write_spec(folder, only_on, use)), "--target", "process")


def wanted_and_found(run: Finished) -> dict[str, list[str]]:
    """The table of the terminal: per argument wanted, parsed, configured, verdict."""
    rows = [re.split(r"\s{2,}", line) for line in run.stdout.splitlines()]
    return {row[0]: [*row[1:4], row[5]] for row in rows if len(row) == 7}


def test_both_flags_dropped(tmp_path: Path) -> None:
    run = run_with(tmp_path, launcher(tmp_path, "speculation", dropping("--spec-method", "--spec-tokens")))
    assert run.code == 4, run.stdout + run.stderr
    table = wanted_and_found(run)
    assert table["spec_method"] == ["'ngram'", "-", "None", "missing"]
    assert table["spec_tokens"] == ["5", "-", "None", "missing"]
    assert table["max_model_len"][3] == "in-force"
    assert list(run.record.all_rounds()) == []  # nothing was measured under a condition that is not there


def test_only_the_tokens_dropped(tmp_path: Path) -> None:
    run = run_with(tmp_path, launcher(tmp_path, "the number of tokens", dropping("--spec-tokens")))
    assert run.code == 3, run.stdout + run.stderr
    assert "num_speculative_tokens must be provided with" in run.stderr
    [engine] = run.record.engines
    assert engine.failed is not None and engine.failed.stage == "start"
    assert any("num_speculative_tokens must be provided with" in line for line in engine.failed.words)


def test_a_server_that_swallows_the_flags(tmp_path: Path) -> None:
    run = run_with(tmp_path, launcher(tmp_path, "speculation, which it takes and leaves", SWALLOWING))
    assert run.code == 4, run.stdout + run.stderr
    table = wanted_and_found(run)
    assert table["spec_method"] == ["'ngram'", "'ngram'", "None", "ignored"]
    assert table["spec_tokens"] == ["5", "5", "None", "ignored"]


def wait_for_round(folder: Path, run: subprocess.Popen[str], concurrency: int) -> None:
    """Until the journal says that this load round began."""
    while run.poll() is None:
        for journal in folder.glob("runs/*/journal.jsonl"):
            for line in journal.read_text("utf-8").splitlines():
                event = json.loads(line)
                if event["event"] == "round-started" and event["concurrency"] == concurrency:
                    return
        time.sleep(0.1)
    raise AssertionError(run.communicate())


@pytest.mark.parametrize("victim", ["vllm", "VLLM::EngineCor"])
def test_an_engine_killed_during_a_round(tmp_path: Path, victim: str) -> None:
    def long(spec: dict[str, Any]) -> None:
        spec["conditions"] = {"off": {}}
        spec["phases"] = {"load": {"concurrency": [1, 4, 8], "requests": 400, "rounds": 1}}
        spec["phases"]["load"]["concurrency"] = [4]
        spec["phases"] = {"sequential": {"concurrency": [1], "requests": 5}, **spec["phases"]}
        spec["invariants"] = {}
        spec["limits"]["idle-seconds"] = 20

    run = vllm_cpu.start(tmp_path, str(vllm_cpu.write_spec(tmp_path, long)), "--target", "process")
    wait_for_round(tmp_path, run, 4)
    time.sleep(1)
    [pid] = [pid for pid, name in vllm_cpu.engines().items() if name == victim]
    os.kill(pid, signal.SIGKILL)
    killed = time.monotonic()
    ended = vllm_cpu.finish(tmp_path, run, timeout=60)
    assert time.monotonic() - killed < 60  # not the minutes that 400 requests, or their time limits, would take
    assert ended.code == 5, ended.stdout + ended.stderr
    kept, cut = ended.record.all_rounds()
    assert [one.verdict for one in kept.of_role("measured")] == ["ok"] * 5
    verdicts = {one.verdict for one in cut.of_role("measured")}
    assert verdicts - {"ok"}, verdicts
    [engine] = ended.record.engines
    assert engine.failed is not None and engine.failed.stage == "run"
    assert "load-c4-r1" in engine.failed.reason
    assert re.search(r"off C=4", ended.report), "the report names the cell"
    incomplete = [cell for cell in ended.result["cells"] if cell["incomplete"]]
    assert [cell["concurrency"] for cell in incomplete] == [4]
