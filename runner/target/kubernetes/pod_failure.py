"""What has gone wrong with the Pods of a rollout, from one observation after the other."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from runner.target.kubernetes.belonging import (
    condition,
    deleting,
    finished,
    full_name,
    new_replica_set,
    owned,
    phase,
    pods_of,
    uid,
)
from runner.target.kubernetes.container_failure import ended, init_ended, waiting
from runner.target.kubernetes.unschedulable import ending_holders, why_unschedulable

Object = dict[str, Any]
Kind = Literal[
    "image",
    "container",
    "rejected",
    "ended",
    "out-of-host-memory",
    "init-container",
    "sandbox",
    "mount",
    "crash-loop",
    "unschedulable",
    "deadlock",
    "not-created",
]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why the new Pod will not come up. `words` are for the user.

    `seconds`: how long Kubernetes had shown it before it was judged, at most: from the last observation in which it did
    not yet stand. The times in the objects are other machines' clocks and are not used. `respawns`: the ReplicaSet
    makes another such Pod at once, without end, so the Deployment must be scaled down before anything else. `exit_code`
    is that of the container `container`, where one ended.
    """

    kind: Kind
    words: str
    seconds: float
    respawns: bool = False
    pod: str | None = None
    container: str | None = None
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """What was read of the cluster in one go, `at` monotonic seconds: the Deployment, the ReplicaSets, Pods and Events
    of its namespace, and, where they may be listed, the Pods of all namespaces and the nodes."""

    at: float
    deployment: Object
    replica_sets: Sequence[Object]
    pods: Sequence[Object]
    events: Sequence[Object] = ()
    everywhere: Sequence[Object] | None = None
    nodes: Sequence[Object] | None = None


@dataclass(frozen=True, slots=True)
class Symptom:
    """Something that is wrong in one observation. It is a failure once it was seen in that many observations and has
    stood for that many seconds: what may still heal gets a little time. `about` is what it is wrong with."""

    kind: Kind
    about: str
    words: str
    observations: int = 1
    seconds: float = 0.0
    respawns: bool = False
    pod: str | None = None
    container: str | None = None
    exit_code: int | None = None


@dataclass(slots=True)
class _Seen:
    since: float
    first: float
    count: int = 1


@dataclass(slots=True)
class PodWatch:
    """Looks after one rollout. `begun`: the monotonic second of the write, before which nothing can have shown.
    `before`: the UIDs of the Pods that were there then, whose old failures (an evicted Pod stays in the list) are none
    of the new ones. `container`: the engine's; its first end is a failure, since a restarted process is no longer the
    fresh one. Default: the first of the template."""

    begun: float
    before: Collection[str] = frozenset()
    container: str | None = None
    _seen: dict[tuple[str, str], _Seen] = field(default_factory=dict)
    _last: float | None = None

    def observe(self, now: Observation) -> Failure | None:
        """Judge the next observation, given all before it; None while nothing is certain."""
        engine = self.container or str(now.deployment["spec"]["template"]["spec"]["containers"][0]["name"])
        previous = self.begun if self._last is None else self._last
        self._last = now.at
        failures = []
        for symptom in symptoms(now, before=self.before, engine=engine):
            key = (symptom.kind, symptom.about)
            seen = self._seen.get(key)
            if seen is None:
                seen = self._seen[key] = _Seen(since=previous, first=now.at)
            else:
                seen.count += 1
            if seen.count >= symptom.observations and now.at - seen.first >= symptom.seconds:
                failures.append(_failure(symptom, now.at - seen.since))
        return failures[0] if failures else None


def symptoms(now: Observation, *, before: Collection[str], engine: str) -> Iterator[Symptom]:
    """What is wrong in one observation, the most telling first."""
    new = new_replica_set(now.deployment, now.replica_sets)
    mine = [] if new is None else [pod for pod in owned(now.pods, new) if uid(pod) not in before and not deleting(pod)]
    for judge in (_rejected, _ended, _waiting, _from_events):
        for pod in mine:
            yield from judge(pod, engine, now.events)
    kept = {uid(pod) for pod in mine}
    everything = pods_of(now.deployment, now.replica_sets, now.pods)
    old = [pod for pod in everything if uid(pod) not in kept and (deleting(pod) or not finished(pod))]
    for pod in mine:
        yield from _unschedulable(pod, old, now)
    yield from _not_created(now.deployment, new, old)


