"""Why no node takes a Pod, and who holds what it lacks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from runner.target.kubernetes.belonging import condition, deleting
from runner.target.kubernetes.neighbours import holders, is_gpu, requested

Object = dict[str, Any]

_LACKING: Final = re.compile(r"Insufficient ([^\s,]+?)(?=[,.]?(?:\s|$))")
_TAINT: Final = re.compile(r"had untolerated taint(?:\(s\)|s)?(?: (\{[^}]*\}))?")


def why_unschedulable(
    pod: Object, everywhere: Sequence[Object] | None, nodes: Sequence[Object] | None, pods: Sequence[Object]
) -> str:
    """What is missing, and, of a resource, who has it, then the scheduler's own words. None for the Pods everywhere or
    for the nodes: they may not be listed, and only `pods` of the namespace are known."""
    message = str((condition(pod, "PodScheduled") or {}).get("message") or "").strip()
    told = []
    for resource in dict.fromkeys(_LACKING.findall(message)):
        told += _lacking(pod, resource, everywhere, nodes, pods)
    if (taint := _TAINT.search(message)) is not None:
        told.append(f"a node's taint {taint[1] or ''} is not tolerated".replace("  ", " "))
    if "didn't match Pod's node affinity/selector" in message:
        wanted = pod["spec"].get("nodeSelector") or {}
        labels = ", ".join(f"{name}={value}" for name, value in wanted.items())
        told.append(f"no node has the labels {labels}" if labels else "no node matches the Pod's node affinity")
    if "unbound immediate PersistentVolumeClaims" in message or "persistentvolumeclaim" in message.lower():
        told.append("a volume claim of it is not bound")
    quoted = f"the scheduler says: {message}" if message else "the scheduler gives no reason"
    return "; ".join([*told, quoted])


def ending_holders(pod: Object, pods: Sequence[Object]) -> list[str]:
    """Who holds what the Pod lacks, and is about to give it back: a Deployment that was scaled to zero just now."""
    message = str((condition(pod, "PodScheduled") or {}).get("message") or "")
    going = [one for one in pods if deleting(one)]
    return [held for resource in dict.fromkeys(_LACKING.findall(message)) for held in holders(going, resource)]


def _lacking(
    pod: Object,
    resource: str,
    everywhere: Sequence[Object] | None,
    nodes: Sequence[Object] | None,
    pods: Sequence[Object],
) -> list[str]:
    wanted = requested(pod).get(resource)
    lack = f"{wanted} {resource} wanted" if wanted else f"too little {resource} is free"
    if "/" not in resource:
        return [lack]
    if nodes is not None and not any(_offered(node, resource) for node in nodes):
        plugin = "; its device plugin does not run, or sees no device" if is_gpu(resource) else ""
        return [f"{lack}, and no node offers any{plugin}"]
    held = holders(pods if everywhere is None else everywhere, resource)
    if held:
        return [f"{lack}, and held by {', '.join(held)}"]
    where = "in this namespace (those of others may not be listed)" if everywhere is None else "in any namespace"
    return [f"{lack}, and no Pod {where} holds any"]


def _offered(node: Object, resource: str) -> bool:
    amount = str(((node.get("status") or {}).get("allocatable") or {}).get(resource, "0"))
    return amount != "0"
