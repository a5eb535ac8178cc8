"""Engines as Deployments of a cluster, one after the other on the GPU that a Deployment of the user holds."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import httpx

from runner.access import OPEN, Access, http_client
from runner.plan.model import Arm, Plan
from runner.record.events import Warned
from runner.spec.load import Spec
from runner.spec.site import Site
from runner.target.base import Declined, Stay, Survey, TargetError, Transport
from runner.target.kubernetes.calls import read, written
from runner.target.kubernetes.cluster import Cluster, ClusterError
from runner.target.kubernetes.consent import hold_to_consent
from runner.target.kubernetes.engine import KubernetesEngine, container_spec, container_status
from runner.target.kubernetes.ground import Ground
from runner.target.kubernetes.hidden import variables
from runner.target.kubernetes.hold import NotOurs
from runner.target.kubernetes.occupation import Occupation
from runner.target.kubernetes.pod_log import PodLog
from runner.target.kubernetes.port_forward import PortForward
from runner.target.kubernetes.render import RenderError, render
from runner.target.kubernetes.rolling import RolledOut, rolled_out, selected_pods
from runner.target.kubernetes.settings import merge, problems

_REACH_SECONDS = 5.0
_REACH_AGAIN = 0.5
_LOG_SECONDS = 15.0
_FORWARD_DOUBT = (
    "requests go through the API server's port-forward, which delays and bundles what the engine sends by more than "
    "the time of a token"
)


class KubernetesTarget:
    """Renders, applies, waits, measures, and puts back."""

    name = "kubernetes"
    simulated = False

    def __init__(self, spec: Spec, site: Site, access: Access = OPEN) -> None:
        self._access = access
        self._settings = merge(
            spec.experiment.kubernetes.beside(spec.folder), site.kubernetes, experiment=spec.experiment.name
        )
        self._cluster: Cluster | None = None
        self._warnings: list[tuple[str, str]] = []
        self._stay: Stay | None = None
        self._occupation: Occupation | None = None
        self._launches = 0
        self._surveyed: dict[str, Any] | None = None

    def settings(self) -> dict[str, Any]:
        """The merged settings, and which cluster it is, once that is known."""
        where: dict[str, Any] = {}
        if self._cluster is not None:
            where = {
                "context": self._cluster.context,
                "namespace": self._cluster.namespace,
                "server": self._cluster.server,
                "version": self._cluster.version,
            }
        return {**self._settings.described(), **where}

    def origins(self) -> Mapping[str, str]:
        """The site file, the spec, or nobody."""
        return self._settings.origins

    def problems(self, plan: Plan) -> list[str]:
        """What is missing, and templates that do not render; the cluster is not asked."""
        found = problems(self._settings, plan)
        if found:
            return found
        for arm in plan.arms:
            try:
                render(self._settings, plan, arm, selector=None, launch=None, run="")
            except RenderError as error:
                if str(error) not in found:
                    found.append(str(error))
        return found

    def survey(self, plan: Plan) -> Survey:
        """Which cluster it is, what the run would change there, and whether it may."""
        try:
            ground = Ground(self._connected(), self._settings, plan)
            found = ground.survey()
            self._surveyed = ground.baseline
            return found
        except ClusterError as error:
            return Survey(problems=[str(error)])

    def _connected(self) -> Cluster:
        if self._cluster is None:
            self._cluster = Cluster.connect(
                kubeconfig=self._settings.kubeconfig,
                context=self._settings.context,
                namespace=self._settings.namespace,
                warned=lambda about, text: self._warnings.append((about, text)),
            )
        return self._cluster

    def stay(self, stay: Stay) -> AbstractAsyncContextManager[None]:
        """Save the baseline, and put it back."""
        return self._occupied(stay)

    @contextlib.asynccontextmanager
    async def _occupied(self, stay: Stay) -> AsyncIterator[None]:
        occupation = Occupation(await read(self._connected), self._settings, stay, self._access)
        self._stay, self._occupation = stay, occupation
        self._tell_warnings()
        await self._hold_to_consent()
        await occupation.save()
        try:
            await occupation.take_place()
            yield
        finally:
            try:
                await occupation.give_back()
            finally:
                self._tell_warnings()

    async def _hold_to_consent(self) -> None:
        """Raises Declined where the baseline is not what was surveyed, and agreed to, any more."""
        cluster, surveyed = self._cluster, self._surveyed
        if cluster is None or surveyed is None:
            return
        try:
            now = await read(lambda: cluster.get("Deployment", surveyed["metadata"]["name"]))
            if now is not None:  # else it is told when it is to be saved
                await read(lambda: hold_to_consent(cluster, surveyed, now))
        except ClusterError as error:
            raise Declined(f"{error}; nothing was changed") from None

    def _tell_warnings(self) -> None:
        """The API server's warnings so far; they come in threads, and are told from here alone."""
        assert self._stay is not None
        while self._warnings:
            about, text = self._warnings.pop(0)
            self._stay.emit(Warned(source="API server", about=about, text=text))

    async def launch(self, model: str, arm: Arm, log: Path) -> KubernetesEngine:
        """Apply the condition and wait for its own Pod. Raises TargetError."""
        assert self._stay is not None and self._occupation is not None and self._cluster is not None
        cluster, occupation, settings = self._cluster, self._occupation, self._settings
        self._launches += 1
        launch = f"{self._stay.run}.{self._launches}"
        container = occupation.container
        pod_log: PodLog | None = None

        def seen(pod: dict[str, Any]) -> PodLog:
            nonlocal pod_log
            if pod_log is not None:
                pod_log.close()
            pod_log = PodLog(cluster, pod["metadata"]["name"], container, log)
            pod_log.start()
            return pod_log

        try:
            rendered = render(
                settings,
                self._stay.plan,
                arm,
                selector=occupation.selector,
                launch=launch,
                run=self._stay.run,
                container=container,
            )
            before = await read(lambda: selected_pods(cluster, rendered.deployment))
            applied = await written(lambda: occupation.hold.apply(rendered.deployment))
            service = await occupation.service(rendered.service) if settings.through_service else None
            self._tell_warnings()
            done = await rolled_out(
                cluster,
                applied,
                container=container,
                limit=self._stay.plan.limits.startup_seconds,
                before=before,
                halt=lambda: occupation.hold.scale(0),
                seen=lambda pod: seen(pod).lines,
                addressed=self._addressed,
            )
            assert pod_log is not None
            return await self._engine(done, container, service, pod_log, variables(rendered.deployment))
        except (ClusterError, NotOurs, RenderError) as error:
            self._let_go(pod_log)
            raise TargetError(str(error), error.lines() if isinstance(error, NotOurs) else None) from None
        except BaseException:
            self._let_go(pod_log)
            raise

    async def _addressed(self, pod: dict[str, Any]) -> None:
        """Raises TargetError where the Pod's address leads nowhere from here: known long before a model is loaded."""
        if self._settings.transport == "pod-ip":
            await _reached(_url(pod["status"]["podIP"], self._settings.port), "pod-ip", listening=False)

    def _let_go(self, pod_log: PodLog | None) -> None:
        if pod_log is None:
            return
        if pod_log.problem is not None and self._stay is not None:
            self._stay.emit(Warned(source="the cluster", about="the engine's log", text=pod_log.problem))
        pod_log.close()

    async def _engine(
        self, done: RolledOut, container: str, service: dict[str, Any] | None, log: PodLog, own_env: Collection[str]
    ) -> KubernetesEngine:
        assert self._cluster is not None and self._stay is not None
        cluster, settings, pod, emit = self._cluster, self._settings, done.pod, self._stay.emit
        if not await read(lambda: log.catch_up(_LOG_SECONDS)):
            text = "it is not known to have arrived whole: what is not found in it may be on its way"
            emit(Warned(source="the cluster", about="the engine's log", text=text))
        forward: PortForward | None = None
        match settings.transport:
            case "port-forward":
                forward = await read(lambda: PortForward(cluster, pod["metadata"]["name"], settings.port))
                endpoint = forward.url
            case "cluster-ip":
                assert service is not None
                endpoint = _url(service["spec"]["clusterIP"], settings.port)
            case "node-port":
                assert service is not None
                endpoint = _url(pod["status"]["hostIP"], service["spec"]["ports"][0]["nodePort"])
            case _:
                endpoint = _url(pod["status"]["podIP"], settings.port)
        if forward is None:
            await _reached(endpoint, settings.transport)
        node = await read(lambda: _node(cluster, pod))
        inside = ", from inside the cluster" * cluster.in_cluster
        return KubernetesEngine(
            cluster,
            pod,
            container,
            endpoint=endpoint,
            transport=Transport(f"{settings.transport}{inside}", _FORWARD_DOUBT if forward is not None else None),
            facts=_facts(cluster, done, node, container),
            log=log,
            forward=forward,
            gpu_command=settings.gpu_command,
            own_env=own_env,
            warned=lambda about, text: emit(Warned(source="the cluster", about=about, text=text)),
        )


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def _reached(endpoint: str, transport: str, *, listening: bool = True) -> None:
    """Raises TargetError where nothing can be sent from here. `listening`: the engine is Ready, so that a refusal is no
    answer either."""
    host, _, port = endpoint.removeprefix("http://").rpartition(":")
    why = f"no connection within {_REACH_SECONDS:g} s"
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_REACH_SECONDS):
            while True:
                try:
                    _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
                except OSError as error:
                    if isinstance(error, ConnectionRefusedError) and not listening:
                        return
                    why = str(error)
                    await asyncio.sleep(_REACH_AGAIN)  # the way to a new Pod is laid a moment after it has an address
                else:
                    writer.close()
                    with contextlib.suppress(OSError):
                        await writer.wait_closed()
                    stranger = await _stranger(endpoint) if listening else None
                    if stranger is None:
                        return
                    why = stranger
                    await asyncio.sleep(_REACH_AGAIN)
    what = "the engine is Ready and" if listening else "the engine's Pod has an address and"
    raise TargetError(
        f"{what} cannot be reached from here at {endpoint} ({transport}): {why}. Run on the cluster's node or in the "
        f"cluster, or choose another way: kubernetes: {{transport: node-port}} where its nodes can be reached, or "
        f"kubernetes: {{transport: port-forward}}, which measures no token latency"
    )


