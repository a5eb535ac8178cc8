"""What has gone wrong with a new Pod, and when that is known: on recorded faults of a real cluster, looked at once a
second, and on edges made by hand."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest
from k8s_objects import Recorded, first_failure, pod, recorded

from runner.target.kubernetes.pod_failure import Failure, Observation, PodWatch

Object = dict[str, Any]


# Recorded faults -----------------------------------------------------------------------------------------

FAULTS: dict[str, tuple[str, int | None, bool, list[str]]] = {
    "crash": ("ended", 3, False, ["container vllm of Pod judges/vllm-", "ended with exit code 3 (Error)"]),
    "oom": ("out-of-host-memory", 137, False, ["host memory, not GPU memory", "its memory limit is 64Mi"]),
    "pull": ("image", None, False, ["its image registry.invalid/no/such:1 cannot be pulled (ErrImagePull)"]),
    "never-pull": ("image", None, False, ["imagePullPolicy Never", "ErrImageNeverPull"]),
    "invalid-image": ("image", None, False, ["InvalidImageName", "Not A Name"]),
    "missing-secret": ("container", None, False, ["CreateContainerConfigError", 'secret "no-such" not found']),
    "no-such-program": ("ended", 128, False, ["could not be started (StartError)", "/no/such/program"]),
    "init": ("init-container", 4, False, ["init container fetch of Pod judges/vllm-", "exit code 4"]),
    "mount": ("mount", None, False, ["a volume of Pod judges/vllm-", 'secret "no-such" not found']),
    "runtime": ("sandbox", None, False, ["runtime class judges-nosuch", "the node's container runtime has none"]),
    "quota": ("not-created", None, False, ["FailedCreate", "exceeded quota: none"]),
    "rejected": ("rejected", None, True, ["OutOfcpu", "without end, so the Deployment must be scaled down now"]),
    "node-selector": (
        "unschedulable",
        None,
        False,
        ["no node has the labels gpu=h100", "the scheduler says: 0/1 nodes"],
    ),
    "no-such-resource": ("unschedulable", None, False, ["1 amd.com/gpu wanted", "holds any"]),
    "held": (
        "unschedulable",
        None,
        False,
        ["1 nvidia.com/gpu wanted, and held by judges/mine-", "(1, of Deployment mine, since 2026-11-30T"],
    ),
    "deadlock": (
        "deadlock",
        None,
        False,
        ["waits for what the old one holds (judges/vllm-", "use strategy Recreate", "of Deployment vllm, since"],
    ),
    "slow": ("ended", 0, False, ["kubelet says: Container vllm failed startup probe, will be restarted"]),
}


@pytest.mark.parametrize("offset", [0.0, 0.3, 0.7])
@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_named_within_5_s_of_kubernetes_showing_it(name: str, offset: float) -> None:
    kind, exit_code, respawns, words = FAULTS[name]
    found = first_failure(recorded(name), offset)
    assert found is not None
    _, failure = found
    assert (failure.kind, failure.exit_code, failure.respawns) == (kind, exit_code, respawns)
    for part in words:
        assert part in failure.words
    # Looked at once a second, and counted from the last look without it: never 0, which would be nobody's knowledge.
    assert 0 < failure.seconds <= 5


@pytest.mark.parametrize("name", ["rolling", "recreate", "ready-never", "zero"])
def test_a_sound_rollout_shows_no_failure_at_any_moment(name: str) -> None:
    which = recorded(name)
    watch = PodWatch(which.begun, which.before)
    looked = [watch.observe(which.at(one["at"])) for one in which.observations if one["at"] >= which.written_at]
    assert len(looked) >= 3
    assert looked == [None] * len(looked)


def test_the_old_pods_end_under_recreate_is_not_the_new_ones() -> None:
    """The old container ends with a code of its own while the rollout begins."""
    which = recorded("crash")
    found = first_failure(which)
    assert found is not None
    assert found[1].pod is not None
    old = [p["metadata"]["name"] for p in which.observations[0]["pods"]]
    assert found[1].pod.removeprefix("judges/") not in old


# Made by hand, on a recorded Deployment -------------------------------------------------------------------


class Case:
    """A Deployment, its new ReplicaSet and one Pod of it, to be changed and watched."""

    def __init__(self, name: str = "never-pull") -> None:
        self.which = recorded(name)
        self.now = self.which.at(self.which.observations[-1]["at"])
        (self.pod,) = self.now.pods
        self.now = dataclasses.replace(self.now, events=[], at=0.0)
        self.watch = PodWatch(begun=0.0)

    @property
    def status(self) -> Object:
        status: Object = self.pod["status"]
        return status

    def container(self, **state: Any) -> None:
        one = {"name": "vllm", "image": "i:1", "restartCount": 0, "state": {}, **state}
        self.status["containerStatuses"] = [one]

    def waiting(self, reason: str, message: str = "") -> None:
        self.container(state={"waiting": {"reason": reason, "message": message}})

    def old(self, **metadata: Any) -> Object:
        """A Pod of an older ReplicaSet of the same Deployment, added."""
        replica_set = copy.deepcopy(self.now.replica_sets[0])
        replica_set["metadata"].update(name="vllm-old", uid="old-set")
        replica_set["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = "0"
        replica_set["spec"]["template"]["spec"]["containers"][0]["image"] = "other:1"
        made = pod("vllm-old-1", namespace="judges")
        made["metadata"].update(ownerReferences=[{"uid": "old-set", "controller": True}], **metadata)
        self.now = dataclasses.replace(
            self.now, replica_sets=[*self.now.replica_sets, replica_set], pods=[*self.now.pods, made]
        )
        return made

    def look(self, second: float, **changed: Any) -> Failure | None:
        return self.watch.observe(dataclasses.replace(self.now, at=second, **changed))


@pytest.mark.parametrize(
    "reason",
    [
        "ErrImageNeverPull",
        "InvalidImageName",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
        "PostStartHookError",
    ],
)
def test_what_no_waiting_heals_is_final_at_the_first_look(reason: str) -> None:
    case = Case()
    case.waiting(reason, "so")
    failure = case.look(0.8)
    assert failure is not None and failure.seconds == 0.8
    assert f"({reason}): so" in failure.words


@pytest.mark.parametrize(
    ("first", "second"), [("ErrImagePull", "ImagePullBackOff"), ("ImagePullBackOff", "ErrImagePull")]
)
def test_a_failed_pull_is_final_at_the_second_look_whichever_way_it_is_said(first: str, second: str) -> None:
    case = Case()
    case.waiting("ContainerCreating")
    assert case.look(1.0) is None
    case.waiting(first)
    assert case.look(2.0) is None
    case.waiting(second)
    failure = case.look(3.0)
    assert failure is not None and (failure.kind, failure.seconds) == ("image", 2.0)


def test_a_secret_that_kubelet_has_not_read_yet_gets_time() -> None:
    case = Case()
    case.waiting("CreateContainerConfigError", "failed to sync secret cache: timed out waiting for the condition")
    assert [case.look(float(second)) for second in range(1, 6)] == [None] * 5
    late = case.look(25.0)
    assert late is not None and late.kind == "container"


def test_an_engine_that_was_restarted_is_no_fresh_engine_even_while_it_runs() -> None:
    case = Case()
    running = {"running": {"startedAt": "2026-11-30T15:40:00Z"}}
    case.container(state=running, ready=True)
    assert case.look(1.0) is None
    case.container(state=running, ready=True, restartCount=1)
    failure = case.look(2.0)
    assert failure is not None and (failure.kind, failure.exit_code) == ("ended", None)
    assert "was restarted 1 times" in failure.words


@pytest.mark.parametrize("code", [0, 1, 137])
def test_an_engines_first_end_is_a_failure_with_any_code_and_137_alone_is_not_host_memory(code: int) -> None:
    case = Case()
    case.container(
        state={"running": {}}, lastState={"terminated": {"exitCode": code, "reason": "Error"}}, restartCount=1
    )
    failure = case.look(1.0)
    assert failure is not None and (failure.kind, failure.exit_code) == ("ended", code)
    assert "memory" not in failure.words


def test_an_end_that_follows_oom_kills_is_told_by_its_newest() -> None:
    case = Case()
    case.container(
        state={"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
        lastState={"terminated": {"exitCode": 1, "reason": "Error"}},
        restartCount=1,
    )
    failure = case.look(1.0)
    assert failure is not None and failure.kind == "out-of-host-memory"
    assert "it has no memory limit of its own" in failure.words


def test_a_helper_beside_the_engine_may_restart_and_may_not_crash_for_ever() -> None:
    case = Case()
    spec = case.pod["spec"]["containers"]
    spec.append({"name": "helper", "image": "i:1"})
    engine = {"name": "vllm", "state": {"running": {}}, "restartCount": 0}
    helper = {"name": "helper", "restartCount": 1, "lastState": {"terminated": {"exitCode": 2}}}
    case.status["containerStatuses"] = [engine, {**helper, "state": {"running": {}}}]
    assert case.look(1.0) is None and case.look(2.0) is None
    case.status["containerStatuses"] = [engine, {**helper, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]
    assert case.look(3.0) is None
    failure = case.look(4.0)
    assert failure is not None and (failure.kind, failure.container) == ("crash-loop", "helper")
    assert "last with exit code 2" in failure.words


def test_the_engines_container_can_be_named() -> None:
    case = Case()
    case.watch = PodWatch(begun=0.0, container="other")
    case.container(state={"terminated": {"exitCode": 1}})
    assert case.look(1.0) is None
    case.status["containerStatuses"][0]["name"] = "other"
    assert case.look(2.0) is not None


def test_an_init_container_that_succeeded_is_fine_and_one_that_cannot_be_pulled_is_not() -> None:
    case = Case()
    case.waiting("PodInitializing")
    case.pod["spec"]["initContainers"] = [{"name": "fetch", "image": "i:1"}]
    case.status["initContainerStatuses"] = [{"name": "fetch", "state": {"terminated": {"exitCode": 0}}}]
    assert case.look(1.0) is None
    case.status["initContainerStatuses"] = [{"name": "fetch", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]
    assert case.look(2.0) is None
    failure = case.look(3.0)
    assert failure is not None and failure.words.startswith("init container fetch of Pod judges/vllm-")


@pytest.mark.parametrize(
    ("reason", "phase", "respawns", "words"),
    [
        ("UnexpectedAdmissionError", "Failed", True, "the node turned Pod"),
        ("OutOfnvidia.com/gpu", "Failed", True, "the node turned Pod"),
        ("Evicted", "Failed", True, "was evicted from its node"),
        ("NodeLost", "Unknown", False, "was lost"),
    ],
)
def test_a_rejected_pod_is_final_at_once_and_says_whether_it_comes_again(
    reason: str, phase: str, respawns: bool, words: str
) -> None:
    case = Case()
    case.status.update(phase=phase, reason=reason, message="Allocate failed", containerStatuses=[])
    failure = case.look(1.0)
    assert failure is not None and (failure.kind, failure.respawns) == ("rejected", respawns)
    assert words in failure.words and "Allocate failed" in failure.words
    assert ("without end" in failure.words) == respawns


def test_pods_that_were_there_before_the_write_are_not_the_new_ones() -> None:
    """A restore goes back to the baseline's ReplicaSet, in whose list a Pod that was evicted long ago still stands."""
    case = Case()
    case.status.update(phase="Failed", reason="Evicted", containerStatuses=[])
    case.watch = PodWatch(begun=0.0, before={case.pod["metadata"]["uid"]})
    assert case.look(1.0) is None


