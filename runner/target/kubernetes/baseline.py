"""The Deployment that was there: looked at before it is touched, and again once it is back."""

import asyncio
import itertools
import shlex
import time
from collections.abc import Mapping
from typing import Any

from runner.access import OPEN, Access
from runner.record.parts import Compared
from runner.target.kubernetes.belonging import HASH, deleting, new_replica_set, owned, ready
from runner.target.kubernetes.calls import read
from runner.target.kubernetes.cluster import Cluster, ClusterError
from runner.target.kubernetes.hidden import hide
from runner.target.kubernetes.neighbours import is_gpu
from runner.target.kubernetes.port_forward import PortForward
from runner.target.kubernetes.probes import Probed, probe

_POLL = 0.5


def deployment_facts(
    deployment: Mapping[str, Any], replica_sets: list[dict[str, Any]], container: str | None = None
) -> dict[str, str | None]:
    """What is compared of the object: replicas, the hash that Kubernetes gives its Pod template, image and words of
    its engine's container."""
    engine = main_container(deployment, container)
    return {
        "replicas": str(deployment["spec"].get("replicas", 1)),
        "template hash": template_hash(deployment, replica_sets),
        "image": str(engine.get("image")),
        "arguments": shlex.join(hide("args", [*(engine.get("command") or []), *(engine.get("args") or [])])),
    }


def main_container(deployment: Mapping[str, Any], name: str | None = None) -> dict[str, Any]:
    """The engine's container: the one of that name, else the only one that asks for a GPU, else the first."""
    containers: list[dict[str, Any]] = deployment["spec"]["template"]["spec"]["containers"]
    named = [one for one in containers if one.get("name") == name]
    on_gpu = [one for one in containers if _asks_for_gpu(one)]
    return named[0] if named else on_gpu[0] if len(on_gpu) == 1 else containers[0]


def _asks_for_gpu(container: Mapping[str, Any]) -> bool:
    return any(is_gpu(one) for one in (container.get("resources") or {}).get("limits") or {})


def template_hash(deployment: Mapping[str, Any], replica_sets: list[dict[str, Any]]) -> str | None:
    """The label `pod-template-hash` of the ReplicaSet of the Deployment's present template."""
    newest = new_replica_set(dict(deployment), replica_sets)
    found = None if newest is None else (newest["metadata"].get("labels") or {}).get(HASH)
    return found if isinstance(found, str) else None


def serving_pod(
    deployment: Mapping[str, Any], replica_sets: list[dict[str, Any]], pods: list[dict[str, Any]]
) -> dict[str, Any] | None:
    """A Ready Pod of the Deployment's newest ReplicaSet; None where there is none."""
    newest = new_replica_set(dict(deployment), replica_sets)
    mine = [] if newest is None else owned(pods, newest)
    return next((pod for pod in mine if ready(pod) and not deleting(pod)), None)


async def probe_pod(
    cluster: Cluster,
    deployment: Mapping[str, Any],
    pod: Mapping[str, Any],
    patience: float,
    quiet: float,
    container: str | None = None,
    access: Access = OPEN,
) -> Probed:
    """Ask the engine in the Pod, through the API server: what it does not answer again for `patience` seconds, and
    whether it is idle for `quiet` seconds."""
    begun = time.monotonic()
    while True:
        found = await read(lambda: _probed(cluster, pod["metadata"]["name"], _port(deployment, container), access))
        spent = time.monotonic() - begun
        if (found.unmet is None or spent > patience) and (found.busy is None or spent > quiet):
            return found
        await asyncio.sleep(_POLL)


def _probed(cluster: Cluster, pod: str, port: int, access: Access) -> Probed:
    try:
        forward = PortForward(cluster, pod, port)
    except (OSError, ClusterError) as error:
        return Probed(unmet=f"its Pod cannot be reached: {error}")
    try:
        return probe(forward.url, lambda: forward.problem, access)
    finally:
        forward.close()


async def unreached(
    deployment: Mapping[str, Any], pod: Mapping[str, Any], container: str | None, access: Access = OPEN
) -> str | None:
    """Why the Pod's own address does not lead from here to the engine that answers through the API server; None where
    it does. Asked before anything is changed: the conditions' Pods have addresses of the same kind."""
    address = str((pod.get("status") or {}).get("podIP") or "")
    if not address:
        return None
    host = f"[{address}]" if ":" in address else address
    url = f"http://{host}:{_port(deployment, container)}"
    found = await read(lambda: probe(url, access=access))
    return None if found.model is not None else f"its Pod does not answer at {url} from here ({found.unmet})"


def _port(deployment: Mapping[str, Any], name: str | None) -> int:
    """Where the container serves: its --port, else its first declared port, else vLLM's own default."""
    container = main_container(deployment, name)
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
