"""When a rollout is done, and by which Pod: on recorded sequences of a real cluster, and on edges made by hand."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from k8s_objects import Recorded, progress, recorded

from runner.target.kubernetes.belonging import new_replica_set, pods_of
from runner.target.kubernetes.pod_failure import Observation
from runner.target.kubernetes.rollout import gone, judge_rollout

Object = dict[str, Any]


def every(which: Recorded) -> list[Observation]:
    """Each recorded state from the write on."""
    states = [which.at(one["at"]) for one in which.observations if one["at"] >= which.written_at]
    return [one for one in [which.at(which.written_at), *states] if one.deployment is not None]


# Recorded ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rolling", "recreate"])
def test_the_old_pod_ready_throughout_is_never_taken_and_the_new_one_is(name: str) -> None:
    which = recorded(name)
    (old,) = which.before
    judged = [(one, progress(one, which.generation)) for one in every(which)]
    states = [made.state for _, made in judged]
    assert states == ["waiting"] * states.count("waiting") + ["done"] * states.count("done")
    assert states.count("waiting") >= 3 and states.count("done") >= 1
    for one, made in judged:
        if made.state == "done":
            assert made.pod is not None and made.replica_set is not None
            assert made.pod["metadata"]["uid"] != old
            assert made.pod["metadata"]["ownerReferences"][0]["uid"] == made.replica_set["metadata"]["uid"]
            assert made.pod["metadata"]["annotations"]["llm-experiment-runner/launch"] == "run1-on-1"
            assert "deletionTimestamp" not in made.pod["metadata"]
            # The old ReplicaSet has no say any more, and is still listed.
            assert len(one.replica_sets) == 2
        else:
            assert made.pod is None


def test_while_the_old_pod_is_ready_the_rollout_waits_for_the_new_one() -> None:
    which = recorded("rolling")
    (old,) = which.before
    waited = 0
    for one in every(which):
        held = [pod for pod in one.pods if pod["metadata"]["uid"] == old and pod["status"]["phase"] == "Running"]
        made = progress(one, which.generation)
        if held and not held[0]["metadata"].get("deletionTimestamp"):
            assert made.state == "waiting"
            waited += 1
    assert waited >= 3


def test_before_the_write_was_observed_a_finished_rollout_is_not_done() -> None:
    which = recorded("rolling")
    first = which.at(0.0)
    # The object as it was: kubectl's counts all say done, and only the generation does not.
    assert progress(first, 1).state == "done"
    judged = progress(first, 2)
    assert (judged.state, judged.pod) == ("waiting", None)
    assert judged.words == "the Deployment controller has not seen the change yet (generation 1 of 2)"


def test_generation_7_observed_6_is_not_observed_yet() -> None:
    which = recorded("rolling")
    one = which.at(0.0)
    one.deployment["metadata"]["generation"] = 7
    one.deployment["status"]["observedGeneration"] = 6
    judged = progress(one, 7)
    assert judged.state == "waiting"
    assert judged.words == "the Deployment controller has not seen the change yet (generation 6 of 7)"


def test_a_deployment_without_a_status_waits() -> None:
    one = recorded("recreate").at(0.0)
    del one.deployment["status"]
    assert progress(one, 1).state == "waiting"


def test_slow_while_the_startup_budget_runs_and_failed_after_it() -> None:
    which = recorded("slow")
    judged = [progress(one, 1) for one in every(which)]
    states = list(dict.fromkeys(made.state for made in judged))
    assert states == ["waiting", "slow", "failed"]
    slow = next(made for made in judged if made.state == "slow")
    assert "progressDeadlineSeconds (4)" in slow.words and "gives it 8 s, and they are not over" in slow.words


@pytest.mark.parametrize("change", ["started", "restarted", "no probe"])
def test_late_and_no_longer_starting_is_failed(change: str) -> None:
    which = recorded("slow")
    late = next(one for one in every(which) if progress(one, 1).state == "slow")
    (pod,) = late.pods
    container = pod["status"]["containerStatuses"][0]
    if change == "started":
        container["started"] = True
    elif change == "restarted":
        container["restartCount"] = 1
    else:
        del pod["spec"]["containers"][0]["startupProbe"]
    assert progress(late, 1).state == "failed"


def test_past_the_deadline_without_a_startup_budget_is_failed_and_says_why() -> None:
    which = recorded("ready-never")
    judged = [progress(one, which.generation) for one in every(which)]
    assert list(dict.fromkeys(made.state for made in judged)) == ["waiting", "failed"]
    assert "Ready: containers with unready status: [vllm]" in judged[-1].words


def test_a_scale_to_zero_is_done_when_no_pod_is_left() -> None:
    which = recorded("zero")
    judged = [(one, progress(one, which.generation)) for one in every(which)]
    for one, made in judged:
        assert (made.state == "done") == (one.pods == [] and one.deployment["status"].get("replicas", 0) == 0)
    assert judged[-1][1].state == "done" and judged[-1][1].pod is None


def test_a_terminating_pod_keeps_a_scale_to_zero_waiting() -> None:
    which = recorded("zero")
    last = which.at(which.observations[-1]["at"])
    before = which.at(0.0)
    (pod,) = copy.deepcopy(before.pods)
    pod["metadata"]["deletionTimestamp"] = "2026-11-30T15:40:00Z"
    judged = judge_rollout(last.deployment, last.replica_sets, [pod], generation=which.generation)
    assert judged.state == "waiting"
    assert judged.words.startswith("still ending: judges/vllm-")


# Somebody else -------------------------------------------------------------------------------------------


def done() -> tuple[Observation, int]:
    which = recorded("recreate")
    one = which.at(which.observations[-1]["at"])
    assert progress(one, which.generation).state == "done"
    return one, which.generation


@pytest.mark.parametrize("field", ["live", "observed"])
def test_a_generation_beyond_the_written_one_is_somebody_else(field: str) -> None:
    one, generation = done()
    if field == "live":
        one.deployment["metadata"]["generation"] = generation + 1
    else:
        one.deployment["status"]["observedGeneration"] = generation + 1
    judged = progress(one, generation)
    assert (judged.state, judged.pod) == ("changed", None)
    assert "somebody else changed the Deployment" in judged.words


def test_a_stale_read_waits() -> None:
    one, generation = done()
    assert progress(one, generation + 1).state == "waiting"


def test_a_deployment_that_is_gone_going_or_another_is_changed() -> None:
    one, generation = done()
    assert judge_rollout(None, one.replica_sets, one.pods, generation=generation).state == "changed"
    own = one.deployment["metadata"]["uid"]
    same = judge_rollout(one.deployment, one.replica_sets, one.pods, generation=generation, made=own)
    assert same.state == "done"
    other = judge_rollout(one.deployment, one.replica_sets, one.pods, generation=generation, made="another")
    assert other.state == "changed" and "another UID" in other.words
    one.deployment["metadata"]["deletionTimestamp"] = "2026-11-30T15:40:00Z"
    assert progress(one, generation).state == "changed"


# The counts, in kubectl's order, and the Pod --------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({"updatedReplicas": None}, "0 of 1 new Pods made"),
        ({"replicas": 3}, "2 old Pods still to end"),
        ({"replicas": 2}, "1 old Pod still to end"),
        ({"availableReplicas": None}, "0 of 1 new Pods available"),
        # The first that lacks is what is said.
        ({"updatedReplicas": 0, "replicas": 1, "availableReplicas": 1}, "0 of 1 new Pods made"),
        ({"replicas": 2, "availableReplicas": 0}, "1 old Pod still to end"),
    ],
)
def test_counts_are_judged_in_kubectls_order_and_an_absent_one_is_0(counts: Object, words: str) -> None:
    one, generation = done()
    for name, count in counts.items():
        one.deployment["status"].pop(name, None)
        if count is not None:
            one.deployment["status"][name] = count
    judged = progress(one, generation)
    assert (judged.state, judged.words, judged.pod) == ("waiting", words, None)


def test_unavailable_replicas_absent_are_none() -> None:
    one, generation = done()
    assert "unavailableReplicas" not in one.deployment["status"]
    assert progress(one, generation).state == "done"


@pytest.mark.parametrize("change", ["not ready", "deleting", "finished", "another launch", "no pods", "another owner"])
def test_good_counts_without_the_new_pod_itself_are_not_done(change: str) -> None:
    one, generation = done()
    (pod,) = one.pods
    pods = [] if change == "no pods" else [pod]
    if change == "not ready":
        next(c for c in pod["status"]["conditions"] if c["type"] == "Ready")["status"] = "False"
    elif change == "deleting":
        pod["metadata"]["deletionTimestamp"] = "2026-11-30T15:40:00Z"
    elif change == "finished":
        pod["status"]["phase"] = "Failed"
    elif change == "another launch":
        pod["metadata"]["annotations"]["llm-experiment-runner/launch"] = "run0-on-1"
    elif change == "another owner":
        pod["metadata"]["ownerReferences"][0]["uid"] = "another"
    judged = judge_rollout(one.deployment, one.replica_sets, pods, generation=generation)
    assert (judged.state, judged.pod, judged.words) == ("waiting", None, "0 of 1 Pods of the new ReplicaSet Ready")


def test_a_replica_set_of_an_equal_template_and_an_older_revision_is_not_the_new_one_yet() -> None:
    """A restore goes back to a ReplicaSet that is there: it is the new one once the controller has said so."""
    one, _ = done()
    new = new_replica_set(one.deployment, one.replica_sets)
    assert new is not None
    assert new["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
    new["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = "1"
    assert new_replica_set(one.deployment, one.replica_sets) is None


def test_the_newest_revision_with_another_template_is_not_the_new_one() -> None:
    """Right after a write the newest revision is still the old ReplicaSet's."""
    one, generation = done()
    one.deployment["spec"]["template"]["metadata"]["annotations"]["llm-experiment-runner/launch"] = "run1-off-2"
    assert new_replica_set(one.deployment, one.replica_sets) is None
    assert progress(one, generation).words == "the new ReplicaSet is not there yet"


