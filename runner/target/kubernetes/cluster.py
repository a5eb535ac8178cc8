"""The API of one cluster: raw objects in and out, errors in plain words, the server's warnings passed on."""

import json
import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import urllib3
from kubernetes import client
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.resource import Resource

from runner.target.kubernetes.cluster_error import ClusterError, Refusal, refusal
from runner.target.kubernetes.kubeconfig import Access, find_access

__all__ = ["MANAGER", "Cluster", "ClusterError"]

MANAGER = "llm-experiment-runner"
"""The field manager of everything that is written."""
Object = dict[str, Any]
_TIMEOUT = (3, 15)
"""Seconds to connect, and between two parts of an answer."""
_WAITS = (0.2, 0.5, 1.0, 2.0)
"""Before a read is tried again: an API server that restarts is back within seconds, or not soon."""
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_CLUSTER_WIDE = frozenset({"nodes", "runtimeclasses"})


@dataclass(frozen=True, slots=True)
class _Kind:
    group: str
    version: str
    plural: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


_KINDS: Mapping[str, _Kind] = {
    "Deployment": _Kind("apps", "v1", "deployments"),
    "ReplicaSet": _Kind("apps", "v1", "replicasets"),
    "Pod": _Kind("", "v1", "pods"),
    "Event": _Kind("", "v1", "events"),
    "Service": _Kind("", "v1", "services"),
    "Node": _Kind("", "v1", "nodes"),
    "RuntimeClass": _Kind("node.k8s.io", "v1", "runtimeclasses"),
    "HorizontalPodAutoscaler": _Kind("autoscaling", "v2", "horizontalpodautoscalers"),
}


class _NoDiscovery:
    """In place of the dynamic client's discovery: the few kinds are known, so nothing is asked, and no file in a
    folder that everybody writes to is believed."""

    def __init__(self, _client: Any, _cache_file: Any) -> None: ...


_RESOURCES: Mapping[str, Any] = {
    name: Resource(
        prefix="apis" if kind.group else "api",
        group=kind.group,
        api_version=kind.version,
        kind=name,
        name=kind.plural,
        namespaced=kind.plural not in _CLUSTER_WIDE,
        verbs=[],
    )
    for name, kind in _KINDS.items()
}


