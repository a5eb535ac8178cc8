"""The article's whole experiment, its spec unedited, on a cluster whose one GPU the user's own Deployment holds: a site
file that names the cluster, and plain `run specs/ngram-spec.yaml`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import baselines
import pytest
from cluster import Cluster, Namespace, Object, Recorder, fresh_namespace
from cluster_restore import owners, plain
from finished_run import Finished
from vllm_cpu import ROOT

from runner.spec.tables import TABLE_IDS

NAME = "vllm-qwen"
GRID = [1, 4, 16, 32]
# Slow enough that the client, the container's nvidia-smi and the node, which share two cores with the engine, do not
# set the pace in its place.
SCALE = {"SIMULATOR_TIME_SCALE": "0.25"}
GPU = "GPU-00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True)
class Mission:
    """One run, and what the cluster had before, meanwhile and after it."""

    run: Finished
    before: Object
    after: Object
    pods: list[Object]
    """Every Pod that there was, by its first sight, as it was last seen."""
    left: list[str]
    """Names of Deployments and Services afterwards."""


@pytest.fixture(scope="module")
def mission(cluster: Cluster, engine_image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mission]:
    folder = tmp_path_factory.mktemp("article")
    with fresh_namespace(cluster, f"article-{os.getpid()}", folder) as namespace:
        yield _carried_out(namespace, engine_image, folder)


def _carried_out(namespace: Namespace, image: str, folder: Path) -> Mission:
    baselines.by_apply(namespace, baselines.vllm(image, name=NAME, env=SCALE))
    namespace.rolled_out(NAME)
    before = namespace.deployment(NAME)
    settings: dict[str, Any] = {"image": image, "env": SCALE, "baseline": {"deployment": NAME}}
    if namespace.cluster.kit is not None:
        settings["context"] = namespace.cluster.kit.name
    (folder / "site.yaml").write_text(json.dumps({"target": "kubernetes", "kubernetes": settings}), encoding="utf-8")
    with Recorder(namespace) as recorder:
        run = namespace.run(folder, str(ROOT / "specs" / "ngram-spec.yaml"), "--yes")
        last = {one.uid: one.object for one in recorder.seen}
    left = [one["metadata"]["name"] for kind in ("deployments", "services") for one in namespace.list(kind)]
    return Mission(run, before, namespace.deployment(NAME), list(last.values()), left)


def rows(report: str, table: str) -> list[list[str]]:
    """The cells of a table of the report, without its heading."""
    text = report.split(f"(`{table}`)")[1].split("\n\n")[1]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()[2:]]


def test_every_invariant_holds(mission: Mission) -> None:
    run = mission.run
    assert run.code == 0, run.stdout + run.stderr
    assert run.failing() == {}
    assert "target: kubernetes (named by: the site file)" in run.stderr
    assert run.result["simulated"] is True  # by what the engine says: the target does not say so


def test_both_conditions_were_rolled_out_one_after_the_other(mission: Mission) -> None:
    was, off, on, again = mission.pods
    words = [one["spec"]["containers"][0]["args"] for one in mission.pods]
    assert [("ngram" in found) for found in words] == [False, False, True, False]
    assert words[3] == words[0] != words[1]
    for arm, pod in (("off", off), ("on", on)):
        [engine] = mission.run.record.of_arm(arm)
        assert engine.launched is not None and engine.ready is not None
        assert engine.launched.facts["Pod UID"] == pod["metadata"]["uid"]
        assert engine.launched.command == ["vllm", "serve", *pod["spec"]["containers"][0]["args"]]
        assert pod["metadata"]["uid"] in mission.run.report
    starts = [one["metadata"]["creationTimestamp"] for one in (was, off, on, again)]
    assert starts == sorted(starts)
    # one GPU: each was gone before the next had it
    [limits] = {json.dumps(one["spec"]["containers"][0]["resources"]["limits"]) for one in mission.pods}
    assert limits == '{"nvidia.com/gpu": "1"}'
    assert all("deletionTimestamp" in one["metadata"] for one in (was, off, on))


def test_each_condition_is_in_force_by_the_pods_own_log(mission: Mission) -> None:
    for arm in ("off", "on"):
        [engine] = mission.run.record.of_arm(arm)
        assert engine.evidence is not None and engine.proof is not None and engine.launched is not None
        assert engine.launched.log == f"artifacts/{arm}-1/engine.log"
        log = (mission.run.directory / engine.launched.log).read_text("utf-8")
        assert ("SpeculativeConfig(method='ngram', model=None, num_spec_tokens=5)" in log) == (arm == "on")
        assert engine.evidence.absent == {"/server_info": "HTTP 404"}  # it is not in development mode
        # What the engine prints of its arguments is read; of one of them it prints nothing more than that.
        said = {one.name: one.verdict for one in engine.evidence.arguments}
        assert said.pop("max_num_seqs") == "parsed"
        assert set(said.values()) == {"in-force"}
        assert engine.proof.verdict == "in-force"
        assert engine.proof.state == {"off": "absent", "on": "moved"}[arm]


def test_the_grid_is_complete(mission: Mission) -> None:
    rounds = list(mission.run.record.all_rounds())
    assert [(one.arm, one.concurrency, one.number) for one in rounds] == [
        (arm, level, number) for arm in ("off", "on") for level in GRID for number in ((1,) if level == 1 else (1, 2))
    ]
    for one in rounds:
        window = one.of_role("warm-up", "excluded", "measured")
        assert len(window) == (10 if one.concurrency == 1 else 65)
        assert {request.verdict for request in window} == {"ok"}
    assert not any(cell["incomplete"] for cell in mission.run.result["cells"])
    assert mission.run.result["knee"] == {name: {"concurrency": 16, "beyond": 32} for name in ("off", "on")}
    assert mission.run.result["confounded"] == {"on": ["async-scheduling", "model-runner", "unsupported-sampling"]}


def test_the_report_has_every_table(mission: Mission) -> None:
    titles = re.findall(r"^### .*\(`([a-z-]+)`\)(.*)$", mission.run.report, re.MULTILINE)
    names = list(dict.fromkeys(name for name, _ in titles if name != "saturation-change"))
    assert names == list(TABLE_IDS)
    assert {mark for _, mark in titles} == {" — simulated"}


def test_the_gpu_is_sampled_in_the_container(mission: Mission) -> None:
    for engine in mission.run.record.engines:
        assert engine.gpus is not None and engine.gpus.reason is None
        assert [one.uuid for one in engine.gpus.gpus] == [GPU]
        assert engine.gpus.source is not None and engine.gpus.source.startswith("nvidia-smi in the engine's container")
        for round_ in engine.rounds:
            assert any(one.memory_mib for one in round_.gpu_samples)
            errors = {one.error for one in round_.gpu_samples[:-1]}
            assert errors <= {None}  # the last one may have been overdue when the load ended
    cells = {row[0]: row[1:3] for row in rows(mission.run.report, "resources")}
    assert list(cells) == [f"{arm} C={level}" for level in GRID for arm in ("off", "on")]
    for name, (used, memory) in cells.items():
        assert re.search(r"\d%", used) and re.search(r"\d MiB", memory), (name, used, memory)


def test_the_baseline_is_what_it_was(mission: Mission) -> None:
    assert plain(mission.after) == plain(mission.before)
    assert owners(mission.after) == owners(mission.before)
    assert mission.left == [NAME]
    was, again = mission.pods[0], mission.pods[-1]
    hashes = [one["metadata"]["labels"]["pod-template-hash"] for one in (was, again)]
    assert hashes[0] == hashes[1]
    [baseline] = mission.run.record.baselines
    assert baseline.restored is not None and baseline.restored.restored
    assert [one.fact for one in baseline.restored.compared if not one.equal] == []
    table = rows(mission.run.report, "restore")
    assert len(table) >= len(baseline.restored.compared) >= 7
    assert any(hashes[0] in cell for row in table for cell in row)


def test_the_report_is_the_same_again_offline(mission: Mission, tmp_path: Path) -> None:
    copied = tmp_path / mission.run.directory.name
    shutil.copytree(mission.run.directory, copied)
    for name in ("report.md", "result.json"):
        (copied / name).unlink()
    shutil.rmtree(copied / "artifacts")  # the journal is the only truth
    # in a network of its own, which has no way out, and without a kubeconfig
    words = ["unshare", "--net", sys.executable, "-m", "runner", "report", str(copied)]
    environment = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    subprocess.run(words, env={**environment, "HOME": "/nonexistent"}, cwd=tmp_path, check=True, capture_output=True)
    for name in ("report.md", "result.json"):
        assert (copied / name).read_bytes() == (mission.run.directory / name).read_bytes()