def _failure(symptom: Symptom, seconds: float) -> Failure:
    return Failure(
        kind=symptom.kind,
        words=symptom.words,
        seconds=seconds,
        respawns=symptom.respawns,
        pod=symptom.pod,
        container=symptom.container,
        exit_code=symptom.exit_code,
    )


# Pods that a node has turned away -----------------------------------------------------------------------


def _rejected(pod: Object, engine: str, events: Iterable[Object]) -> Iterator[Symptom]:
    """A kubelet that has no such device any more refuses each Pod that comes, and the ReplicaSet makes the next one at
    once: there were twelve thousand of them in one night. NodeLost leaves the phase as it was."""
    status = pod.get("status") or {}
    reason = str(status.get("reason") or "")
    if (phase(pod) != "Failed" and reason != "NodeLost") or _any_ended(status):
        return
    name = full_name(pod)
    said = f": {status['message']}" if status.get("message") else ""
    words = {
        "Evicted": f"Pod {name} was evicted from its node{said}",
        "NodeLost": f"the node of Pod {name} was lost{said}",
    }.get(reason, f"the node turned Pod {name} away ({reason or 'no reason given'}){said}")
    respawns = phase(pod) == "Failed"
    if respawns:
        words += "; its ReplicaSet makes another one at once, without end, so the Deployment must be scaled down now"
    yield Symptom("rejected", uid(pod), words, respawns=respawns, pod=name)


def _any_ended(status: Object) -> bool:
    """Whether a container tells more: one that ran and ended. An evicted Pod's were killed, and say only that."""
    if status.get("reason") in ("Evicted", "NodeLost"):
        return False
    every = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
    return any("terminated" in (one.get("state") or {}) for one in every)


# Containers that have ended, or cannot begin -------------------------------------------------------------


def _ended(pod: Object, engine: str, events: Iterable[Object]) -> Iterator[Symptom]:
    status = pod.get("status") or {}
    for container in status.get("containerStatuses") or []:
        if container["name"] == engine and (told := ended(pod, container, _killed(pod, engine, events))) is not None:
            kind: Kind = "out-of-host-memory" if told.out_of_memory else "ended"
            yield Symptom(kind, uid(pod), told.words, pod=full_name(pod), container=engine, exit_code=told.exit_code)
    for container in status.get("initContainerStatuses") or []:
        if (told := init_ended(pod, container)) is not None:
            yield Symptom(
                "init-container",
                f"{uid(pod)}/{container['name']}",
                told.words,
                pod=full_name(pod),
                container=str(container["name"]),
                exit_code=told.exit_code,
            )


def _killed(pod: Object, container: str, events: Iterable[Object]) -> str | None:
    """Kubelet's own word on why it ended a container: a probe that failed."""
    said = [str(one.get("message")) for one in _about(pod, events) if one.get("reason") == "Killing"]
    return next((one for one in said if container in one and "probe" in one), None)


def _waiting(pod: Object, engine: str, events: Iterable[Object]) -> Iterator[Symptom]:
    status = pod.get("status") or {}
    for which in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(which) or []:
            told = waiting(pod, container)
            if told is not None:
                kind, words, observations, seconds = told
                about = f"{uid(pod)}/{container['name']}"
                name = str(container["name"])
                yield Symptom(kind, about, words, observations, seconds, pod=full_name(pod), container=name)


# What only events tell -----------------------------------------------------------------------------------

_HANDLER: Final = ("runtime handler", "no runtime for", "RuntimeHandler")
_PASSING: Final = ("failed to sync", "not registered")
"""A volume that kubelet has not yet read the Secret or ConfigMap of: each Pod may show it once as it starts."""