class Cluster:
    """One cluster, in one namespace. Every call blocks, has timeouts, and may come from any thread; all raise
    ClusterError. Reads are tried again for a few seconds, writes never are."""

    context: str
    namespace: str
    server: str
    """URL of the API server."""
    version: str
    """The server's own, as v1.36.3."""
    in_cluster: bool
    """Whether the runner itself runs in a Pod of this cluster."""
    kubeconfig: str | None
    """The file, or files, that led here, as $KUBECONFIG names them; None in a Pod."""

    def __init__(self, access: Access, namespace: str | None, warned: Callable[[str, str], None]) -> None:
        self.context = access.context
        self.namespace = namespace or access.namespace
        self.server = access.configuration.host
        self.in_cluster = access.in_cluster
        self.kubeconfig = os.pathsep.join(str(path.absolute()) for path in access.files) or None
        self.version = ""
        self._access = access
        self._warned = warned
        self._heard: set[str] = set()
        self._lock = threading.Lock()
        self._configuration = access.configuration
        self._client = self._connect(access.configuration)

    @classmethod
    def connect(
        cls,
        *,
        kubeconfig: str | None,
        context: str | None,
        namespace: str | None,
        warned: Callable[[str, str], None],
    ) -> Self:
        """Find the cluster's address and credentials, and ask the server for its version. Raises ClusterError, with
        the way out, within seconds."""
        cluster = cls(find_access(kubeconfig, context, os.environ), namespace, warned)
        try:
            said = cluster._ask("ask for its version", _version, tries=1)
        except BaseException:
            cluster.close()
            raise
        cluster.version = str(said.get("gitVersion", ""))
        return cluster

    def close(self) -> None:
        """Let go of idle connections. The cluster can still be used."""
        _let_go(self._client)

    @property
    def configuration(self) -> Any:
        """The client's configuration with the present credentials, for streams, which have connections of their own."""
        return self._configuration

    def get(self, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """The object; None where there is none. A namespace that does not exist has none either."""
        where = self._where(kind, namespace)
        try:
            return self._ask(
                f"read {self._about(kind, name, where)}",
                lambda api: api.get(_RESOURCES[kind], name=name, namespace=where, **_RAW),
                tries=_TRIES,
            )
        except ClusterError as error:
            if error.status == 404:
                return None
            raise

    def list(
        self,
        kind: str,
        *,
        labels: Mapping[str, str] | None = None,
        everywhere: bool = False,
        fields: str | None = None,
    ) -> list[Object]:
        """All objects of a kind in the namespace, or in every one; `fields` is a field selector. Each says its kind and
        apiVersion, as an object that is read alone does."""
        where = None if everywhere else self._where(kind, None)
        selector = ",".join(f"{name}={value}" for name, value in labels.items()) if labels else None
        place = " of all namespaces" if everywhere else f" of namespace {where}" if where else ""
        said = self._ask(
            f"list every {kind}{place}",
            lambda api: api.get(
                _RESOURCES[kind], namespace=where, label_selector=selector, field_selector=fields, **_RAW
            ),
            tries=_TRIES,
        )
        identity = {"apiVersion": _KINDS[kind].api_version, "kind": kind}
        return [identity | item for item in said.get("items") or []]

    def apply(self, manifest: Object, *, force: bool = False, dry_run: bool = False) -> Object:
        """Server-side apply. Another manager's fields are a ClusterError with status 409 whose causes name them,
        unless `force` takes them over."""
        return self._write(
            "apply",
            manifest,
            dry_run,
            lambda api, resource, where, options: api.server_side_apply(
                resource,
                body=_yaml(manifest),
                name=manifest["metadata"]["name"],
                namespace=where,
                force_conflicts=force,
                **options,
            ),
        )

    def create(self, manifest: Object, *, dry_run: bool = False) -> Object:
        """Create it. One that exists already is a ClusterError with reason AlreadyExists."""
        return self._write(
            "create",
            manifest,
            dry_run,
            lambda api, resource, where, options: api.create(resource, body=manifest, namespace=where, **options),
        )

    def replace(self, manifest: Object, *, dry_run: bool = False) -> Object:
        """Put it in the place of what is there. With a resourceVersion that is no longer the object's, a ClusterError
        with reason Conflict."""
        return self._write(
            "replace",
            manifest,
            dry_run,
            lambda api, resource, where, options: api.replace(resource, body=manifest, namespace=where, **options),
        )

    def delete(self, kind: str, name: str, *, uid: str) -> None:
        """Delete that very object, and what it owns first. One that is gone is fine; another one of the same name is a
        ClusterError with reason Conflict."""
        where = self._where(kind, None)
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Foreground",
            "preconditions": {"uid": uid},
        }
        try:
            self._ask(
                f"delete {self._about(kind, name, where)}",
                lambda api: api.delete(_RESOURCES[kind], name=name, namespace=where, body=options, **_RAW),
            )
        except ClusterError as error:
            if error.status != 404:
                raise

    def scale(self, name: str, replicas: int, *, resource_version: str) -> Object:
        """Set a Deployment's number of replicas and nothing else; returns the Scale. Where the Deployment is no longer
        at `resource_version`, a ClusterError with reason Conflict."""
        path = _RESOURCES["Deployment"].path(name=name, namespace=self.namespace)
        scale = {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {"name": name, "namespace": self.namespace, "resourceVersion": resource_version},
            "spec": {"replicas": replicas},
        }
        return self._ask(
            f"scale {self._about('Deployment', name, self.namespace)} to {replicas}",
            lambda api: api.request("put", f"{path}/scale", body=scale, field_manager=MANAGER, **_RAW),
        )

    def renew(self) -> None:
        """Read the credentials again, from where they came."""
        configuration = _without_retries(self._access.renew())
        with self._lock:
            old, self._client = self._client, self._connect(configuration)
            self._configuration = configuration
        _let_go(old)

    def unreachable(self, why: str) -> str:
        """Words for a server that did not answer."""
        return (
            f"the API server {self.server} of context {self.context} ({self._access.origin}) cannot be reached: {why}"
        )

    def refused(self, what: str, refused: Refusal) -> str:
        """Words for what the server did not do."""
        if refused.status == 401:
            who = f' of user "{self._access.user}"' if self._access.user else ""
            return (
                f"the API server {self.server} does not accept the credentials{who} of context {self.context} "
                f"({self._access.origin}): log in again, or name a newer kubeconfig"
            )
        words = f"could not {what}: {refused.message}"
        if refused.status == 403:
            nobody = "system:anonymous" in refused.message
            way = (
                f"{self._access.origin} gives no credentials that this server knows"
                if nobody
                else "somebody who rules the cluster can grant it by a Role and a RoleBinding"
            )
            words = f"not allowed to {what}: {refused.message}; {way}"
        return words

    def heard(self, about: str, headers: Any) -> None:
        """Pass on what the server warned of in an answer's headers; each text once."""
        for text in _warnings(headers):
            with self._lock:
                new = text not in self._heard
                self._heard.add(text)
            if new:
                self._warned(about, text)

    def _write(self, verb: str, manifest: Object, dry_run: bool, send: Callable[..., Any]) -> Object:
        kind, metadata = str(manifest["kind"]), manifest["metadata"]
        where = self._where(kind, metadata.get("namespace"))
        options = _RAW | {"field_manager": MANAGER} | ({"dry_run": "All"} if dry_run else {})
        about = self._about(kind, str(metadata["name"]), where)
        return self._ask(
            f"{verb} {about}{' (dry run)' if dry_run else ''}",
            lambda api: send(api, _RESOURCES[kind], where, options),
            about=about,
        )

    def _ask(self, what: str, send: Callable[[Any], Any], *, tries: int = 0, about: str | None = None) -> Object:
        """Send a request and read its answer. `tries`: how often it may be sent at most; 0 for a write, which is sent
        once, and of which it must be said whether it may have been done."""
        renewed, tried = False, 0
        while True:
            tried += 1
            try:
                response = send(self._client)
                said = json.loads(response.data)
            except ApiException as error:
                if not error.status:
                    why = _certificate(str(error.reason), self._access.origin)
                    raise ClusterError(self.unreachable(why)) from error
                if error.headers is not None:
                    self.heard(about or what, error.headers)
                if error.status == 401 and not renewed:
                    # Refused before anything was done; a token may have run out during a long run.
                    renewed = True
                    self.renew()
                    continue
                found = refusal(error.status, error.reason, error.body)
                if tried < tries and (error.status == 429 or error.status >= 500):
                    time.sleep(_WAITS[tried - 1])
                    continue
                raise ClusterError(
                    self.refused(what, found),
                    status=found.status,
                    reason=found.reason,
                    causes=found.causes,
                    unsure=not tries and error.status >= 500,
                ) from error
            except (urllib3.exceptions.HTTPError, OSError) as error:
                if tried < tries:
                    time.sleep(_WAITS[tried - 1])
                    continue
                unsure = not tries and not _never_sent(error)
                words = self.unreachable(_why(error))
                if not tries:
                    after = "whether it was done is not known" if unsure else "nothing was sent"
                    words = f"could not {what}: {words}; {after}"
                raise ClusterError(words, unsure=unsure) from error
            except ValueError as error:
                raise ClusterError(f"{self.server} answered something else than JSON: no API server?") from error
            self.heard(about or what, response.headers)
            if not isinstance(said, dict):
                raise ClusterError(f"{self.server} answered no object: no API server?")
            return said

    def _connect(self, configuration: Any) -> Any:
        return DynamicClient(client.ApiClient(_without_retries(configuration)), discoverer=_NoDiscovery)

    def _where(self, kind: str, namespace: str | None) -> str | None:
        return (namespace or self.namespace) if _RESOURCES[kind].namespaced else None

    @staticmethod
    def _about(kind: str, name: str, where: str | None) -> str:
        return f"{kind} {where}/{name}" if where else f"{kind} {name}"


