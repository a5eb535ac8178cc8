"""How far a Deployment's rollout is, as kubectl judges it, and which Pod it has brought."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from runner.target.kubernetes.belonging import (
    condition,
    deleting,
    finished,
    full_name,
    launch_of,
    new_replica_set,
    owned,
    phase,
    pods_of,
    ready,
    uid,
)

Object = dict[str, Any]
State = Literal["waiting", "slow", "done", "failed", "changed"]


@dataclass(frozen=True, slots=True)
class Progress:
    """`waiting`; `slow`: later than the Deployment's progress deadline, and nothing speaks against it yet; `done`, with
    the new Pod (none where no replica is wanted); `failed`; `changed`: the object is no longer as it was written, so
    whatever it does now is not this rollout. `words` say why, or what is waited for."""

    state: State
    words: str
    pod: Object | None = None
    replica_set: Object | None = None


def judge_rollout(
    deployment: Object | None,
    replica_sets: Iterable[Object],
    pods: Iterable[Object],
    *,
    generation: int,
    made: str | None = None,
) -> Progress:
    """Judge one observation of a Deployment that a write has given `generation`, and, where it is told, whose UID was
    `made`. None for the Deployment: it is not there.

    Done is what kubectl calls done, and more: a Pod of the new ReplicaSet that is Ready and not being deleted. A Pod of
    an older ReplicaSet is never taken, ready or not.
    """
    if deployment is None:
        return Progress("changed", "the Deployment is not there any more: somebody else deleted it")
    if (changed := _changed(deployment, generation, made)) is not None:
        return Progress("changed", changed)
    status = deployment.get("status") or {}
    observed = int(status.get("observedGeneration") or 0)
    if int(deployment["metadata"]["generation"]) < generation or observed < generation:
        words = f"the Deployment controller has not seen the change yet (generation {observed} of {generation})"
        return Progress("waiting", words)
    sets, all_pods = list(replica_sets), list(pods)
    if _wanted(deployment) == 0:
        return _scaled_to_zero(deployment, sets, all_pods)
    new = new_replica_set(deployment, sets)
    mine = _live(new, all_pods)
    counts = _counts(deployment)
    if counts is None and new is not None:
        return _with_pod(deployment, new, mine)
    words = counts or "the new ReplicaSet is not there yet"
    progressing = condition(deployment, "Progressing") or {}
    if progressing.get("reason") == "ProgressDeadlineExceeded":
        return _late(deployment, new, mine, words)
    if deployment["spec"].get("paused"):
        paused = f"the Deployment is paused (spec.paused), so it rolls nothing out: {words}"
        return Progress("failed", paused, None, new)
    return Progress("waiting", words, None, new)


def gone(pods: Iterable[Object]) -> bool:
    """Whether nothing of these Pods runs any more: none is left, but for those whose containers have all ended."""
    return all(finished(pod) and not deleting(pod) for pod in pods)


def _changed(deployment: Object, generation: int, made: str | None) -> str | None:
    metadata = deployment["metadata"]
    live, observed = int(metadata["generation"]), int((deployment.get("status") or {}).get("observedGeneration") or 0)
    if made is not None and uid(deployment) != made:
        return "the Deployment was deleted and made again by somebody else (it has another UID)"
    if deleting(deployment):
        return "the Deployment is being deleted by somebody else"
    if max(live, observed) > generation:
        return (
            f"somebody else changed the Deployment meanwhile (its generation is {max(live, observed)}; this run's own "
            f"write made it {generation})"
        )
    return None


def _wanted(deployment: Object) -> int:
    replicas = deployment["spec"].get("replicas")
    return 1 if replicas is None else int(replicas)


def _counts(deployment: Object) -> str | None:
    """What the counts of the status still lack, in kubectl's order; None where they lack nothing. A count that is not
    there is 0."""
    status = deployment.get("status") or {}
    wanted = _wanted(deployment)
    replicas, updated, available = (
        int(status.get(name) or 0) for name in ("replicas", "updatedReplicas", "availableReplicas")
    )
    if updated < wanted:
        return f"{updated} of {wanted} new Pods made"
    if replicas > updated:
        return f"{replicas - updated} old {'Pod' if replicas - updated == 1 else 'Pods'} still to end"
    if available < updated:
        return f"{available} of {updated} new Pods available"
    return None


def _live(replica_set: Object | None, pods: list[Object]) -> list[Object]:
    """The Pods of a ReplicaSet that are to stay, the oldest first."""
    if replica_set is None:
        return []
    mine = [pod for pod in owned(pods, replica_set) if not deleting(pod) and not finished(pod)]
    return sorted(mine, key=lambda pod: (str(pod["metadata"].get("creationTimestamp")), full_name(pod)))


def _with_pod(deployment: Object, new: Object, pods: list[Object]) -> Progress:
    """The counts say done: the Pods must say so too. They were read at another moment than the counts."""
    launch = launch_of(deployment["spec"]["template"])
    standing = [pod for pod in pods if ready(pod) and launch_of(pod) == launch]
    if len(standing) < _wanted(deployment):
        words = f"{len(standing)} of {_wanted(deployment)} Pods of the new ReplicaSet Ready"
        return Progress("waiting", words, None, new)
    pod = standing[0]
    return Progress("done", f"Pod {full_name(pod)} of the new ReplicaSet is Ready", pod, new)


def _scaled_to_zero(deployment: Object, sets: list[Object], pods: list[Object]) -> Progress:
    new = new_replica_set(deployment, sets)
    left = [pod for pod in pods_of(deployment, sets, pods) if not gone([pod])]
    if left:
        return Progress("waiting", f"still ending: {', '.join(full_name(pod) for pod in left)}", None, new)
    if int((deployment.get("status") or {}).get("replicas") or 0) > 0:
        return Progress("waiting", "the Deployment still counts Pods", None, new)
    return Progress("done", "no Pod of the Deployment is left", None, new)


def _late(deployment: Object, new: Object | None, pods: list[Object], words: str) -> Progress:
    """kubectl gives up here. A model that loads for longer than the deadline is no failure while kubelet itself still
    waits for it: `started` is false until the startup probe has passed, and kubelet ends the container where the
    probe's budget is used up."""
    seconds = deployment["spec"].get("progressDeadlineSeconds")
    late = f"later than the Deployment's progressDeadlineSeconds ({seconds})"
    standing = next((reason for pod in pods if (reason := _under_way(pod)) is not None), None)
    if standing is not None:
        return Progress("slow", f"{late}, but {standing}: {words}", None, new)
    return Progress("failed", f"{late}: {words}{_why(pods)}", None, new)


