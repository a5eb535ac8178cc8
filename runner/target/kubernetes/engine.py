"""One engine in a Pod."""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from runner.target.base import Lines, NoGpus, RemoteGpus, Transport
from runner.target.kubernetes.calls import read
from runner.target.kubernetes.cluster import Cluster, ClusterError
from runner.target.kubernetes.hidden import hide
from runner.target.kubernetes.neighbours import asks_for_gpu, neighbours, unasked
from runner.target.kubernetes.pod_exec import execute
from runner.target.kubernetes.pod_log import PodLog
from runner.target.kubernetes.port_forward import PortForward

_BETWEEN_LOOKS = 0.5
_KEPT = "(kept)"


class KubernetesEngine:
    """The engine container of one Pod, known by the Pod's UID."""

    def __init__(
        self,
        cluster: Cluster,
        pod: dict[str, Any],
        container: str,
        *,
        endpoint: str,
        transport: Transport,
        facts: Mapping[str, str],
        log: PodLog,
        forward: PortForward | None,
        gpu_command: list[str],
        own_env: Collection[str] | None = None,
        warned: Callable[[str, str], None] = lambda about, text: None,
    ) -> None:
        """`pod` as it was when it was Ready; `forward` is closed with the engine, and so is `log`. `own_env`: the
        variables that the run itself sets, None for all; the values of those that were there before are not shown.
        `warned` hears, from the event loop and once each, about what the log or the way of the requests suffers."""
        self._cluster, self._pod, self._container_name = cluster, pod, container
        self._log, self._forward, self._gpu_command = log, forward, gpu_command
        self._warned, self._told = warned, set[str]()
        self._looked = time.monotonic()
        self._exit_code: int | None = None
        self._lost: str | None = None
        self.endpoint = endpoint
        self.transport = transport
        self.facts = dict(facts)
        spec = container_spec(pod, container)
        self.command: list[str] = hide("args", [*(spec.get("command") or []), *(spec.get("args") or [])])
        self.env = {one["name"]: _value(one, own_env) for one in spec.get("env") or []}

    @property
    def identity(self) -> str:
        """The Pod's name and UID."""
        return f"pod {self._name} {self._uid}"

    @property
    def gpus(self) -> RemoteGpus | NoGpus:
        """Its container's, where it was given any."""
        if asks_for_gpu(container_spec(self._pod, self._container_name)):
            return RemoteGpus(self._gpu_command, self._execute, self._neighbours)
        # Another runtime class may show GPUs as well: who is asked says whether there are any.
        runtime = self._pod["spec"].get("runtimeClassName")
        ways = unasked(self._pod) or [f"runtime class {runtime}"] * bool(runtime)
        if not ways:
            return NoGpus("the container asks for no GPU")
        doubt = (
            f"the container asks for no GPU, and sees those of its node by {', '.join(ways)}: which of them it uses is "
            f"not known"
        )
        return RemoteGpus(self._gpu_command, self._execute, self._neighbours, doubt)

    async def look(self) -> None:
        """Ask the cluster what became of the Pod, at most twice a second."""
        if time.monotonic() - self._looked < _BETWEEN_LOOKS:
            return
        self._looked = time.monotonic()
        self._tell_problems()
        try:
            pod = await read(lambda: self._cluster.get("Pod", self._name))
        except ClusterError:
            return  # the API server may be away for a while: the engine is not
        if pod is None or pod["metadata"]["uid"] != self._uid:
            self._lost = f"the Pod {self._name} was deleted"
            return
        if "deletionTimestamp" in pod["metadata"]:
            self._lost = f"the Pod {self._name} is being deleted"
        status = pod.get("status", {})
        if status.get("phase") == "Failed" and status.get("reason"):
            self._lost = f"the Pod {self._name} failed: {status['reason']}: {status.get('message', '')}".rstrip(": ")
        self._exit_code = _ended(status, self._container_name)

    def exit_code(self) -> int | None:
        """That of the container's process that was measured: one that was started again is another engine."""
        return self._exit_code

    def log(self) -> list[str]:
        """Its output so far."""
        return self._log.lines()

    def stranger(self) -> str | None:
        """Why it is not this Pod any more that answers."""
        return self._lost

    async def stop(self) -> str:
        """Let it go. It stays until the next condition, or the baseline, takes its place."""
        self._tell_problems()
        await asyncio.to_thread(self._close)
        return "left to the next rollout, which replaces its Pod"

    @property
    def remains(self) -> None:
        """Nothing that would stand beside the next engine: its rollout waits for this Pod's end."""

    def _tell_problems(self) -> None:
        parts = {"log": self._log.problem, "port-forward": None if self._forward is None else self._forward.problem}
        for part, text in parts.items():
            if text is not None and text not in self._told:
                self._told.add(text)
                self._warned(f"{part} of Pod {self._name}", text)

    def _close(self) -> None:
        self._log.close()
        if self._forward is not None:
            self._forward.close()

    def _execute(self, command: list[str]) -> Lines:
        return execute(self._cluster, self._name, self._container_name, command)

    def _neighbours(self) -> list[str]:
        try:
            everyone = self._cluster.list("Pod", everywhere=True, fields=f"spec.nodeName={self._node}")
        except ClusterError as error:
            raise OSError(f"the Pods of other namespaces cannot be listed: {error}") from None
        return neighbours(everyone, node=self._node, ours={self._uid})

    @property
    def _name(self) -> str:
        return str(self._pod["metadata"]["name"])

    @property
    def _uid(self) -> str:
        return str(self._pod["metadata"]["uid"])

    @property
    def _node(self) -> str:
        return str(self._pod["spec"].get("nodeName"))


def container_spec(pod: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The Pod's container of that name. Raises StopIteration where it has none."""
    containers: list[dict[str, Any]] = pod["spec"]["containers"]
    return next(one for one in containers if one["name"] == name)


def container_status(status: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The status of the container of that name; empty where there is none yet."""
    found: list[dict[str, Any]] = status.get("containerStatuses") or []
    return next((one for one in found if one["name"] == name), {})


def _ended(status: Mapping[str, Any], name: str) -> int | None:
    container = container_status(status, name)
    for state in ("state", "lastState"):
        ended = (container.get(state) or {}).get("terminated")
        if ended is not None:
            return int(ended["exitCode"])
    return None


def _value(variable: Mapping[str, Any], own: Collection[str] | None) -> str:
    """A variable as it may be shown: one by reference names where its value is."""
    name = str(variable["name"])
    reference = (variable.get("valueFrom") or {}).get("secretKeyRef")
    if reference is not None:
        return f"(secret {reference.get('name')}, key {reference.get('key')})"
    if "valueFrom" in variable:
        return "(by reference)"
    if own is not None and name not in own:
        return _KEPT
    return str(hide(f"env[{name}].value", variable.get("value", ""), (name,)))