_RAW: dict[str, Any] = {"serialize": False, "_request_timeout": _TIMEOUT}
_TRIES = len(_WAITS) + 1


def _let_go(api: Any) -> None:
    api.client.close()
    api.client.rest_client.pool_manager.clear()  # which close() leaves to the garbage collector in 35


def _version(api: Any) -> Any:
    return api.request("get", "/version", **_RAW)


def _yaml(manifest: Object) -> bytes:
    """The server reads an apply as YAML: JSON in ASCII, but for an emoji, which JSON has as a surrogate pair and YAML
    does not know so."""
    return _PAIR.sub(_escape, json.dumps(manifest)).encode()


def _escape(pair: re.Match[str]) -> str:
    character = json.loads(f'"{pair[0]}"')
    return f"\\U{ord(character):08x}"


def _without_retries(configuration: Any) -> Any:
    """Left to itself, urllib3 would send a PUT or a DELETE twice."""
    configuration.retries = False
    configuration.client_go_retries = False
    if not configuration.verify_ssl:
        # The user's kubeconfig says so; once in the log is enough.
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    return configuration


def _never_sent(error: Exception) -> bool:
    return isinstance(error, urllib3.exceptions.NewConnectionError | urllib3.exceptions.ConnectTimeoutError)


def _why(error: Exception) -> str:
    kinds = urllib3.exceptions
    cause = error.__cause__ or error.__context__
    if isinstance(error, kinds.ProxyError):
        return f"the proxy failed: {error.original_error}"
    if isinstance(error, kinds.NameResolutionError):
        return f"the name is not known here ({getattr(cause, 'strerror', None) or 'no such host'})"
    if isinstance(error, kinds.NewConnectionError):
        return (getattr(cause, "strerror", None) or "no connection").lower()
    if isinstance(error, kinds.ConnectTimeoutError):
        return f"no connection within {_TIMEOUT[0]} s"
    if isinstance(error, kinds.ReadTimeoutError):
        return f"no answer within {_TIMEOUT[1]} s"
    if isinstance(error, kinds.ProtocolError):
        return "the connection broke off before the answer"
    return str(getattr(error, "strerror", None) or error)


def _certificate(said: str, origin: str) -> str:
    """Words for a TLS error of which the client kept the text alone."""
    if "WRONG_VERSION_NUMBER" in said:
        return "it does not speak TLS: is the server's address in the kubeconfig right (http, not https)?"
    found = re.search(r"certificate verify failed: ([^(\n]+)", said)
    if found is not None:
        return f"its certificate is not accepted: {found[1].strip()}; is {origin} that cluster's, and its newest?"
    return " ".join(said.split())


def _warnings(headers: Any) -> list[str]:
    if headers is None:
        return []
    values = headers.getlist("Warning") if hasattr(headers, "getlist") else [headers.get("Warning") or ""]
    return [re.sub(r"\\(.)", r"\1", text) for value in values for text in _WARNING.findall(value)]
