"""Waiting for a rollout: until the new Pod is there, it has failed, or it took too long."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from runner.engine.failure import cause, last_words
from runner.target.base import TargetError
from runner.target.kubernetes.calls import read
from runner.target.kubernetes.cluster import Cluster, ClusterError
from runner.target.kubernetes.pod_failure import Failure, PodWatch
from runner.target.kubernetes.rollout import Progress, judge_rollout

_POLL = 1.0
_LOST = 30.0
"""Seconds for which the API server may be away: a rollout goes on without it."""


@dataclass(frozen=True, slots=True)
class RolledOut:
    """The new Pod, its ReplicaSet, and how long it took, in seconds."""

    pod: dict[str, Any]
    replica_set: dict[str, Any]
    seconds: float


async def rolled_out(
    cluster: Cluster,
    deployment: dict[str, Any],
    container: str,
    limit: float,
    seen: Callable[[dict[str, Any]], Callable[[], list[str]]] = lambda _: list,
) -> RolledOut:
    """Wait for the rollout of `deployment` as it was written, for `limit` seconds. `seen` hears of the new Pod as soon
    as there is one, and gives what reads its log. Raises TargetError."""
    started = time.monotonic()
    watch = PodWatch(container)
    log: Callable[[], list[str]] = list
    known: str | None = None
    last_answer = started
    words = "nothing was seen of it"
    while True:
        try:
            observed = await read(lambda: observe(cluster, deployment))
        except ClusterError as error:
            if time.monotonic() - last_answer > _LOST:
                raise TargetError(f"the cluster is lost: {error}") from None
            await asyncio.sleep(_POLL)
            continue
        last_answer = time.monotonic()
        progress = observed.judged(deployment)
        words = progress.words
        if progress.pod is not None and progress.pod["metadata"]["uid"] != known:
            known = progress.pod["metadata"]["uid"]
            log = seen(progress.pod)
        if progress.state == "done" and progress.pod is not None and progress.replica_set is not None:
            return RolledOut(progress.pod, progress.replica_set, time.monotonic() - started)
        if progress.state in ("failed", "changed"):
            raise TargetError(progress.words)
        failure = observed.failed(watch, progress)
        if failure is not None:
            raise _told(failure, log())
        if time.monotonic() - started > limit:
            raise TargetError(f"not rolled out within {limit:g} s: {words}", last_words(log()))
        await asyncio.sleep(_POLL)


@dataclass(frozen=True, slots=True)
class Observed:
    """One look at a Deployment and what it made."""

    deployment: dict[str, Any]
    replica_sets: list[dict[str, Any]]
    pods: list[dict[str, Any]]
    events: list[dict[str, Any]]
    tenants: list[dict[str, Any]]
    at: float

    def judged(self, written: dict[str, Any]) -> Progress:
        """How far the rollout of what was written is."""
        return judge_rollout(
            self.deployment, self.replica_sets, self.pods, generation=written["metadata"]["generation"]
        )

    def failed(self, watch: PodWatch, progress: Progress) -> Failure | None:
        """What this look, after the ones before it, says that will not come right by itself."""
        return watch.observe(self, progress)


def observe(cluster: Cluster, deployment: dict[str, Any]) -> Observed:
    """Look now. Blocks; raises ClusterError."""
    name = deployment["metadata"]["name"]
    labels = deployment["spec"]["selector"].get("matchLabels") or {}
    live = cluster.get("Deployment", name)
    if live is None:
        raise TargetError(f"the Deployment {name} was deleted meanwhile")
    pods = cluster.list("Pod", labels=labels)
    stuck = any(_unscheduled(pod) for pod in pods)
    return Observed(
        live,
        cluster.list("ReplicaSet", labels=labels),
        pods,
        cluster.list("Event") if not all(_running(pod) for pod in pods) else [],
        _tenants(cluster) if stuck else [],
        time.monotonic(),
    )


def _tenants(cluster: Cluster) -> list[dict[str, Any]]:
    """All Pods that one is allowed to see: who holds what a Pod waits for."""
    try:
        return cluster.list("Pod", everywhere=True)
    except ClusterError:
        return cluster.list("Pod")


def _running(pod: dict[str, Any]) -> bool:
    return bool(pod.get("status", {}).get("phase") == "Running")


def _unscheduled(pod: dict[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions") or []
    return any(one.get("type") == "PodScheduled" and one.get("status") == "False" for one in conditions)


def _told(failure: Failure, log: list[str]) -> TargetError:
    words = last_words(log)
    died_of = cause(words)
    return TargetError(f"{failure.words}{f': {died_of}' if died_of else ''}", words, failure.seconds)
