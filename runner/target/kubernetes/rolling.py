"""Waiting for a rollout: until the new Pod is there, it has failed, or it took too long."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any

from runner.engine.failure import cause, last_words
from runner.target.base import TargetError
from runner.target.kubernetes.belonging import condition, deleting, owned, phase
from runner.target.kubernetes.calls import read, written
from runner.target.kubernetes.cluster import Cluster, ClusterError
from runner.target.kubernetes.pod_failure import Failure, Observation, PodWatch
from runner.target.kubernetes.rollout import Progress, judge_rollout

_POLL = 1.0
_LOST = 30.0
"""Seconds for which the API server may be away: a rollout goes on without it."""


async def _anywhere(_: dict[str, Any]) -> None:
    """Whoever does not ask for the Pod's address does not mind it."""


@dataclass(frozen=True, slots=True)
class RolledOut:
    """The new Pod, its ReplicaSet, and how long it took, in seconds."""

    pod: dict[str, Any]
    replica_set: dict[str, Any]
    seconds: float


async def rolled_out(
    cluster: Cluster,
    deployment: dict[str, Any],
    *,
    container: str | None,
    limit: float,
    before: Collection[str],
    halt: Callable[[], object] | None,
    lost: float = _LOST,
    seen: Callable[[dict[str, Any]], Callable[[], list[str]]] = lambda _: list,
    addressed: Callable[[dict[str, Any]], Awaitable[None]] = _anywhere,
) -> RolledOut:
    """Wait for the rollout of `deployment` as it was written, for `limit` seconds. `before`: the UIDs of the Pods that
    were there then. `halt` scales it to zero, where it makes one Pod after the other; None: the next one is waited for,
    as for a Deployment that has run before. The API server may be away for `lost` seconds. `seen` hears of the new Pod
    as soon as there is one, and gives what reads its log; `addressed` hears of it once it has an address, Ready or not,
    and may raise. Raises TargetError."""
    started = time.monotonic()
    watch = PodWatch(started, frozenset(before), container)
    log: Callable[[], list[str]] = list
    known: str | None = None
    placed: str | None = None
    last_answer = started
    words = "nothing was seen of it"
    while True:
        try:
            now = await read(lambda: observe(cluster, deployment))
        except ClusterError as error:
            if time.monotonic() - last_answer > lost:
                raise TargetError(f"the cluster is lost: {error}") from None
            await asyncio.sleep(_POLL)
            continue
        last_answer = time.monotonic()
        progress = judge_rollout(
            now.deployment,
            now.replica_sets,
            now.pods,
            generation=deployment["metadata"]["generation"],
            made=deployment["metadata"]["uid"],
        )
        words = progress.words
        newest = _newest(progress, now, before)
        if newest is not None and newest["metadata"]["uid"] != known:
            known = newest["metadata"]["uid"]
            log = seen(newest)
        if known != placed and newest is not None and (newest.get("status") or {}).get("podIP"):
            placed = known
            await addressed(newest)
        if progress.state == "done" and progress.pod is not None and progress.replica_set is not None:
            return RolledOut(progress.pod, progress.replica_set, time.monotonic() - started)
        if progress.state in ("failed", "changed"):
            raise TargetError(progress.words)
        failure = watch.observe(now)
        if failure is not None and failure.respawns and halt is None:
            words = failure.words
        elif failure is not None:
            if failure.respawns and halt is not None:
                with contextlib.suppress(ClusterError):  # the failure is told in any case
                    await written(halt)
            raise _told(failure, log())
        if time.monotonic() - started > limit:
            raise TargetError(f"not rolled out within {limit:g} s: {words}", last_words(log()))
        await asyncio.sleep(_POLL)


def selected_pods(cluster: Cluster, deployment: dict[str, Any]) -> frozenset[str]:
    """The UIDs of the Pods that a Deployment selects. Blocks; raises ClusterError."""
    labels = deployment["spec"]["selector"].get("matchLabels") or {}
    return frozenset(pod["metadata"]["uid"] for pod in cluster.list("Pod", labels=labels))


def observe(cluster: Cluster, deployment: dict[str, Any]) -> Observation:
    """Look now. Blocks; raises ClusterError, and TargetError where it is not there any more."""
    name = deployment["metadata"]["name"]
    labels = deployment["spec"]["selector"].get("matchLabels") or {}
    live = cluster.get("Deployment", name)
    if live is None:
        raise TargetError(f"the Deployment {name} was deleted meanwhile")
    pods = cluster.list("Pod", labels=labels)
    stuck = any((condition(pod, "PodScheduled") or {}).get("status") == "False" for pod in pods)
    return Observation(
        time.monotonic(),
        live,
        cluster.list("ReplicaSet", labels=labels),
        pods,
        cluster.list("Event") if any(phase(pod) != "Running" or _ended_once(pod) for pod in pods) else [],
        _allowed(lambda: cluster.list("Pod", everywhere=True)) if stuck else None,
        _allowed(lambda: cluster.list("Node")) if stuck else None,
    )


def _ended_once(pod: dict[str, Any]) -> bool:
    """Whether a container of it has ended: events tell if kubelet ended it, and why."""
    shown: list[dict[str, Any]] = (pod.get("status") or {}).get("containerStatuses") or []
    return any(one.get("restartCount") or "terminated" in (one.get("state") or {}) for one in shown)


def _allowed(ask: Callable[[], list[dict[str, Any]]]) -> list[dict[str, Any]] | None:
    """What a namespace's Role may not allow to be seen."""
    try:
        return ask()
    except ClusterError:
        return None


def _newest(progress: Progress, now: Observation, before: Collection[str]) -> dict[str, Any] | None:
    if progress.replica_set is None:
        return None
    mine = [pod for pod in owned(now.pods, progress.replica_set) if pod["metadata"]["uid"] not in before]
    return next((pod for pod in mine if not deleting(pod)), None)


def _told(failure: Failure, log: list[str]) -> TargetError:
    words = last_words(log)
    died_of = cause(words)
    return TargetError(f"{failure.words}{f': {died_of}' if died_of else ''}", words, failure.seconds)