def test_a_pod_that_is_being_deleted_is_not_judged() -> None:
    case = Case()
    case.container(state={"terminated": {"exitCode": 143, "reason": "Error"}})
    case.pod["metadata"]["deletionTimestamp"] = "2026-11-30T15:40:00Z"
    assert case.look(1.0) is None


# Events --------------------------------------------------------------------------------------------------


def event(case: Case, reason: str, message: str, *, uid: str | None = None) -> list[Object]:
    return [{"reason": reason, "message": message, "involvedObject": {"uid": uid or case.pod["metadata"]["uid"]}}]


def test_an_unknown_runtime_handler_is_final_at_the_second_look() -> None:
    case = Case()
    case.waiting("ContainerCreating")
    said = event(case, "FailedCreatePodSandBox", 'no runtime for "nvidia" is configured')
    assert case.look(1.0, events=said) is None
    failure = case.look(2.0, events=said)
    assert failure is not None and failure.kind == "sandbox"


def test_a_sandbox_or_a_mount_that_heals_is_forgiven() -> None:
    case = Case()
    case.waiting("ContainerCreating")
    said = event(case, "FailedMount", 'MountVolume.SetUp failed for volume "x" : secret "x" not found')
    said += event(case, "FailedCreatePodSandBox", "network plugin is not ready")
    assert case.look(1.0, events=said) is None
    # The event stays in the list; the container runs.
    case.status["phase"] = "Running"
    case.container(state={"running": {}})
    assert [case.look(float(second), events=said) for second in range(2, 30)] == [None] * 28