def _under_way(pod: Object) -> str | None:
    """Why a Pod that is not Ready may well become so; None where nothing says that."""
    if (condition(pod, "PodScheduled") or {}).get("status") != "True":
        return None
    name = full_name(pod)
    status = pod.get("status") or {}
    probed = {one["name"]: one["startupProbe"] for one in pod["spec"]["containers"] if one.get("startupProbe")}
    shown: list[Object] = status.get("containerStatuses") or []
    for container in shown:
        state = container.get("state") or {}
        if "running" in state and not container.get("started") and not container.get("restartCount"):
            budget = _budget(probed.get(container["name"]))
            if budget is not None:
                return f"the startup probe of Pod {name} gives it {budget} s, and they are not over"
    waiting = [(container.get("state") or {}).get("waiting") or {} for container in shown]
    creating = any(one.get("reason") in ("ContainerCreating", "PodInitializing") for one in waiting)
    if phase(pod) == "Pending" and (not shown or creating):
        return f"the containers of Pod {name} are still being made"
    return None


def _budget(probe: Object | None) -> int | None:
    """Seconds until kubelet gives a starting container up; the absent fields are Kubernetes' own values."""
    if probe is None:
        return None
    each = int(probe.get("periodSeconds") or 10)
    return int(probe.get("initialDelaySeconds") or 0) + int(probe.get("failureThreshold") or 3) * each


def _why(pods: list[Object]) -> str:
    told = []
    for pod in pods:
        found = [(kind, condition(pod, kind) or {}) for kind in ("PodScheduled", "Ready")]
        unmet = [
            f"{kind}: {one.get('message') or one.get('reason')}" for kind, one in found if one.get("status") == "False"
        ]
        told.append(f"; Pod {full_name(pod)}: {unmet[0] if unmet else phase(pod) or 'no status yet'}")
    return "".join(told)