def test_a_replica_set_of_a_deployment_of_the_same_name_that_is_gone_is_none_of_this_one() -> None:
    one, _ = done()
    for replica_set in one.replica_sets:
        replica_set["metadata"]["ownerReferences"][0]["uid"] = "the one before"
    assert new_replica_set(one.deployment, one.replica_sets) is None
    assert pods_of(one.deployment, one.replica_sets, one.pods) == []


def test_a_paused_deployment_with_something_to_roll_out_is_failed() -> None:
    one, generation = done()
    one.deployment["spec"]["paused"] = True
    assert progress(one, generation).state == "done"
    one.deployment["status"]["updatedReplicas"] = 0
    judged = progress(one, generation)
    assert judged.state == "failed" and "paused" in judged.words


def test_past_the_deadline_a_pod_whose_image_is_still_pulled_is_slow_and_an_unscheduled_one_failed() -> None:
    late = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}
    one = recorded("never-pull").at(1.5)
    (pod,) = one.pods
    one.deployment["status"].update(conditions=[late], observedGeneration=1, updatedReplicas=1, replicas=1)
    creating = {"waiting": {"reason": "ContainerCreating"}}
    pod["status"]["containerStatuses"] = [{"name": "vllm", "state": creating, "restartCount": 0}]
    assert progress(one, 1).state == "slow"
    assert "are still being made" in progress(one, 1).words
    scheduled = next(c for c in pod["status"]["conditions"] if c["type"] == "PodScheduled")
    scheduled.update(status="False", message="0/1 nodes are available")
    judged = progress(one, 1)
    assert judged.state == "failed" and "PodScheduled: 0/1 nodes are available" in judged.words


def test_gone_counts_what_may_still_run() -> None:
    assert gone([])
    ended = {"metadata": {}, "status": {"phase": "Failed"}}
    assert gone([ended])
    assert not gone([{"metadata": {}, "status": {"phase": "Running"}}])
    assert not gone(
        [ended, {"metadata": {"deletionTimestamp": "2026-11-30T15:40:00Z"}, "status": {"phase": "Running"}}]
    )
