"""The whole mission with a real engine: vLLM's CPU build in Pods, `off` and `on` rolled out one after the other in the
place of a Deployment that was made by hand, which is put back."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import baselines
import pytest
import vllm_cpu
import vllm_pod
from cluster import Cluster, Namespace, Object, Recorder, fresh_namespace
from cluster_restore import owners, plain
from finished_run import Finished
from kept_evidence import counted_exactly, log_of, one_text

# Four starts of the engine, one after the other: three minutes on two idle cores.
pytestmark = pytest.mark.timeout(1800)

NAME = "tiny-vllm"
# The server's information says whether it schedules asynchronously, which this release's log does not. It lists the
# installed packages, in a virtual environment of uv's by uv itself.
ENV = {"VLLM_SERVER_DEV_MODE": "1", "PATH": f"{vllm_cpu.home() / 'tools' / 'bin'}:/usr/local/bin:/usr/bin:/bin"}


@dataclass(frozen=True)
class Mission:
    """One run, and what the cluster had before, meanwhile and after it."""

    run: Finished
    before: Object
    after: Object
    pods: list[Object]
    """Every Pod that there was, by its first sight, as it was last seen."""


@pytest.fixture(scope="module")
def mission(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mission]:
    if cluster.kit is None:
        pytest.skip("the node of a cluster that is not the kit's lacks the real engine's folders")
    if not vllm_cpu.installed():
        words = f"there is no real engine in {vllm_cpu.home()}; install it with {vllm_cpu.INSTALL}"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(words)
    folder = tmp_path_factory.mktemp("real-vllm")
    with fresh_namespace(cluster, f"real-vllm-{os.getpid()}", folder) as namespace:
        yield _carried_out(namespace, folder)


def _carried_out(namespace: Namespace, folder: Path) -> Mission:
    baselines.by_apply(namespace, vllm_pod.deployment(NAME, *vllm_pod.FLAGS.split()))
    namespace.rolled_out(NAME, 300)
    before = namespace.deployment(NAME)
    settings = vllm_pod.settings()
    settings["env"].update(ENV)
    settings["baseline"] = {"deployment": NAME}
    (folder / "site.yaml").write_text(json.dumps({"kubernetes": settings}), encoding="utf-8")
    spec = vllm_cpu.write_spec(folder, _small)
    with Recorder(namespace) as recorder:
        run = namespace.run(folder, str(spec), "--target", "kubernetes", "--yes", seconds=1500)
        last = {one.uid: one.object for one in recorder.seen}
    return Mission(run, before, namespace.deployment(NAME), list(last.values()))


def _small(spec: dict[str, Any]) -> None:
    """`off` and `on`, and rounds as short as the counters' exactness allows."""
    del spec["process"], spec["conditions"]["off-sync"], spec["invariants"]["queue-only-above"]
    spec["model"] = vllm_pod.MODEL
    spec["phases"]["sequential"]["requests"] = 4
    spec["phases"]["load"].update(concurrency=[4], requests=8)


def engine_of(pod: Object) -> tuple[str, list[str]]:
    """The Pod's UID and the words of its container."""
    [container] = pod["spec"]["containers"]
    return pod["metadata"]["uid"], [*container["command"], *container["args"]]


def test_the_run_passes_and_says_that_it_is_real(mission: Mission) -> None:
    run = mission.run
    assert run.code == 0, run.stdout + run.stderr
    assert run.failing() == {}
    assert run.result["simulated"] is False
    assert "- simulated: no\n" in run.report


def test_each_condition_has_a_pod_of_its_own_and_the_baseline_a_new_one(mission: Mission) -> None:
    was, off, on, again = [engine_of(pod) for pod in mission.pods]
    assert "--spec-method" in on[1] and not any("--spec-method" in words for _, words in (was, off, again))
    assert again[1] == was[1]
    for arm, (uid, words) in (("off", off), ("on", on)):
        [engine] = mission.run.record.of_arm(arm)
        assert engine.launched is not None
        assert engine.launched.facts["Pod UID"] == uid
        assert engine.launched.command == words
        assert engine.launched.transport == "pod-ip"


def test_each_condition_is_in_force_by_the_pods_own_log(mission: Mission) -> None:
    record = mission.run.record
    for arm in ("off", "on"):
        [engine] = record.of_arm(arm)
        assert engine.evidence is not None and engine.evidence.parsed and engine.proof is not None
        assert engine.evidence.version == "0.32.0"
        assert {one.verdict for one in engine.evidence.arguments} == {"in-force"}, arm
        words = re.sub(r"\s+", " ", log_of(mission.run, arm))
        for name in engine.evidence.parsed:
            assert f"'{name}':" in words
        assert engine.proof.verdict == "in-force"
    [on], [off] = record.of_arm("on"), record.of_arm("off")
    assert on.evidence is not None and off.evidence is not None
    assert on.evidence.speculation is not None
    assert on.evidence.speculation.model_dump() == {"method": "ngram", "model": None, "tokens": 5}
    assert off.evidence.speculation is None
    assert "SpeculativeConfig(method='ngram', model=None, num_spec_tokens=5)" in log_of(mission.run, "on")
    assert "SpeculativeConfig(" not in log_of(mission.run, "off")
    assert on.evidence.features["unsupported-sampling"].value == ["min_p", "logit_bias"]
    assert on.proof is not None and on.proof.state == "moved"
    assert off.proof is not None and off.proof.state == "absent"


def test_the_counters_are_those_of_the_raw_scrapes_and_exact(mission: Mission) -> None:
    rounds = list(mission.run.record.all_rounds())
    windows = [len(round_.of_role("warm-up", "excluded", "measured")) for round_ in rounds]
    assert windows == 2 * [4, 9, 9]
    counted_exactly(mission.run, 96, "on")


def test_the_output_is_judged_and_identical(mission: Mission) -> None:
    [finding] = [one for one in mission.run.result["checks"] if one["check"] == "same-output"]
    assert finding["judgement"] == "pass"
    assert one_text(mission.run)


def test_a_gpu_that_is_not_there_has_no_figure_and_a_reason(mission: Mission) -> None:
    rows = mission.run.report.split("(`resources`)")[1].split("###")[0]
    cells = [line.split("|")[2:4] for line in rows.splitlines() if re.match(r"\| (off|on)", line)]
    assert len(cells) == 4
    assert all(not re.search(r"\d", cell) for pair in cells for cell in pair), "a GPU's figure without a GPU"
    assert "the container asks for no GPU" in mission.run.report


def test_the_baseline_is_what_it_was_and_answers(mission: Mission) -> None:
    assert plain(mission.after) == plain(mission.before)
    assert owners(mission.after) == owners(mission.before)
    [baseline] = mission.run.record.baselines
    assert baseline.restored is not None and baseline.restored.restored
    compared = {one.fact: one for one in baseline.restored.compared}
    assert {"template hash", "arguments", "model", "idle", "one request"} <= set(compared)
    assert all(one.equal for one in compared.values()), compared
    assert compared["model"].after == "tiny" and compared["one request"].after == "answered"
