"""Who else may use a node's GPUs, and who holds a resource."""

from __future__ import annotations

from typing import Any

import pytest
from k8s_objects import pod, recorded

from runner.target.kubernetes.neighbours import holders, is_gpu, neighbours, requested

Object = dict[str, Any]


def container(*, limits: Object | None = None, requests: Object | None = None, **more: Any) -> Object:
    resources = {name: value for name, value in (("limits", limits), ("requests", requests)) if value}
    return {"name": "c", "image": "i:1", "resources": resources, **more}


def gpu(name: str, amount: str = "1", resource: str = "nvidia.com/gpu", **more: Any) -> Object:
    return pod(name, containers=[container(limits={resource: amount})], **more)


@pytest.mark.parametrize(
    "resource",
    ["nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "nvidia.com/gpu.shared", "amd.com/gpu", "gpu.intel.com/i915"],
)
def test_gpus_by_their_resource(resource: str) -> None:
    assert is_gpu(resource)
    assert neighbours([gpu("a", "2", resource)], node="node", ours=()) == [f"ns/a (2 {resource})"]


@pytest.mark.parametrize(
    "resource", ["cpu", "memory", "hugepages-2Mi", "rdma/hca", "example.com/gpunot", "smarter/fuse"]
)
def test_other_resources_are_no_gpus(resource: str) -> None:
    assert not is_gpu(resource)
    assert neighbours([gpu("a", "2", resource)], node="node", ours=()) == []


def test_ours_and_those_of_other_nodes_and_unbound_and_finished_ones_are_none() -> None:
    pods = [
        gpu("ours"),
        gpu("elsewhere", node="other"),
        gpu("unbound", node=None, phase="Pending"),
        gpu("done", phase="Succeeded"),
        gpu("evicted", phase="Failed"),
        gpu("here"),
        gpu("starting", phase="Pending"),
    ]
    assert neighbours(pods, node="node", ours={"uid-ours"}) == [
        "ns/here (1 nvidia.com/gpu)",
        "ns/starting (1 nvidia.com/gpu)",
    ]


def test_a_pod_that_is_being_deleted_is_one_until_its_containers_have_ended() -> None:
    ending = gpu("ending")
    ending["metadata"]["deletionTimestamp"] = "2026-11-30T15:00:00Z"
    ending["status"]["containerStatuses"] = [{"name": "c", "state": {"running": {}}}]
    assert neighbours([ending], node="node", ours=()) == ["ns/ending (1 nvidia.com/gpu)"]
    ending["status"]["containerStatuses"] = [{"name": "c", "state": {"terminated": {"exitCode": 0}}}]
    assert neighbours([ending], node="node", ours=()) == []


def test_pods_that_see_all_gpus_unasked() -> None:
    pods = [
        pod("k3s", runtimeClassName="nvidia"),
        pod("kata", runtimeClassName="kata"),
        pod("all", containers=[container(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}])]),
        pod("void", containers=[container(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}])]),
        pod("unset", containers=[container(env=[{"name": "NVIDIA_VISIBLE_DEVICES"}])]),
        pod("plain"),
        pod("claims", resourceClaims=[{"name": "gpu"}]),
    ]
    assert neighbours(pods, node="node", ours=()) == [
        "ns/all (NVIDIA_VISIBLE_DEVICES=all)",
        "ns/claims (resource claim gpu)",
        "ns/k3s (runtime class nvidia)",
    ]


def test_the_nodes_own_agents_are_none_and_a_daemon_set_of_somebodys_is() -> None:
    def daemon(name: str, image: str) -> Object:
        made = pod(name, runtimeClassName="nvidia", containers=[{"name": "c", "image": image}])
        made["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": name, "uid": "x", "controller": True}]
        return made

    pods = [daemon("plugin", "nvcr.io/nvidia/k8s-device-plugin:v0.17.0"), daemon("miner", "acme/miner:1")]
    assert neighbours(pods, node="node", ours=()) == ["ns/miner (runtime class nvidia)"]
    alone = pod("tester", runtimeClassName="nvidia", containers=[{"name": "c", "image": "k8s-device-plugin:v1"}])
    assert neighbours([alone], node="node", ours=()) == ["ns/tester (runtime class nvidia)"]


def test_what_a_pod_takes_is_the_sum_or_the_largest_init_container() -> None:
    one = container(limits={"nvidia.com/gpu": "1", "cpu": "4"})
    two = container(requests={"nvidia.com/gpu": "2"}, limits={"nvidia.com/gpu": "2"})
    first = container(limits={"nvidia.com/gpu": 5})
    assert requested(pod("a", containers=[one, two])) == {"nvidia.com/gpu": "3"}
    assert requested(pod("a", containers=[one, two], initContainers=[first])) == {"nvidia.com/gpu": "5"}
    assert requested(pod("a", containers=[one], initContainers=[one])) == {"nvidia.com/gpu": "1"}
    assert requested(pod("a", containers=[container(limits={"nvidia.com/gpu": "0"})])) == {}
    assert requested(pod("a", containers=[container(limits={"x/gpu": "1k"}), one])) == {
        "x/gpu": "1k",
        "nvidia.com/gpu": "1",
    }


def test_holders_on_a_real_cluster_are_named_with_owner_and_age() -> None:
    shown = recorded("held").observations[-1]["pods"]
    (told,) = holders(shown, "nvidia.com/gpu")
    assert told.startswith("judges/mine-") and "(1, of Deployment mine, since 2026-11-30T15:" in told
    assert holders(shown, "amd.com/gpu") == []


def test_a_holder_that_is_ending_is_said_to_be() -> None:
    ending = gpu("a")
    ending["metadata"]["deletionTimestamp"] = "2026-11-30T15:00:00Z"
    assert holders([ending, gpu("b", phase="Failed"), gpu("c", node=None)], "nvidia.com/gpu") == [
        "ns/a (1, since 2026-11-30T15:00:00Z, ending)"
    ]