def test_a_mount_that_kubelet_is_not_ready_for_gets_time_and_another_pods_event_is_not_ours() -> None:
    case = Case()
    case.waiting("ContainerCreating")
    passing = event(case, "FailedMount", 'object "ns"/"kube-root-ca.crt" not registered')
    others = event(case, "FailedMount", 'secret "x" not found', uid="another")
    assert [case.look(float(second), events=passing + others) for second in range(1, 10)] == [None] * 9


# No place ------------------------------------------------------------------------------------------------


def unscheduled(case: Case, message: str = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.") -> None:
    case.status.update(
        phase="Pending",
        containerStatuses=[],
        conditions=[{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}],
    )
    case.pod["spec"].pop("nodeName", None)
    case.pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}


@pytest.mark.parametrize("ending", [True, False])
def test_unschedulable_counts_from_when_the_old_pod_is_gone(ending: bool) -> None:
    case = Case()
    unscheduled(case)
    case.now.deployment["spec"]["strategy"] = {"type": "Recreate"}
    alone = case.now
    case.old(**({"deletionTimestamp": "2026-11-30T15:40:00Z"} if ending else {}))
    assert [case.look(float(second)) for second in range(1, 60)] == [None] * 59
    case.now = alone
    assert case.look(60.0) is None and case.look(61.0) is None
    failure = case.look(62.0)
    assert failure is not None and (failure.kind, failure.seconds) == ("unschedulable", 3.0)


