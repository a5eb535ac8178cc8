"""Who else may use a node's GPUs, and who holds a resource: Pods, as far as those that were listed tell."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any, Final

from runner.target.kubernetes.belonging import HASH, controller, deleting, finished, full_name, uid

Object = dict[str, Any]

_GPU: Final = re.compile(r"nvidia\.com/.+|[\w.-]+/(?:.*[.-])?gpu(?:[.-].*)?|gpu\.[\w.-]+/.+")
_RUNTIME: Final = re.compile(r"nvidia(?:-.*)?")
_NONE: Final = ("", "void", "none")
_AGENT: Final = re.compile(
    r"device-plugin|dcgm|gpu-feature-discovery|node-feature-discovery|gpu-operator|driver-manager"
)


def is_gpu(resource: str) -> bool:
    """Whether an extended resource is a GPU or a part of one: nvidia.com/gpu, nvidia.com/mig-1g.5gb, amd.com/gpu."""
    return _GPU.fullmatch(resource) is not None


def asks_for_gpu(container: Object) -> bool:
    """Whether a container is given a GPU, or a part of one, as its own: as a resource, or by a claim."""
    return any(is_gpu(name) for name in _extended(container)) or bool((container.get("resources") or {}).get("claims"))


def unasked(pod: Object) -> list[str]:
    """How a Pod sees all GPUs of its node, whether it asks for one or not: `runtime class nvidia`."""
    spec = pod["spec"]
    if _RUNTIME.fullmatch(runtime := str(spec.get("runtimeClassName") or "")):
        return [f"runtime class {runtime}"]
    seen = {
        str(variable.get("value") or "")
        for container in spec.get("containers") or []
        for variable in container.get("env") or []
        if variable.get("name") == "NVIDIA_VISIBLE_DEVICES"
    }
    return [f"NVIDIA_VISIBLE_DEVICES={value}" for value in sorted(seen) if value not in _NONE]


def neighbours(pods: Iterable[Object], *, node: str, ours: Collection[str]) -> list[str]:
    """The Pods on the node that may use its GPUs, but for those whose UID is in `ours`: `namespace/name (1
    nvidia.com/gpu)`. Besides those that ask for one, these are the Pods that see all GPUs unasked: by the nvidia
    runtime class (as on k3s) or by NVIDIA_VISIBLE_DEVICES. The node's own agents, which read GPUs and compute nothing
    (device plugin, DCGM exporter), are none."""
    found = []
    for pod in pods:
        if uid(pod) in ours or not _holds(pod) or pod["spec"].get("nodeName") != node:
            continue
        ways = _ways(pod)
        if ways:
            found.append(f"{full_name(pod)} ({', '.join(ways)})")
    return sorted(found)


def holders(pods: Iterable[Object], resource: str) -> list[str]:
    """The Pods that hold some of a resource: `namespace/name (1, of Deployment vllm, since 2026-11-30T15:00:00Z)`. A
    Pod that is being deleted holds it until it is gone, and is said to be ending."""
    found = []
    for pod in pods:
        if not _holds(pod) or not pod["spec"].get("nodeName"):
            continue
        amount = requested(pod).get(resource)
        if amount:
            told = [amount, *_owner(pod), f"since {pod['metadata'].get('creationTimestamp')}"]
            found.append(f"{full_name(pod)} ({', '.join([*told, 'ending'] if deleting(pod) else told)})")
    return sorted(found)


def requested(pod: Object) -> dict[str, str]:
    """The extended resources that a Pod takes of its node, as Kubernetes counts them: the containers' sum, or the
    largest of an init container. What is not a whole number stands as it was written."""
    spec = pod["spec"]
    taken: dict[str, str] = {}
    for container in spec.get("containers") or []:
        for name, amount in _extended(container).items():
            taken[name] = _sum(taken.get(name), amount)
    for container in spec.get("initContainers") or []:
        lasting = container.get("restartPolicy") == "Always"
        for name, amount in _extended(container).items():
            taken[name] = _sum(taken.get(name), amount) if lasting else _largest(taken.get(name), amount)
    return {name: amount for name, amount in taken.items() if amount != "0"}


def _extended(container: Object) -> dict[str, str]:
    resources = container.get("resources") or {}
    both = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: str(amount) for name, amount in both.items() if "/" in name}


def _sum(one: str | None, other: str) -> str:
    if one is None:
        return other
    return str(int(one) + int(other)) if one.isdigit() and other.isdigit() else f"{one} + {other}"


def _largest(one: str | None, other: str) -> str:
    if one is None or not (one.isdigit() and other.isdigit()):
        return one or other
    return str(max(int(one), int(other)))


def _holds(pod: Object) -> bool:
    """Whether a Pod may still run something. One that is being deleted does until its last container has ended."""
    if finished(pod):
        return False
    shown = (pod.get("status") or {}).get("containerStatuses") or []
    return not (deleting(pod) and shown and all("terminated" in (one.get("state") or {}) for one in shown))


def _ways(pod: Object) -> list[str]:
    ways = [f"{amount} {name}" for name, amount in sorted(requested(pod).items()) if is_gpu(name)]
    spec = pod["spec"]
    if claims := spec.get("resourceClaims"):
        ways.append("resource claim " + " ".join(str(one.get("name")) for one in claims))
    return ways if ways or _agent(pod) else unasked(pod)


def _agent(pod: Object) -> bool:
    reference = controller(pod) or {}
    images = [str(one.get("image")) for one in pod["spec"].get("containers") or []]
    return reference.get("kind") == "DaemonSet" and all(_AGENT.search(image) for image in images)


def _owner(pod: Object) -> list[str]:
    """What made a Pod: the Deployment where the name of the ReplicaSet tells it."""
    reference = controller(pod)
    if reference is None:
        return []
    kind, name = str(reference.get("kind")), str(reference.get("name"))
    suffix = f"-{(pod['metadata'].get('labels') or {}).get(HASH)}"
    if kind == "ReplicaSet" and name.endswith(suffix):
        return [f"of Deployment {name.removesuffix(suffix)}"]
    return [f"of {kind} {name}"]
