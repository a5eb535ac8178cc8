"""The Deployment that was there: looked at before it is touched, and again once it is back."""

import asyncio
import itertools
import shlex
import time
from collections.abc import Mapping
from typing import Any

from runner.record.events import Compared
from runner.target.kubernetes.calls import read
from runner.target.kubernetes.cluster import Cluster, ClusterError
from runner.target.kubernetes.hidden import hide
from runner.target.kubernetes.port_forward import PortForward
from runner.target.kubernetes.probes import Probed, probe

_POLL = 0.5


def deployment_facts(deployment: Mapping[str, Any], replica_sets: list[dict[str, Any]]) -> dict[str, str | None]:
    """What is compared of the object: replicas, the hash that Kubernetes gives its Pod template, image and words of
    its first container."""
    container = main_container(deployment)
    return {
        "replicas": str(deployment["spec"].get("replicas", 1)),
        "template hash": template_hash(deployment, replica_sets),
        "image": str(container.get("image")),
        "arguments": shlex.join(hide("args", [*(container.get("command") or []), *(container.get("args") or [])])),
    }


def main_container(deployment: Mapping[str, Any], name: str | None = None) -> dict[str, Any]:
    """The container of that name, else the first one."""
    containers: list[dict[str, Any]] = deployment["spec"]["template"]["spec"]["containers"]
    return next((one for one in containers if one.get("name") == name), containers[0])


def template_hash(deployment: Mapping[str, Any], replica_sets: list[dict[str, Any]]) -> str | None:
    """The label `pod-template-hash` of the ReplicaSet that has the Deployment's newest revision."""
    revision = (deployment["metadata"].get("annotations") or {}).get(_REVISION)
    for one in replica_sets:
        owned = any(owner.get("uid") == deployment["metadata"]["uid"] for owner in _owners(one))
        if owned and (one["metadata"].get("annotations") or {}).get(_REVISION) == revision and revision is not None:
            found = (one["metadata"].get("labels") or {}).get("pod-template-hash")
            return found if isinstance(found, str) else None
    return None


_REVISION = "deployment.kubernetes.io/revision"


def _owners(one: Mapping[str, Any]) -> list[dict[str, Any]]:
    return one["metadata"].get("ownerReferences") or []


def serving_pod(deployment: Mapping[str, Any], replica_sets: list[dict[str, Any]], pods: list[dict[str, Any]]) -> Any:
    """A Ready Pod of the Deployment's newest ReplicaSet; None where there is none."""
    wanted = template_hash(deployment, replica_sets)
    for pod in pods:
        labels = pod["metadata"].get("labels") or {}
        conditions = pod.get("status", {}).get("conditions") or []
        ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)
        if labels.get("pod-template-hash") == wanted and ready and "deletionTimestamp" not in pod["metadata"]:
            return pod
    return None


async def probe_pod(
    cluster: Cluster, deployment: Mapping[str, Any], pod: Mapping[str, Any], patience: float, quiet: float
) -> Probed:
    """Ask the engine in the Pod, through the API server: what it does not answer again for `patience` seconds, and
    whether it is idle for `quiet` seconds."""
    begun = time.monotonic()
    while True:
        found = await read(lambda: _probed(cluster, pod["metadata"]["name"], _port(deployment)))
        spent = time.monotonic() - begun
        if (found.unmet is None or spent > patience) and (found.busy is None or spent > quiet):
            return found
        await asyncio.sleep(_POLL)


def _probed(cluster: Cluster, pod: str, port: int) -> Probed:
    try:
        forward = PortForward(cluster, pod, port)
    except (OSError, ClusterError) as error:
        return Probed(unmet=f"its Pod cannot be reached: {error}")
    try:
        return probe(forward.url)
    finally:
        forward.close()


def _port(deployment: Mapping[str, Any]) -> int:
    """Where the container serves: its --port, else its first declared port, else vLLM's own default."""
    container = main_container(deployment)
    words = [*(container.get("command") or []), *(container.get("args") or [])]
    for before, word in itertools.pairwise(words):
        if before == "--port" and word.isdecimal():
            return int(word)
    for word in words:
        if word.startswith("--port=") and word.removeprefix("--port=").isdecimal():
            return int(word.removeprefix("--port="))
    ports = container.get("ports") or []
    return int(ports[0]["containerPort"]) if ports else 8000


def compared(before: Mapping[str, str | None], after: Mapping[str, str | None]) -> list[Compared]:
    """Each fact before and after; what is not known on both sides is not equal."""
    found = []
    for fact, was in before.items():
        now = after.get(fact)
        equal = None if was is None or now is None else was == now
        found.append(Compared(fact=fact, before=was, after=now, equal=equal))
    return found
