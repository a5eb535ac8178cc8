"""How a cluster is reached: a kubeconfig, or the service account of the Pod that the runner runs in."""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubernetes import client
from kubernetes.config import load_kube_config
from kubernetes.config.config_exception import ConfigException
from kubernetes.config.incluster_config import InClusterConfigLoader
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from runner.spec.nearest import hint
from runner.target.kubernetes.cluster_error import ClusterError

SITE_KEY = "kubernetes.kubeconfig of the site file"
K3S = Path("/etc/rancher/k3s/k3s.yaml")
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
IN_CLUSTER = "in-cluster"
_COPY_OF_K3S = (
    "k3s keeps it for root. Make a copy that only you can read: mkdir -p ~/.kube && (umask 077; sudo k3s kubectl "
    "config view --raw > ~/.kube/k3s.yaml), and name it in the site file: kubernetes: {kubeconfig: ~/.kube/k3s.yaml}"
)


@dataclass(frozen=True, slots=True)
class Access:
    """A cluster's address and the credentials for it. `origin` says where they are from, `files` are those that it was
    read from; `renew` reads them again from there, which asks a credential plugin anew, and gives a client
    configuration."""

    configuration: Any
    context: str
    namespace: str
    user: str
    in_cluster: bool
    origin: str
    renew: Callable[[], Any]
    files: tuple[Path, ...] = ()


