"""A Deployment's rollout history, which a run must leave as it found it: each launch makes a ReplicaSet, to which
`kubectl rollout undo` would roll, and Kubernetes prunes the oldest, which are the user's, to keep no more than
`revisionHistoryLimit`: for the time of the run nothing is pruned (`render.KEEP_HISTORY`)."""

from collections.abc import Iterable
from typing import Any

from runner.target.kubernetes.belonging import full_name, launch_of, owned, uid
from runner.target.kubernetes.cluster import Cluster, ClusterError

Object = dict[str, Any]


def launches(deployment: Object, replica_sets: Iterable[Object], run: str) -> list[Object]:
    """The Deployment's ReplicaSets that this run's launches made."""
    made = []
    for one in owned(replica_sets, deployment):
        launch = launch_of(one["spec"]["template"])
        if launch is not None and launch.rpartition(".")[0] == run:
            made.append(one)
    return made


def forget_launches(cluster: Cluster, deployment: Object, run: str) -> list[str]:
    """Delete the ReplicaSets of this run's launches; returns those that stay, each with the reason, in one line.
    Blocks, and never raises: the Deployment is what matters.

    To be called when the Deployment's template is the user's again, and before its rollout is done: until then
    Kubernetes prunes nothing, and the ReplicaSet of a template that is in force would be made anew.
    """
    labels = deployment["spec"]["selector"].get("matchLabels") or {}
    try:
        found = launches(deployment, cluster.list("ReplicaSet", labels=labels), run)
    except ClusterError as error:
        return [f"ReplicaSets of this run may be left in the rollout history: {error}"]
    left = []
    for one in found:
        name = full_name(one)
        if one["spec"].get("replicas") or (one.get("status") or {}).get("replicas"):
            left.append(f"ReplicaSet {name} of this run still has Pods")
            continue
        try:
            cluster.delete("ReplicaSet", one["metadata"]["name"], uid=uid(one))
        except ClusterError as error:
            left.append(f"ReplicaSet {name} of this run is left in the rollout history: {error}")
    return left
