"""Engines that do not start, or do not live: named within seconds of Kubernetes showing it, in the engine's own words,
and what was there is there again."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import baselines
import pytest
from cluster import Cluster, Namespace, Object, Recorder, Seen, fresh_namespace
from cluster_runs import Edit, baseline_there, patched, write_site, write_spec
from vllm_cpu import ROOT
from watched_run import Watched, container_status, terminated, unschedulable, waits

LAUNCH = "llm-experiment-runner/launch"
NO_GPU: dict[str, Any] = {"resources": {}, "runtime_class_name": None}
VERDICT_SECONDS = 5.0
SLACK_SECONDS = 2.0
"""For a machine that other tests keep busy: the watch that the test compares with runs on it, too."""


def faults(*found: dict[str, Any]) -> dict[str, str]:
    return {"SIMULATOR_FAULTS": json.dumps(found), "SIMULATOR_TIME_SCALE": "0.1"}


@dataclass(frozen=True)
class There:
    """A namespace in which a user's engine runs, without a GPU, and what it was at first."""

    namespace: Namespace
    image: str
    before: Object

    def is_as_before(self) -> bool:
        now = self.namespace.deployment("vllm")
        kept = ("spec", "metadata")
        moving = ("resourceVersion", "generation", "managedFields", "annotations")
        plain = [
            {key: {k: v for k, v in one[key].items() if k not in moving} for key in kept} for one in (now, self.before)
        ]
        return plain[0] == plain[1] and now["status"].get("readyReplicas") == 1