def find_access(kubeconfig: str | None, context: str | None, environ: Mapping[str, str]) -> Access:
    """The kubeconfig that is named, else $KUBECONFIG, else ~/.kube/config, else the service account of this Pod.

    Raises ClusterError with the way out. k3s's own file is never taken by itself: it is an administrator's.
    """
    if kubeconfig is not None:
        return _from_files([Path(kubeconfig).expanduser()], SITE_KEY, context, environ)
    named = [Path(part).expanduser() for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    if named:
        # Like kubectl: a list may name files that are not there, if one of them is.
        there = [path for path in named if _exists(path)]
        return _from_files(there or named, "$KUBECONFIG", context, environ)
    usual = Path(environ.get("HOME") or "~").expanduser() / ".kube" / "config"
    if _exists(usual):
        return _from_files([usual], "the usual place", context, environ)
    if environ.get("KUBERNETES_SERVICE_HOST") and _exists(SERVICE_ACCOUNT / "token"):
        return _from_service_account(context, environ)
    words = (
        f"no kubeconfig: there is no {usual}, and neither $KUBECONFIG nor {SITE_KEY} names one. Name the one that "
        f"kubectl uses on this machine"
    )
    if _exists(K3S):
        words += f". {K3S} is here: {_COPY_OF_K3S}"
    raise ClusterError(words)


def _from_files(paths: list[Path], named_by: str, context: str | None, environ: Mapping[str, str]) -> Access:
    contents = {path: _read(path, named_by) for path in paths}
    where = " and ".join(str(path) for path in paths)
    contexts = _named(contents, "contexts", "context")
    if not contexts:
        raise ClusterError(f"{where} has no contexts: it names no cluster. It was named by {named_by}")
    name = context or next((str(c["current-context"]) for c in contents.values() if c.get("current-context")), None)
    if name is None:
        raise ClusterError(
            f"{where} has no current context, and none is named: set kubernetes.context in the site file, or choose "
            f"one with kubectl config use-context; there are: {', '.join(contexts)}"
        )
    if name not in contexts:
        said = "kubernetes.context names" if context else "its current-context names"
        raise ClusterError(f'{where} has no context "{name}", which {said}; {hint(name, contexts)}')
    chosen = contexts[name]
    for kind, part in (("clusters", "cluster"), ("users", "user")):
        target = chosen.get(part)
        if part == "cluster" or target:
            known = _named(contents, kind, part)
            if target not in known:
                raise ClusterError(
                    f'the context "{name}" of {where} names the {part} "{target}", which is not in it; '
                    f"{hint(str(target), known)}"
                )
    cluster = _named(contents, "clusters", "cluster")[chosen["cluster"]]
    if not isinstance(cluster.get("server"), str):
        raise ClusterError(f'the cluster "{chosen["cluster"]}" of {where} has no server')

    def load() -> Any:
        return _load(paths, name, where)

    configuration = load()
    user = str(chosen.get("user") or "")
    given = _named(contents, "users", "user").get(user, {})
    if given.get("exec") and not (configuration.api_key or configuration.cert_file):
        raise ClusterError(f'the credential plugin of user "{user}" of {where} gave no credentials')
    return Access(
        configuration=configuration,
        context=name,
        namespace=str(chosen.get("namespace") or "default"),
        user=user,
        in_cluster=_is_own_cluster(configuration.host, environ),
        origin=where,
        renew=load,
        files=tuple(paths),
    )


def _load(paths: list[Path], context: str, where: str) -> Any:
    configuration = client.Configuration()
    with _overheard() as said:
        try:
            # What a refresh of an OIDC token changes is written back, as kubectl does: the old one is void then.
            load_kube_config(os.pathsep.join(map(str, paths)), context, configuration, persist_config=True)
        except (ConfigException, OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise ClusterError(f'the context "{context}" of {where} cannot be used: {error}') from error
    if said:
        raise ClusterError(f'the context "{context}" of {where} gives no credentials: {"; ".join(said)}')
    return configuration


def _from_service_account(context: str | None, environ: Mapping[str, str]) -> Access:
    if context is not None:
        raise ClusterError(
            f'kubernetes.context names "{context}", but there is no kubeconfig here, only this Pod\'s service account: '
            f"leave the context out, or name a kubeconfig"
        )
    token, authority, namespace = (SERVICE_ACCOUNT / name for name in ("token", "ca.crt", "namespace"))

    origin = f"the service account of this Pod, {SERVICE_ACCOUNT}"

    def load() -> Any:
        configuration = client.Configuration()
        try:
            InClusterConfigLoader(str(token), str(authority), environ=environ).load_and_set(configuration)
        except (ConfigException, OSError, ValueError) as error:
            raise ClusterError(f"{origin}, cannot be used: {error}") from error
        return configuration

    return Access(
        configuration=load(),
        context=IN_CLUSTER,
        namespace=namespace.read_text(encoding="utf-8").strip() if _exists(namespace) else "default",
        user="service account",
        in_cluster=True,
        origin=origin,
        renew=load,
    )


def _read(path: Path, named_by: str) -> dict[str, Any]:
    about = f"the kubeconfig {path}, named by {named_by},"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ClusterError(
            f"{about} is not there: name one that is, by $KUBECONFIG or by {SITE_KEY}, or leave both out for "
            f"~/.kube/config"
        ) from None
    except PermissionError as error:
        raise ClusterError(f"{about} cannot be read: {error.strerror}. {_way_to(path)}") from error
    except UnicodeDecodeError as error:
        raise ClusterError(f"{about} is not text in UTF-8: {error.reason} at byte {error.start}") from error
    except OSError as error:
        raise ClusterError(f"{about} cannot be read: {error.strerror}") from error
    try:
        content = YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 1}" if mark is not None else ""
        # The words of the error alone: its excerpt could show a token.
        raise ClusterError(f"{about} is not YAML: {getattr(error, 'problem', None) or 'unreadable'}{place}") from None
    if not isinstance(content, dict):
        raise ClusterError(f"{about} is {'empty' if content is None else 'no kubeconfig: not a mapping'}")
    return content


def _way_to(path: Path) -> str:
    if K3S in (path, _resolved(path)):
        return (
            f"{_COPY_OF_K3S}. Or let k3s write it for everyone on this machine (its option --write-kubeconfig-mode "
            f"644): whoever reads it rules the cluster"
        )
    return (
        f'Make it yours (sudo chown "$USER" {path}; chmod 600 {path}), or name another one by $KUBECONFIG or by '
        f"{SITE_KEY}"
    )


def _named(contents: Mapping[Path, dict[str, Any]], kind: str, part: str) -> dict[str, dict[str, Any]]:
    """The entries of one list by name; of two with one name the first counts, as for kubectl."""
    found: dict[str, dict[str, Any]] = {}
    for path, content in contents.items():
        entries = content.get(kind) or []
        good = isinstance(entries, list) and all(
            isinstance(entry, dict) and isinstance(entry.get("name"), str) for entry in entries
        )
        if not good:
            raise ClusterError(f"the kubeconfig {path} is broken: {kind} is no list of entries with names")
        for entry in entries:
            value = entry.get(part)
            found.setdefault(entry["name"], value if isinstance(value, dict) else {})
    return found


def _is_own_cluster(server: str, environ: Mapping[str, str]) -> bool:
    """Whether a kubeconfig in a Pod leads to that Pod's own cluster, as far as its address shows."""
    own = environ.get("KUBERNETES_SERVICE_HOST")
    return bool(own) and any(f"//{host}" in server for host in (own, "kubernetes.default"))


@contextmanager
def _overheard() -> Iterator[list[str]]:
    """What the client logs in place of raising: why a credential plugin failed."""
    said: list[str] = []

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.name == "root":
                said.append(record.getMessage())

    ear, root = Ear(logging.ERROR), logging.getLogger()
    root.addHandler(ear)
    try:
        yield said
    finally:
        root.removeHandler(ear)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return True  # it is there, and somebody else's


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except OSError:
        return path