async def _stranger(endpoint: str) -> str | None:
    """Why it is not an engine that takes connections there: networks have proxies that take all, and answer for whom
    they do not reach. Every vLLM has /health, and asks for no key there: a stranger is not shown it."""
    async with http_client(OPEN, timeout=_REACH_SECONDS) as client:
        try:
            status = (await client.get(f"{endpoint}/health")).status_code
        except httpx.HTTPError as error:
            return str(error) or type(error).__name__
    if status in (200, 503):
        return None
    return f"something else takes the connection, and answers /health with HTTP {status}"


def _node(cluster: Cluster, pod: dict[str, Any]) -> dict[str, Any]:
    """The Pod's node as far as it may be seen; a namespace's Role does not allow it."""
    try:
        return cluster.get("Node", pod["spec"]["nodeName"]) or {}
    except ClusterError:
        return {}


def _facts(cluster: Cluster, done: RolledOut, node: dict[str, Any], container: str) -> dict[str, str]:
    pod, spec = done.pod, container_spec(done.pod, container)
    info = (node.get("status") or {}).get("nodeInfo") or {}
    status = container_status(pod["status"], container)
    limits = (spec.get("resources") or {}).get("limits") or {}
    found = {
        "Kubernetes": cluster.version,
        "Pod": f"{cluster.namespace}/{pod['metadata']['name']}",
        "Pod UID": pod["metadata"]["uid"],
        "ReplicaSet": done.replica_set["metadata"]["name"],
        "rollout": f"{done.seconds:.1f} s",
        "node": pod["spec"].get("nodeName"),
        "kubelet": info.get("kubeletVersion"),
        "container runtime": info.get("containerRuntimeVersion"),
        "kernel": info.get("kernelVersion"),
        "image": spec.get("image"),
        "image digest": status.get("imageID"),
        "runtime class": pod["spec"].get("runtimeClassName"),
        "limits": ", ".join(f"{name} {value}" for name, value in limits.items()),
    }
    return {name: str(value) for name, value in found.items() if value}