@pytest.fixture(scope="module")
def there(cluster: Cluster, engine_image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[There]:
    with fresh_namespace(cluster, "failures", tmp_path_factory.mktemp("kubeconfigs")) as namespace:
        yield There(namespace, engine_image, baseline_there(namespace, engine_image, gpus=0))


def shown_to_said(watched: Watched, recorder: Recorder, met: Callable[[Object], bool], words: str) -> float:
    """Seconds from the first change of a Pod that shows the failure to the line that names it."""
    said = watched.until(words)

    def shows(one: Seen) -> bool:
        of_the_run = LAUNCH in one.object["metadata"].get("annotations", {})
        return of_the_run and one.change != "DELETED" and met(one.object)

    return said - recorder.wait(shows, 1).at


def only_off(spec: dict[str, Any]) -> None:
    """One condition is enough for what fails at the first start."""


def bad_argument(spec: dict[str, Any]) -> None:
    spec["args"]["max-num-seqs"] = "many"


EATER = "import sys, time; print('ready to eat', flush=True)\nfood = []\nwhile True: food.append(bytearray(1 << 24))"


@dataclass(frozen=True)
class Failing:
    """How one start fails: settings of the place, an edit of the spec, what Kubernetes shows, what the verdict says."""

    settings: dict[str, Any]
    shows: Callable[[Object], bool]
    words: str
    own: str | None = None
    """In the engine's own last words."""
    edit: Edit = only_off


STARTS = {
    "crash": Failing(
        {"env": faults({"kind": "crash-at-start", "with": "cuda-oom"})},
        terminated,
        "ended with exit code 1",
        "CUDA out of memory",
    ),
    "bad-argument": Failing({}, terminated, "ended with exit code 2", "invalid int value: 'many'", bad_argument),
    "host-memory": Failing(
        {
            "command": ["python3", "-c", EATER],
            "resources": {"limits": {"memory": "64Mi"}},
        },
        terminated,
        "killed for want of host memory, not GPU memory (OOMKilled, exit code 137; its memory limit is 64Mi)",
        "ready to eat",
    ),
    "probe": Failing(
        {
            "env": faults({"kind": "slow-start", "seconds": 100}),
            "probes": {"startup": {"periodSeconds": 1, "failureThreshold": 3}},
            "termination_grace_seconds": 1,
        },
        terminated,
        "kubelet says: Container vllm failed startup probe, will be restarted",
        "non-default args",
    ),
    "pull": Failing(
        {"image": "testcluster.local/no-such:1"},
        waits("ErrImagePull", "ImagePullBackOff"),
        "its image testcluster.local/no-such:1 cannot be pulled",
    ),
    "node": Failing({"node_selector": {"gpu-model": "none"}}, unschedulable, "no node has the labels gpu-model=none"),
}


@pytest.mark.parametrize("name", STARTS)
def test_a_start_that_fails_is_named_within_seconds_and_undone(there: There, tmp_path: Path, name: str) -> None:
    failing = STARTS[name]
    settings = {**NO_GPU, **failing.settings}
    write_site(tmp_path, settings.pop("image", there.image), baseline=patched(), **settings)
    write_spec(tmp_path, failing.edit)
    with Recorder(there.namespace) as recorder:
        watched = Watched(there.namespace, tmp_path, "spec.yaml", "--yes")
        seconds = shown_to_said(watched, recorder, failing.shows, failing.words)
        ran = watched.finish()
    print(name, seconds, ran.stderr)
    assert ran.code == 3, ran.stderr
    [engine] = ran.record.engines
    assert engine.failed is not None and engine.failed.stage == "start"
    assert failing.words in engine.failed.reason
    assert engine.failed.seconds is not None and engine.failed.seconds < VERDICT_SECONDS + SLACK_SECONDS
    assert seconds < VERDICT_SECONDS + SLACK_SECONDS
    own = "\n".join(engine.failed.words)
    if failing.own is None:
        assert own == ""
    else:
        assert failing.own in own
        log = next(ran.directory.rglob("engine.log")).read_text()
        assert failing.own in log
    assert failing.words in ran.report
    assert there.is_as_before()
    assert ran.record.baselines[0].restored is not None and ran.record.baselines[0].restored.restored


def test_a_gpu_that_another_deployment_holds(namespace: Namespace, engine_image: str, tmp_path: Path) -> None:
    baselines.by_apply(namespace, baselines.vllm(engine_image, name="theirs"))
    namespace.rolled_out("theirs")
    write_site(tmp_path, engine_image)
    write_spec(tmp_path)
    with Recorder(namespace) as recorder:
        watched = Watched(namespace, tmp_path, "spec.yaml")
        seconds = shown_to_said(watched, recorder, unschedulable, "of Deployment theirs")
        ran = watched.finish()
    print(seconds, ran.stderr)
    assert ran.code == 3
    [engine] = ran.record.engines
    assert engine.failed is not None
    assert re.search(rf"held by {namespace.name}/theirs-\S+ \(1, of Deployment theirs", engine.failed.reason)
    assert seconds < VERDICT_SECONDS + SLACK_SECONDS
    assert [one["metadata"]["name"] for one in namespace.list("deployments")] == ["theirs"]


def rolling_template(folder: Path) -> dict[str, str]:
    """The program's own template, with the strategy that people get who name none."""
    text = (ROOT / "templates" / "kubernetes" / "deployment.yaml.j2").read_text(encoding="utf-8")
    recreate, surging = "{type: Recreate}", "{type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}"
    assert recreate in text
    (folder / "rolling.yaml.j2").write_text(text.replace(recreate, surging), encoding="utf-8")
    return {"deployment": "rolling.yaml.j2"}


ROLLING_ALLOWED = ["rolling-update-on-one-gpu"]


def test_a_new_pod_that_waits_for_the_old_ones_gpu_is_a_deadlock(
    namespace: Namespace, engine_image: str, tmp_path: Path
) -> None:
    before = baseline_there(namespace, engine_image)
    [old] = namespace.pods()
    write_site(tmp_path, engine_image, baseline=patched(), templates=rolling_template(tmp_path), allow=ROLLING_ALLOWED)
    write_spec(tmp_path)
    with Recorder(namespace) as recorder:
        watched = Watched(namespace, tmp_path, "spec.yaml", "--yes")
        seconds = shown_to_said(watched, recorder, unschedulable, "use strategy Recreate")
        ran = watched.finish()
    print(seconds, ran.stderr)
    assert ran.code == 3, ran.stderr
    [engine] = ran.record.engines
    assert engine.failed is not None and engine.launched is None and engine.rounds == []
    assert f"waits for what the old one holds ({namespace.name}/{old['metadata']['name']})" in engine.failed.reason
    assert seconds < VERDICT_SECONDS + SLACK_SECONDS
    assert There(namespace, engine_image, before).is_as_before()


def pod_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions") or []
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def test_the_old_pod_is_never_taken_for_the_new_one(there: There, tmp_path: Path) -> None:
    """It is Ready all the time while the new one loads, and has the labels that Services and lists go by."""
    [old] = [pod for pod in there.namespace.pods() if "deletionTimestamp" not in pod["metadata"]]
    write_site(
        tmp_path,
        there.image,
        **NO_GPU,
        baseline=patched(),
        env=faults({"kind": "slow-start", "seconds": 4}),
        templates=rolling_template(tmp_path),
        allow=ROLLING_ALLOWED,
    )
    write_spec(tmp_path)
    with Recorder(there.namespace) as recorder:
        watched = Watched(there.namespace, tmp_path, "spec.yaml", "--yes")
        watched.until("off: ready after")
        at = watched.said[-1][0]
        ran = watched.finish()
    print(ran.stderr)
    assert ran.code == 0, ran.stderr
    taken = []
    for engine in ran.record.engines:
        assert engine.launched is not None and engine.ready is not None
        identity, uid = engine.ready.engine, engine.launched.facts["Pod UID"]
        taken.append(uid)
        assert uid in identity
        assert {one for place in engine.rounds for one in place.engines} == {identity}
        [address] = {one.object["status"]["podIP"] for one in recorder.seen if one.uid == uid and pod_ready(one.object)}
        assert engine.launched.endpoint == f"http://{address}:8000"
    assert len({*taken, old["metadata"]["uid"]}) == 3
    new = [one for one in recorder.seen if one.uid == taken[0]]
    first_ready = next(one for one in new if pod_ready(one.object)).at
    # the scene was as meant: the old one was Ready as long as the new one was not
    assert pod_ready(recorder.at(first_ready - 0.05)[old["metadata"]["uid"]])
    assert first_ready - new[0].at > 3
    assert first_ready < at
    assert there.is_as_before()


def long_round(spec: dict[str, Any]) -> None:
    spec["phases"]["load"] = {"concurrency": [2], "requests": 40}
    spec["limits"]["request-timeout-seconds"] = 60


SLOW = {"SIMULATOR_TIME_SCALE": "1"}


def engines_pod(there: There) -> Object:
    [pod] = [
        one
        for one in there.namespace.pods()
        if "deletionTimestamp" not in one["metadata"] and LAUNCH in one["metadata"].get("annotations", {})
    ]
    return pod


def test_an_engine_that_is_killed_in_a_round(there: There, cluster: Cluster, tmp_path: Path) -> None:
    """Kubernetes starts it again in the same Pod, at the same address: what that one answers is not counted."""
    if cluster.kit is None:
        pytest.skip("the kit's own node alone lets a test kill a container's first process")
    write_site(tmp_path, there.image, **NO_GPU, baseline=patched(), env=SLOW)
    write_spec(tmp_path, long_round)
    watched = Watched(there.namespace, tmp_path, "spec.yaml", "--yes")
    watched.until("off: evidence read")
    time.sleep(3)
    container = container_status(engines_pod(there))["containerID"].removeprefix("containerd://")
    killed = time.time()
    cluster.kit.call("enter", "ctr", "--namespace", "k8s.io", "tasks", "kill", "--signal", "SIGKILL", container)
    named = watched.until("ended with exit code 137 during load-c2-r1")
    ran = watched.finish()
    print(named - killed, ran.stderr)
    assert ran.code == 5, ran.stderr
    assert named - killed < 15
    off, on = ran.record.engines
    assert off.failed is not None and off.failed.stage == "run"
    [lost] = off.rounds
    assert len(lost.ok) < 40
    assert on.failed is None and [len(one.ok) for one in on.rounds] == [40]
    assert ran.failing()["one-engine-process"] != "pass"
    assert there.is_as_before()


def test_a_pod_that_is_deleted_in_a_round(there: There, tmp_path: Path) -> None:
    """Its Deployment makes another one, which the Service leads to under the same address."""
    write_site(tmp_path, there.image, **NO_GPU, baseline=patched(), env=SLOW, transport="cluster-ip")
    write_spec(tmp_path, long_round)
    watched = Watched(there.namespace, tmp_path, "spec.yaml", "--yes")
    watched.until("off: evidence read")
    time.sleep(3)
    pod = engines_pod(there)["metadata"]["name"]
    deleted = time.time()
    there.namespace.kubectl("delete", "pod", pod, "--wait=false")
    named = watched.until(f"the Pod {pod} ")
    ran = watched.finish()
    print(named - deleted, ran.stderr)
    assert ran.code == 5, ran.stderr
    assert named - deleted < 15
    off, on = ran.record.engines
    assert off.failed is not None and f"the Pod {pod} " in off.failed.reason
    [lost] = off.rounds
    assert lost.finished is not None and not lost.finished.complete
    assert on.failed is None and [len(one.ok) for one in on.rounds] == [40]
    assert there.is_as_before()
    assert there.namespace.list("services") == []
