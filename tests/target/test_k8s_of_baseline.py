"""The engine of the Deployment that was there: which container, and which Pod."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from k8s_surveyed import production

from runner.access import Access
from runner.target.kubernetes import baseline
from runner.target.kubernetes.baseline import deployment_facts, main_container, probe_pod, serving_pod, template_hash
from runner.target.kubernetes.cluster import Cluster
from runner.target.kubernetes.probes import Probed

Object = dict[str, Any]
GPU = {"limits": {"nvidia.com/mig-1g.5gb": "1"}}


def beside_a_sidecar(**engine: Any) -> Object:
    made = production()
    sidecar = {"name": "proxy", "image": "proxy:1", "args": ["--port", "9"]}
    engine = {"name": "vllm", "image": "vllm:1", "args": ["--port", "8123"], **engine}
    made["spec"]["template"]["spec"]["containers"] = [sidecar, engine]
    return made


def test_the_engine_is_the_named_container_else_the_one_on_a_gpu_else_the_first() -> None:
    assert main_container(beside_a_sidecar(resources=GPU))["name"] == "vllm"
    assert main_container(beside_a_sidecar())["name"] == "proxy"
    assert main_container(beside_a_sidecar(), "vllm")["name"] == "vllm"
    assert main_container(beside_a_sidecar(resources=GPU), "nobody's")["name"] == "vllm"


@pytest.mark.parametrize(("resources", "name"), [(GPU, None), ({}, "vllm")])
def test_what_is_compared_and_probed_is_the_engines(
    resources: Object, name: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = beside_a_sidecar(resources=resources)
    facts = deployment_facts(there, [], name)
    assert (facts["image"], facts["arguments"]) == ("vllm:1", "--port 8123")
    asked: list[tuple[str, int, Access]] = []
    access = Access.made({}, "k3y")

    def probed(_: Cluster, pod: str, port: int, given: Access) -> Probed:
        asked.append((pod, port, given))
        return Probed()

    monkeypatch.setattr(baseline, "_probed", probed)
    pod = {"metadata": {"name": "one"}}
    asyncio.run(probe_pod(cast(Cluster, None), there, pod, 0, 0, container=name, access=access))
    assert asked == [("one", 8123, access)]


def test_the_pod_that_serves_is_the_deployments_own() -> None:
    """A label is anybody's to set; the owner is not."""
    there = production()
    revision = {"deployment.kubernetes.io/revision": "2"}
    there["metadata"]["annotations"] = revision
    metadata = {
        "name": "set",
        "uid": "uid-set",
        "annotations": revision,
        "labels": {"pod-template-hash": "abc"},
        "ownerReferences": [{"uid": "uid-vllm", "controller": True}],
    }
    sets = [{"metadata": metadata, "spec": {"template": there["spec"]["template"]}}]

    def pod(name: str, owner: str, **extra: str) -> Object:
        return {
            "metadata": {
                "name": name,
                "labels": {"pod-template-hash": "abc"},
                "ownerReferences": [{"uid": owner, "controller": True}],
                **extra,
            },
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }

    own = pod("own", "uid-set")
    ending = pod("ending", "uid-set", deletionTimestamp="2026-11-30T15:00:00Z")
    assert template_hash(there, sets) == "abc"
    assert serving_pod(there, sets, [pod("strange", "somebody"), ending, own]) == own
    assert serving_pod(there, sets, [pod("strange", "somebody"), ending]) is None
    assert serving_pod(there, [], [own]) is None