def test_a_terminating_pod_of_the_new_replica_set_is_an_old_one_too() -> None:
    """Scaled to zero and back at once: the same ReplicaSet, and its first Pod still holds the GPU."""
    case = Case()
    unscheduled(case)
    ending = pod("first", namespace="judges")
    ending["metadata"].update(
        ownerReferences=case.pod["metadata"]["ownerReferences"], deletionTimestamp="2026-11-30T15:40:00Z"
    )
    both = [*case.now.pods, ending]
    assert case.look(1.0, pods=both) is None and case.look(2.0, pods=both) is None
    assert case.look(3.0) is None
    assert case.look(5.0) is not None


def test_an_evicted_old_pod_that_holds_nothing_does_not_hide_that_there_is_no_room() -> None:
    case = Case()
    unscheduled(case)
    case.old()["status"]["phase"] = "Failed"
    assert case.look(1.0) is None
    assert case.look(3.0) is not None


def test_another_deployments_pod_that_is_giving_the_gpu_back_is_waited_for() -> None:
    """The baseline was scaled to zero for the time, and its Pod takes a while to end."""
    case = Case()
    unscheduled(case)
    limits = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    holder = pod("baseline-0", namespace="other", containers=[{"name": "c", "image": "i:1", **limits}])
    holder["metadata"]["deletionTimestamp"] = "2026-11-30T15:40:00Z"
    everywhere = [*case.now.pods, holder]
    assert [case.look(float(second), everywhere=everywhere) for second in range(1, 30)] == [None] * 29
    del holder["metadata"]["deletionTimestamp"]
    assert case.look(30.0, everywhere=everywhere) is None
    assert case.look(32.0, everywhere=everywhere) is not None


@pytest.mark.parametrize(
    ("strategy", "deadlock"),
    [
        ({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}, True),
        ({"type": "RollingUpdate"}, True),
        ({}, True),
        ({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}, True),
        ({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}, False),
        ({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}, False),
        ({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "25%"}}, False),
        ({"type": "Recreate"}, False),
    ],
)
def test_a_deadlock_is_where_the_strategy_ends_no_old_pod_first(strategy: Object, deadlock: bool) -> None:
    case = Case()
    unscheduled(case)
    case.now.deployment["spec"]["strategy"] = strategy
    case.old()
    looks = [case.look(float(second)) for second in range(1, 20)]
    found = [one for one in looks if one is not None]
    assert bool(found) == deadlock
    if deadlock:
        assert looks[:3] == [None] * 3 and found[0].kind == "deadlock"


def node(allocatable: Object) -> Object:
    return {"metadata": {"name": "node"}, "status": {"allocatable": allocatable}}


