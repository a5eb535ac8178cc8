"""Exit codes through the command line, with the words that the user sees."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import (
    Finished,
    brief,
    command,
    environment,
    fault,
    gone,
    processes_below,
    run,
    run_experiment,
    start,
    wait_for_event,
    write_experiment,
)

SCALE = 0.02
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


def test_0_all_held(small: Finished) -> None:
    assert small.code == 0, small.stdout
    assert "exit 0: all invariants hold (simulated)" in small.stdout


def test_1_an_invariant_failed(tmp_path: Path) -> None:
    ended = run_experiment(tmp_path, brief, lambda s: s["invariants"].update({"speedup": {"min": 50}}), scale=SCALE)
    assert ended.code == 1
    assert "fail: speedup: on C=2: throughput ratio" in ended.stdout
    assert "exit 1: an invariant failed (simulated)" in ended.stdout


def test_2_the_spec_is_invalid(tmp_path: Path) -> None:
    ended = run_experiment(tmp_path, lambda s: s.update({"replicate": 2}))
    assert ended.code == 2
    assert re.search(
        r'^spec\.yaml:1:\d+: replicate: unknown key "replicate"; did you mean "replicates"\?$', ended.stderr, re.M
    )
    assert ended.stdout == "" and not (tmp_path / "runs").exists()


def test_2_the_command_line_is_invalid(tmp_path: Path) -> None:
    ended = run(tmp_path, "specs/nothing-here.yaml")
    assert ended.code == 2 and "specs/nothing-here.yaml:1:1: cannot be read: No such file" in ended.stderr
    ended = run(tmp_path, "vaildate")
    assert ended.code == 2 and 'did you mean "run validate"?' in ended.stderr
    ended = run(tmp_path, write_experiment(tmp_path).name, "--target", "kubernets")
    assert ended.code == 2 and '--target names the target "kubernets"' in ended.stderr


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (fault({"kind": "crash-at-start", "with": "cuda-oom"}), "CUDA out of memory"),
        (lambda s: s["conditions"]["on"]["args"].pop("spec-method"), "num_speculative_tokens was provided but without"),
        (
            lambda s: s["conditions"]["on"]["args"].update({"never-heard-of": 1}),
            "unrecognized arguments: --never-heard-of",
        ),
    ],
    ids=["cuda-oom", "only-spec-tokens", "unknown-flag"],
)
def test_3_the_engine_did_not_start_in_its_own_words(tmp_path: Path, edit: Any, words: str) -> None:
    ended = run_experiment(tmp_path, brief, edit, scale=SCALE)
    assert ended.code == 3, ended.stdout
    assert re.search(r"on: the engine ended with exit code \d while starting", ended.stdout)
    assert words in ended.stdout and words in ended.report.replace("\\", "")
    assert "exit 3: an engine did not start (simulated)" in ended.stdout


def test_3_an_engine_that_never_answers(tmp_path: Path) -> None:
    def impatient(spec: dict[str, Any]) -> None:
        spec["limits"] = {"startup-seconds": 2}

    ended = run_experiment(tmp_path, brief, impatient, fault({"kind": "slow-start", "seconds": 60}), scale=SCALE)
    assert ended.code == 3 and "no completion within 2 s of the start" in ended.stdout


def test_4_the_engines_version_is_another(tmp_path: Path) -> None:
    ended = run_experiment(tmp_path, lambda s: s["engine"].update(version="0.27.0"), scale=SCALE)
    assert ended.code == 4
    assert "off: not in force: engine version: wanted 0.27.0, found 0.26.0" in ended.stdout


@pytest.mark.parametrize("cut", ["warm-up", "measured"])
def test_5_a_round_that_its_limit_cut_is_incomplete(tmp_path: Path, cut: str) -> None:
    """All that fit into C are sent at once, and what comes after is not sent any more; each request takes longer than
    the limit. A warm-up goes one by one."""

    def edit(spec: dict[str, Any]) -> None:
        spec["limits"] = {"round-seconds": 0.005}
        warm = {"requests": 3 if cut == "warm-up" else 1, "counted": True}
        spec["phases"]["load"].update({"concurrency": [8], "requests": 8 if cut == "warm-up" else 24, "warm-up": warm})

    ended = run_experiment(tmp_path, brief, edit, scale=SCALE)
    assert ended.code == 5, ended.stdout
    assert "exit 5: the measurement is incomplete (simulated)" in ended.stdout
    for one in ended.record.all_rounds():
        assert one.finished is not None and not one.finished.complete
        assert (len(one.of_role("warm-up")), len(one.of_role("measured"))) == (1, 8)


def test_5_the_measurement_is_incomplete(tmp_path: Path) -> None:
    ended = run_experiment(tmp_path, brief, fault({"kind": "http-error", "request": 8, "status": 429}), scale=SCALE)
    assert ended.code == 5
    assert "exit 5: the measurement is incomplete (simulated)" in ended.stdout


def test_6_an_invariant_is_inconclusive_unless_the_spec_allows_that(tmp_path: Path) -> None:
    missing = fault({"kind": "missing-series", "name": "process_start_time_seconds"})
    assert run_experiment(tmp_path, brief, missing, scale=SCALE).code == 6

    def allowed(spec: dict[str, Any]) -> None:
        spec["invariants"]["one-engine-process"] = {"allow-inconclusive": True}

    assert run_experiment(tmp_path, brief, missing, allowed, scale=SCALE).code == 0


def test_8_refused_before_anything_is_changed(tmp_path: Path) -> None:
    spec = write_experiment(tmp_path)
    (tmp_path / "site.yaml").write_text("runs: in-the-way\n")
    (tmp_path / "in-the-way").write_text("a file where the runs should be")
    ended = run(tmp_path, spec.name)
    assert ended.code == 8
    assert "nothing was started" in ended.stderr and ended.stdout == ""


def test_70_an_internal_error_keeps_what_was_measured(tmp_path: Path) -> None:
    spec = write_experiment(tmp_path, brief, scale=SCALE)
    broken = (
        "import sys; import runner.execution.rounds as rounds; from runner.cli import main\n"
        "def fail(*_): raise RuntimeError('a bug of ours')\n"
        "rounds.request_done = fail\n"
        f"sys.exit(main([{spec.name!r}]))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", broken], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert ended.returncode == 70, ended.stdout + ended.stderr
    assert "RuntimeError: a bug of ours" in ended.stderr
    assert "exit 70: an internal error of the runner" in ended.stdout
    assert (tmp_path / ended.stdout.splitlines()[-1] / "report.md").exists()


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize(
    "moment", [("launch-started", 1), ("evidence-read", 1), ("round-started", 2), ("round-started", 6)]
)
def test_130_interrupted_stops_at_once_and_reports_what_is_complete(
    tmp_path: Path, number: signal.Signals, moment: tuple[str, int]
) -> None:
    process = start(tmp_path, write_experiment(tmp_path, scale=0.1))
    directory = wait_for_event(tmp_path, moment[0], count=moment[1])
    engines = processes_below(process.pid)
    process.send_signal(number)
    began = time.monotonic()
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert time.monotonic() - began < 30  # not the rest of the experiment, nor a request's time limit
    assert f"{number.name}: sending nothing more" in stderr
    assert "exit 130: interrupted (simulated)" in stdout
    ended = Finished(process.returncode, stdout, stderr, tmp_path)
    assert ended.directory.resolve() == directory.resolve()
    complete = sum(one.finished is not None and one.finished.complete for one in ended.record.all_rounds())
    assert complete == (moment[1] - 1 if moment[0] == "round-started" else 0)
    measured = [one for one in ended.result["cells"] if isinstance(one["throughput"], float)]
    assert len(measured) == complete // 2
    assert gone(engines)


def test_nothing_outlives_a_killed_runner(tmp_path: Path) -> None:
    process = start(tmp_path, write_experiment(tmp_path, scale=0.1))
    directory = wait_for_event(tmp_path, "round-started")
    engines = processes_below(process.pid)
    process.kill()
    process.communicate()
    assert len(engines) > 1 and gone(engines)
    # What was recorded can still be reported, and says that it is not whole.
    again = subprocess.run(command("report", str(directory)), env=environment(), capture_output=True, check=False)
    assert again.returncode == 0
    assert json.loads((directory / "result.json").read_text())["outcome"] == "incomplete"


def test_the_exit_code_does_not_depend_on_who_reads(tmp_path: Path) -> None:
    spec = write_experiment(tmp_path, brief, lambda s: s["invariants"].update({"speedup": {"min": 50}}), scale=SCALE)
    process = start(tmp_path, spec)
    assert process.stdout is not None
    process.stdout.close()
    stderr = process.stderr.read() if process.stderr else ""
    assert process.wait() == 1, stderr
    assert "Broken" not in stderr
    if process.stderr:
        process.stderr.close()


def test_a_terminal_without_utf_8_is_no_error(tmp_path: Path) -> None:
    spec = write_experiment(tmp_path, lambda s: s.update({"title": "한국어"}))
    env = {**environment(), "PYTHONIOENCODING": "ascii"}
    ended = subprocess.run(command("plan", spec.name), cwd=tmp_path, env=env, capture_output=True, check=False)
    assert ended.returncode == 0 and b"\\ud55c" in ended.stdout


def test_a_kubeconfig_and_no_target_say_how_to_measure_the_cluster(tmp_path: Path) -> None:
    spec = write_experiment(tmp_path, lambda s: s["phases"]["load"].update({"requests": 2, "concurrency": [1]}))
    (tmp_path / "config").write_text("apiVersion: v1")
    env = {**environment(), "KUBECONFIG": str(tmp_path / "config")}
    ended = subprocess.run(command(spec.name), cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert (
        f"there is a kubeconfig at {tmp_path / 'config'}, but no target was named: this run is simulated"
        in ended.stderr
    )
    assert "To measure the cluster: run spec.yaml --target kubernetes" in ended.stderr
    named = subprocess.run(
        command(spec.name, "--target", "embedded"), cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert "kubeconfig" not in named.stderr


def test_a_full_device_ends_no_run(tmp_path: Path) -> None:
    spec = write_experiment(tmp_path, brief, scale=SCALE)
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            command(spec.name), cwd=tmp_path, env=environment(), stdout=full, stderr=full, check=False
        )
    assert ended.returncode == 0
    [directory] = (tmp_path / "runs").iterdir()
    assert json.loads((directory / "result.json").read_text())["outcome"] == "held"


def test_the_callers_encoding_does_not_reach_the_engine(tmp_path: Path) -> None:
    spec = write_experiment(tmp_path, brief, scale=SCALE)
    env = {**environment(), "PYTHONIOENCODING": "ascii"}
    ended = subprocess.run(command(spec.name), cwd=tmp_path, env=env, capture_output=True, check=False)
    assert ended.returncode == 0, ended.stdout
