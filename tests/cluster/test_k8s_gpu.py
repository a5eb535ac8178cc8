"""GPUs of a Pod, read beside the engine by one nvidia-smi for each launch."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from cluster import Namespace, Recorder
from cluster_runs import write_site, write_spec
from finished_run import Finished
from watched_run import Watched


def smi_loops(namespace: Namespace, pod: str) -> list[str]:
    """The command lines of the nvidia-smi processes in the engine's container; the shell around one is none."""
    script = "for one in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $one; echo; done"
    lines = namespace.execute(pod, "sh", "-c", script).splitlines()
    return [line for line in lines if "runner.simulator nvidia-smi" in line]


def with_gpu_tables(spec: dict[str, Any]) -> None:
    spec["phases"]["load"] = {"concurrency": [2], "requests": 16}


def gpu_samples(ran: Finished, arm: str) -> list[Any]:
    return [one for engine in ran.record.of_arm(arm) for place in engine.rounds for one in place.gpu_samples]


def neighbour(namespace: Namespace, image: str) -> None:
    """A Pod that sees every GPU of the node by its runtime class, and asks for none."""
    container = {"name": "peek", "image": image, "command": ["sleep", "3600"]}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "peek"},
        "spec": {"runtimeClassName": "nvidia", "terminationGracePeriodSeconds": 1, "containers": [container]},
    }
    namespace.kubectl("create", "--filename", "-", stdin=json.dumps(pod))
    namespace.kubectl("wait", "--for=condition=Ready", "pod/peek", "--timeout=60s")


def test_one_nvidia_smi_for_each_launch_and_none_after_it(
    namespace: Namespace, engine_image: str, tmp_path: Path
) -> None:
    write_site(tmp_path, engine_image, env={"SIMULATOR_TIME_SCALE": "1"})
    write_spec(tmp_path, with_gpu_tables)
    watched = Watched(namespace, tmp_path, "spec.yaml")
    counts: dict[str, list[int]] = {}
    for arm in ("off", "on"):
        watched.until(f"{arm}: evidence read")
        [pod] = [one for one in namespace.pods() if "deletionTimestamp" not in one["metadata"]]
        name = pod["metadata"]["name"]
        counts[arm] = []
        for _ in range(3):
            counts[arm].append(len(smi_loops(namespace, name)))
            time.sleep(0.5)
    ran = watched.finish()
    print(counts, ran.stderr)
    assert ran.code == 0, ran.stderr
    assert counts == {"off": [1, 1, 1], "on": [1, 1, 1]}
    for engine in ran.record.engines:
        assert engine.gpus is not None and engine.gpus.reason is None
        assert engine.gpus.source is not None and engine.gpus.source.startswith("nvidia-smi in the engine's container")
        assert engine.gpus.others == [] and engine.gpus.unknown is None
    for arm in ("off", "on"):
        found = gpu_samples(ran, arm)
        assert len(found) > 5
        assert all(one.error is None and one.memory_mib and one.utilization is not None for one in found)


def test_a_gpu_that_is_lost_and_a_neighbour_that_asked_for_none(
    namespace: Namespace, engine_image: str, tmp_path: Path
) -> None:
    """`off` loses its GPU in its round, at a sample; both have a neighbour."""
    neighbour(namespace, engine_image)
    write_site(tmp_path, engine_image)

    def losing(spec: dict[str, Any]) -> None:
        with_gpu_tables(spec)
        spec["phases"]["load"]["requests"] = 32  # long enough for the sample, however slowly they are taken
        faults = [{"kind": "nvidia-smi", "at_sample": 40, "how": "device-lost"}]
        spec["conditions"]["off"]["env"] = {"SIMULATOR_FAULTS": json.dumps(faults), "SIMULATOR_TIME_SCALE": "1"}

    write_spec(tmp_path, losing)
    ran = namespace.run(tmp_path, "spec.yaml")
    print(ran.stderr)
    print(ran.report)
    lost = gpu_samples(ran, "off")
    print([(one.error, one.utilization) for one in lost])
    assert lost[0].error is None and lost[-1].error is not None
    assert any(f"{namespace.name}/peek" in str(one.name) for engine in ran.record.engines for one in engine.gpus.others)
    for engine in ran.record.engines:
        for place in engine.rounds:
            assert place.others is not None
            assert [one.name for one in place.others.others] == [f"{namespace.name}/peek (runtime class nvidia)"]
    assert f"{namespace.name}/peek (runtime class nvidia)" in ran.report


def test_a_container_that_was_given_no_gpu_says_so(namespace: Namespace, engine_image: str, tmp_path: Path) -> None:
    write_site(tmp_path, engine_image, resources={}, runtime_class_name=None)
    write_spec(tmp_path)
    with Recorder(namespace):
        ran = namespace.run(tmp_path, "spec.yaml")
    assert ran.code == 0, ran.stderr
    for engine in ran.record.engines:
        assert engine.gpus is not None and engine.gpus.gpus == []
        assert engine.gpus.reason == "the container asks for no GPU"
    assert "the container asks for no GPU" in ran.report