def why(case: Case, **known: Any) -> str:
    assert case.look(1.0, **known) is None
    failure = case.look(3.0, **known)
    assert failure is not None and failure.kind == "unschedulable"
    return failure.words


def test_the_words_name_who_holds_the_gpu_in_any_namespace() -> None:
    case = Case()
    unscheduled(case)
    limits = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    holder = pod("notebook-0", namespace="team-b", containers=[{"name": "c", "image": "i:1", **limits}])
    holder["metadata"]["ownerReferences"] = [
        {"kind": "StatefulSet", "name": "notebook", "uid": "x", "controller": True}
    ]
    words = why(case, everywhere=[*case.now.pods, holder], nodes=[node({"nvidia.com/gpu": "1"})])
    told = "held by team-b/notebook-0 (1, of StatefulSet notebook, since 2026-11-30T15:00:00Z)"
    assert f"1 nvidia.com/gpu wanted, and {told}" in words


@pytest.mark.parametrize("allocatable", [{}, {"nvidia.com/gpu": "0"}])
def test_the_words_say_that_no_node_offers_any(allocatable: Object) -> None:
    case = Case()
    unscheduled(case)
    words = why(case, nodes=[node(allocatable)])
    assert "1 nvidia.com/gpu wanted, and no node offers any; its device plugin does not run" in words


@pytest.mark.parametrize(
    ("everywhere", "where"), [([], "in any namespace"), (None, "in this namespace (those of others may not be listed)")]
)
def test_the_words_say_what_was_not_seen(everywhere: list[Object] | None, where: str) -> None:
    case = Case()
    unscheduled(case)
    assert f"no Pod {where} holds any" in why(case, everywhere=everywhere)


def test_taints_claims_and_cpu_are_told_apart() -> None:
    case = Case()
    unscheduled(
        case,
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint {gpu: a100}, pod has unbound "
        "immediate PersistentVolumeClaims.",
    )
    words = why(case)
    assert "too little cpu is free" in words
    assert "a node's taint {gpu: a100} is not tolerated" in words
    assert "a volume claim of it is not bound" in words


# No Pod at all -------------------------------------------------------------------------------------------


def test_a_quota_that_an_old_pod_still_uses_up_is_no_failure() -> None:
    which = recorded("quota")
    one = which.at(which.observations[-1]["at"])
    old = copy.deepcopy(one.replica_sets[0])
    old["metadata"].update(name="vllm-old", uid="old-set")
    old["spec"]["template"]["spec"]["containers"][0]["image"] = "other:1"
    left = pod("vllm-old-1", namespace="judges")
    left["metadata"].update(ownerReferences=[{"uid": "old-set", "controller": True}])
    watch = PodWatch(begun=0.0)

    def look(second: float, pods: list[Object]) -> Failure | None:
        now = Observation(second, one.deployment, [*one.replica_sets, old], pods, [])
        return watch.observe(now)

    assert [look(float(second), [left]) for second in range(1, 20)] == [None] * 19
    assert look(20.0, []) is None
    late = [look(float(second), []) for second in range(21, 24)]
    assert any(failure is not None and failure.kind == "not-created" for failure in late)


def test_a_failure_of_an_older_replica_set_is_not_the_new_ones() -> None:
    """The Deployment's own condition may be an old ReplicaSet's."""
    which = recorded("quota")
    one = which.at(which.observations[-1]["at"])
    assert any(c["type"] == "ReplicaFailure" for c in one.deployment["status"]["conditions"])
    del one.replica_sets[0]["status"]["conditions"]
    watch = PodWatch(begun=0.0)
    looks = [watch.observe(dataclasses.replace(one, at=float(second))) for second in range(1, 20)]
    assert looks == [None] * 19


def test_a_replica_set_that_cannot_be_made_is_told() -> None:
    which: Recorded = recorded("quota")
    one = which.at(which.observations[-1]["at"])
    said = {"type": "Progressing", "status": "False", "reason": "ReplicaSetCreateError", "message": "forbidden"}
    one.deployment["status"]["conditions"] = [said]
    watch = PodWatch(begun=0.0)
    bare = dataclasses.replace(one, replica_sets=[])
    assert watch.observe(dataclasses.replace(bare, at=1.0)) is None
    failure = watch.observe(dataclasses.replace(bare, at=2.0))
    assert failure is not None and "cannot be made: forbidden" in failure.words
