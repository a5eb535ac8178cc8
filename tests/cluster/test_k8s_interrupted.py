"""Ctrl-C, SIGTERM and a lost session in each phase of a run over a user's Deployment: it is put back, and where nobody
waits for its end, the run says so."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cluster import Cluster, Namespace, Object, fresh_namespace
from cluster_restore import (
    SECRET,
    alone,
    assert_as_it_was,
    assert_discreet,
    assert_untouched,
    baseline_of,
    journal,
    rounds_of,
    wait_for,
)
from cluster_runs import baseline_there, beside, patched, write_site, write_spec

Wait = Callable[[Namespace, Path, "subprocess.Popen[str]"], None]


@pytest.fixture(scope="module")
def user(
    cluster: Cluster, engine_image: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Namespace, Object]]:
    """A namespace with a user's Deployment that all runs of this module take over, one after the other."""
    with fresh_namespace(cluster, f"interrupted-{os.getpid()}", tmp_path_factory.mktemp("kubeconfigs")) as namespace:
        yield namespace, baseline_there(namespace, engine_image, env={"HF_TOKEN": SECRET})


def event(name: str) -> Wait:
    """Until the journal has it."""
    return lambda _, folder, process: wait_for(folder, name, process)


def own_pod(namespace: Namespace, folder: Path, process: subprocess.Popen[str]) -> None:
    """Until the container of a condition runs, which is not Ready yet."""
    wait_for(folder, "launch-started", process)

    def running() -> bool:
        return any(
            "llm-experiment-runner/launch" in pod["metadata"].get("annotations", {})
            and pod["status"].get("phase") == "Running"
            for pod in namespace.list("pods")
        )

    namespace.wait("the condition's Pod runs", running)


@pytest.mark.parametrize(
    ("moment", "number", "take_over"),
    [
        pytest.param(event("baseline-saved"), signal.SIGTERM, patched(), id="saved"),
        pytest.param(event("baseline-saved"), signal.SIGINT, beside(), id="giving-up-its-gpu"),
        pytest.param(event("launch-started"), signal.SIGHUP, patched(), id="rolling-out"),
        pytest.param(own_pod, signal.SIGTERM, patched(), id="getting-ready"),
        pytest.param(event("round-started"), signal.SIGINT, patched(), id="in-a-round"),
    ],
)
def test_a_signal_ends_the_run_and_the_baseline_is_put_back(
    user: tuple[Namespace, Object],
    engine_image: str,
    tmp_path: Path,
    moment: Wait,
    number: signal.Signals,
    take_over: dict[str, str],
) -> None:
    namespace, before = user
    env = {"SIMULATOR_FAULTS": '[{"kind": "slow-start", "seconds": 300}]'} if moment is own_pod else {}
    write_site(tmp_path, engine_image, baseline=take_over, allow=["token-in-plain-env"])
    spec = write_spec(tmp_path, alone, rounds_of(2000), lambda one: one.update(env=env))
    process = namespace.start(tmp_path, str(spec), "--yes")
    moment(namespace, tmp_path, process)
    process.send_signal(number)
    ran = namespace.finish(tmp_path, process, 120)
    assert ran.code == 130, ran.stdout + ran.stderr
    assert f"{number.name}: sending nothing more" in ran.stderr
    assert_as_it_was(namespace, before)
    restored = baseline_of(ran).restored
    assert restored is not None and restored.restored
    assert_discreet(ran)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_before_anything_began(
    user: tuple[Namespace, Object], engine_image: str, tmp_path: Path, number: signal.Signals
) -> None:
    namespace, _ = user
    before = namespace.deployment("vllm")
    write_site(tmp_path, engine_image, baseline=patched(), allow=["token-in-plain-env"])
    process = namespace.start(tmp_path, str(write_spec(tmp_path, alone)), "--yes")
    assert process.stderr is not None
    assert process.stderr.readline().startswith("target: kubernetes")
    process.send_signal(number)
    ran = namespace.finish(tmp_path, process, 60)
    assert ran.code == 130, ran.stderr
    assert ran.stderr.endswith("run: interrupted; nothing was started or changed\n")
    assert "Traceback" not in ran.stderr
    assert_untouched(namespace, before, ran)


def test_the_first_signal_lets_the_restore_end_and_a_second_one_ends_the_waiting_alone(
    user: tuple[Namespace, Object], engine_image: str, tmp_path: Path
) -> None:
    namespace, before = user
    write_site(tmp_path, engine_image, baseline=patched(), allow=["token-in-plain-env"])
    spec = write_spec(tmp_path, alone)

    first = tmp_path / "first"
    process = namespace.start(tmp_path, str(spec), "--yes")
    wait_for(tmp_path, "engine-stopped", process)
    for number in (signal.SIGTERM, signal.SIGHUP):  # a session's end may send both
        process.send_signal(number)
        time.sleep(0.2)
    ran = namespace.finish(tmp_path, process, 120)
    assert ran.code == 130, ran.stdout + ran.stderr
    assert_as_it_was(namespace, before)
    (tmp_path / "runs").rename(first)

    process = namespace.start(tmp_path, str(spec), "--yes")
    wait_for(tmp_path, "engine-stopped", process)
    process.send_signal(signal.SIGINT)
    time.sleep(1.2)  # not a key that is held
    process.send_signal(signal.SIGTERM)
    ran = namespace.finish(tmp_path, process, 120)
    assert ran.code == 7, ran.stdout + ran.stderr
    assert [one["event"] for one in journal(tmp_path)][-2:] == ["baseline-restored", "run-finished"]
    restored = baseline_of(ran).restored
    assert restored is not None and not restored.restored
    why = "interrupted before it was done; the saved object is back, and whether it serves was not waited for"
    assert restored.reason == why
    assert f"NOT restored: {why}" in ran.stderr
    namespace.rolled_out("vllm")
    assert_as_it_was(namespace, before)
    assert namespace.run(tmp_path, "plan", str(spec)).code == 0