def _from_events(pod: Object, engine: str, events: Iterable[Object]) -> Iterator[Symptom]:
    if not _still_being_made(pod):
        return
    name = full_name(pod)
    for event in _about(pod, events):
        reason, message = event.get("reason"), str(event.get("message") or event.get("note") or "").strip()
        if reason == "FailedCreatePodSandBox":
            handler = any(one in message for one in _HANDLER)
            runtime = pod["spec"].get("runtimeClassName")
            hint = f" (runtime class {runtime}: the node's container runtime has none of that name)" if handler else ""
            words = f"the sandbox of Pod {name} cannot be made{hint}: {message}"
            yield Symptom("sandbox", uid(pod), words, 2, 0.0 if handler else 3.0, pod=name)
        elif reason in ("FailedMount", "FailedAttachVolume", "FailedMapVolume"):
            passing = any(one in message for one in _PASSING)
            words = f"a volume of Pod {name} cannot be mounted: {message}"
            yield Symptom("mount", f"{uid(pod)}/{message}", words, 2, 20.0 if passing else 2.0, pod=name)


def _still_being_made(pod: Object) -> bool:
    status = pod.get("status") or {}
    every = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
    return phase(pod) == "Pending" and not any(
        state in (one.get("state") or {}) for one in every for state in ("running", "terminated")
    )


def _about(pod: Object, events: Iterable[Object]) -> Iterator[Object]:
    for event in events:
        involved = event.get("involvedObject") or event.get("regarding") or {}
        if involved.get("uid") == uid(pod):
            yield event


# Pods that have no place, or are not there at all --------------------------------------------------------


def _unschedulable(pod: Object, old: Sequence[Object], now: Observation) -> Iterator[Symptom]:
    scheduled = condition(pod, "PodScheduled") or {}
    if scheduled.get("status") != "False" or scheduled.get("reason") != "Unschedulable":
        return
    name, why = full_name(pod), why_unschedulable(pod, now.everywhere, now.nodes, now.pods)
    if not old:
        if not ending_holders(pod, now.pods if now.everywhere is None else now.everywhere):
            # The scheduler itself waits a moment before it looks again for a Pod that it found no place for.
            yield Symptom("unschedulable", uid(pod), f"no node has room for Pod {name}: {why}", 2, 2.0, pod=name)
    elif not any(deleting(one) for one in old) and _old_stay(now.deployment):
        standing = ", ".join(full_name(one) for one in old)
        words = (
            f"the new Pod {name} waits for what the old one holds ({standing}), and the old one stays until the new "
            f"one is ready; use strategy Recreate: {why}"
        )
        yield Symptom("deadlock", uid(pod), words, 2, 3.0, pod=name)


def _old_stay(deployment: Object) -> bool:
    """Whether the Deployment's strategy ends no old Pod before a new one is available."""
    strategy = deployment["spec"].get("strategy") or {}
    if strategy.get("type") == "Recreate":
        return False
    wanted = deployment["spec"].get("replicas")
    replicas = 1 if wanted is None else int(wanted)
    rolling = strategy.get("rollingUpdate") or {}
    surge = _of(rolling.get("maxSurge", "25%"), replicas, up=True)
    unavailable = _of(rolling.get("maxUnavailable", "25%"), replicas, up=False)
    # Kubernetes lets one go where both would be none.
    return unavailable == 0 and surge > 0


def _of(amount: int | str, replicas: int, *, up: bool) -> int:
    if isinstance(amount, str) and amount.endswith("%"):
        part = int(amount.removesuffix("%")) * replicas
        return -(-part // 100) if up else part // 100
    return int(amount)


def _not_created(deployment: Object, new: Object | None, old: Sequence[Object]) -> Iterator[Symptom]:
    """A quota or an admission webhook that lets no Pod through. What an old Pod still counts for is given back a moment
    after it is gone."""
    progressing = condition(deployment, "Progressing") or {}
    if progressing.get("reason") == "ReplicaSetCreateError":
        words = f"the Deployment's new ReplicaSet cannot be made: {progressing.get('message')}"
        yield Symptom("not-created", "replica set", words, 2)
    refused = None if new is None else condition(new, "ReplicaFailure")
    if refused is None or refused.get("status") != "True" or old:
        return
    words = f"the Deployment's new Pod cannot be made ({refused.get('reason')}): {refused.get('message')}"
    yield Symptom("not-created", "pod", words, 2, 2.0)
