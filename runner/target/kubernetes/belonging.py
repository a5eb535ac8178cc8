"""What belongs to what: a Deployment's ReplicaSets, their Pods, and which of them are the new ones."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Any, Final

Object = dict[str, Any]

REVISION: Final = "deployment.kubernetes.io/revision"
HASH: Final = "pod-template-hash"
LAUNCH: Final = "llm-experiment-runner/launch"
"""The Pods' annotation that makes their template another one for each launch."""
_FINISHED: Final = ("Succeeded", "Failed")


def uid(thing: Object) -> str:
    return str(thing["metadata"]["uid"])


def full_name(thing: Object) -> str:
    """`namespace/name`."""
    metadata = thing["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])


def controller(thing: Object) -> Object | None:
    """The ownerReference of what made the object and looks after it."""
    references: list[Object] = thing["metadata"].get("ownerReferences") or []
    return next((one for one in references if one.get("controller")), None)


def owned(things: Iterable[Object], owner: Object) -> list[Object]:
    """Those that this very owner looks after, by its UID."""
    return [one for one in things if (ref := controller(one)) is not None and ref.get("uid") == uid(owner)]


def pods_of(deployment: Object, replica_sets: Iterable[Object], pods: Iterable[Object]) -> list[Object]:
    """The Pods of all of the Deployment's ReplicaSets, old and new, the ones being deleted included."""
    sets = {uid(one) for one in owned(replica_sets, deployment)}
    return [pod for pod in pods if (ref := controller(pod)) is not None and ref.get("uid") in sets]


def new_replica_set(deployment: Object, replica_sets: Iterable[Object]) -> Object | None:
    """The ReplicaSet of the Deployment's present template; None while there is none, or while the Deployment
    controller has not yet given it the newest revision.

    The template must be equal, as for kubectl: without the hash that the controller adds. The revision alone is not
    enough, since right after a write the newest revision is still the old ReplicaSet's.
    """
    wanted = _template(deployment)
    equal = [one for one in owned(replica_sets, deployment) if _template(one) == wanted]
    revision = annotation(deployment, REVISION)
    return next((one for one in equal if annotation(one, REVISION) == revision and not deleting(one)), None)


def _template(thing: Object) -> Object:
    template: Object = deepcopy(thing["spec"]["template"])
    metadata = template.get("metadata") or {}
    labels = {name: value for name, value in (metadata.get("labels") or {}).items() if name != HASH}
    # A template's own creationTimestamp is null where a server writes it at all.
    rest = {name: value for name, value in metadata.items() if name not in ("labels", "creationTimestamp")}
    template["metadata"] = {**{name: value for name, value in rest.items() if value}, "labels": labels}
    return template


def annotation(thing: Object, name: str) -> str | None:
    """Of the object itself; None where it has none of that name."""
    value = (thing["metadata"].get("annotations") or {}).get(name)
    return None if value is None else str(value)


def launch_of(template: Object) -> str | None:
    """The launch that a Pod, or a Pod template, was made for."""
    value = ((template.get("metadata") or {}).get("annotations") or {}).get(LAUNCH)
    return None if value is None else str(value)


def deleting(thing: Object) -> bool:
    return bool(thing["metadata"].get("deletionTimestamp"))


def finished(pod: Object) -> bool:
    """All of its containers have ended, for good: it holds nothing of its node any more."""
    return phase(pod) in _FINISHED


def phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def condition(thing: Object, kind: str) -> Object | None:
    """The status condition of that type."""
    conditions: list[Object] = (thing.get("status") or {}).get("conditions") or []
    return next((one for one in conditions if one.get("type") == kind), None)


def ready(pod: Object) -> bool:
    return (condition(pod, "Ready") or {}).get("status") == "True"
