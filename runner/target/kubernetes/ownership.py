"""Whose the fields of an object are, and who else looks after it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from runner.target.kubernetes.belonging import controller
from runner.target.kubernetes.field_path import from_fields, from_server

Object = dict[str, Any]

_CONFLICT: Final = re.compile(
    r'conflict with (?P<manager>"(?:\\.|[^"\\])*")(?: with subresource "(?P<subresource>[^"]*)")?'
    r"(?P<update> using (?P<version>\S+)(?: at (?P<time>\S+))?)?"
)
_HAND: Final = re.compile(r"kubectl(?:-[a-z-]+)?")
_UNKNOWN: Final = "before-first-apply"


@dataclass(frozen=True, slots=True)
class Conflict:
    """A field that a server-side apply would set and that is another manager's. `applied`: by server-side apply too;
    else by an update. `subresource` is the one that it was written through, mostly none."""

    manager: str
    field: str
    applied: bool = False
    subresource: str | None = None


@dataclass(frozen=True, slots=True)
class ExternalOwner:
    """A tool that made an object. `fights`: it compares the object with what it wants, and puts a change back."""

    name: str
    fights: bool
    sign: str

    def words(self) -> str:
        does = "puts back what others change" if self.fights else "made it, and does not watch it"
        return f"{self.name} {does} ({self.sign})"


def conflicts(causes: Iterable[Mapping[str, Any]]) -> list[Conflict]:
    """The conflicts in the causes of a refused apply's Status. A message of an unknown form is a conflict all the same,
    with the whole message for a manager: nobody's hand."""
    found = []
    for cause in causes:
        message, field = str(cause.get("message") or ""), from_server(str(cause.get("field") or ""))
        if cause.get("reason") not in (None, "", "FieldManagerConflict"):
            continue
        read = _CONFLICT.fullmatch(message)
        if read is None:
            found.append(Conflict(message or "(unknown)", field))
        else:
            found.append(Conflict(_unquoted(read["manager"]), field, read["update"] is None, read["subresource"]))
    return found


def is_hand(manager: str) -> bool:
    """Whether the manager is somebody at a keyboard, whose settings may be taken over where the user says so: kubectl
    in any of its ways, and the server's own name for fields that nobody is known to have set (of an object without
    managedFields). A program that writes again is none."""
    return manager == _UNKNOWN or _HAND.fullmatch(manager) is not None


def owned_by(thing: Object, manager: str) -> bool:
    """Whether the manager owns any field of the object, however it wrote it."""
    return any(entry.get("manager") == manager for entry in _entries(thing))


def fields(entry: Mapping[str, Any]) -> list[str]:
    """The paths of the fields that an entry of managedFields owns."""
    owned = entry.get("fieldsV1")
    return from_fields(owned) if isinstance(owned, dict) else []


def external_owners(deployment: Object) -> list[ExternalOwner]:
    """The tools that say, by a label, an annotation, a field manager or as its owner, that the object is theirs.

    `app.kubernetes.io/instance` alone says nothing: Helm, Argo CD and people all set it.
    """
    found: dict[str, ExternalOwner] = {}
    for tool in _TOOLS:
        sign = tool.sign(deployment)
        if sign is not None:
            found.setdefault(tool.name, ExternalOwner(tool.name, tool.fights, sign))
    reference = controller(deployment)
    if reference is not None:
        name = f"{reference.get('kind')} {reference.get('name')}"
        found.setdefault(name, ExternalOwner(name, True, "its owner, by ownerReferences"))
    return list(found.values())


def autoscalers(autoscalers: Iterable[Object], name: str) -> list[str]:
    """The HorizontalPodAutoscalers, of the Deployment's namespace, that set the Deployment's replicas, in words."""
    found = []
    for one in autoscalers:
        target = (one.get("spec") or {}).get("scaleTargetRef") or {}
        group = str(target.get("apiVersion") or "apps/v1").partition("/")[0]
        if (target.get("kind"), target.get("name"), group) != ("Deployment", name, "apps"):
            continue
        spec = one["spec"]
        fewest = spec.get("minReplicas")
        span = f"{1 if fewest is None else fewest} to {spec.get('maxReplicas')} replicas"
        scaled = _scaled_object(one)
        made = f", made by KEDA's ScaledObject {scaled}" if scaled else ""
        found.append(f"HorizontalPodAutoscaler {one['metadata']['name']} ({span}{made})")
    return found


@dataclass(frozen=True, slots=True)
class _Tool:
    name: str
    fights: bool
    keys: re.Pattern[str]
    managers: re.Pattern[str]
    pairs: tuple[tuple[str, str], ...] = ()

    def sign(self, thing: Object) -> str | None:
        metadata = thing["metadata"]
        for kind in ("labels", "annotations"):
            for key, value in (metadata.get(kind) or {}).items():
                if self.keys.match(key) or (key, value) in self.pairs:
                    return f"{kind.removesuffix('s')} {key}: {value}"
        managers = [str(entry.get("manager")) for entry in _entries(thing)]
        return next((f"field manager {one}" for one in managers if self.managers.fullmatch(one)), None)


_TOOLS: Final = (
    _Tool("Argo CD", True, re.compile(r"argocd\.argoproj\.io/"), re.compile(r"argocd-.*")),
    _Tool(
        "Flux",
        True,
        re.compile(r"(?:kustomize|helm)\.toolkit\.fluxcd\.io/"),
        re.compile(r"kustomize-controller|helm-controller|flux(?:-.*)?"),
    ),
    _Tool(
        "Rancher Fleet or a k3s AddOn",
        True,
        re.compile(r"objectset\.rio\.cattle\.io/"),
        re.compile(r"fleetagent|fleet-agent|deploy@.*"),
    ),
    _Tool(
        "Helm",
        False,
        re.compile(r"meta\.helm\.sh/"),
        re.compile(r"helm"),
        (("app.kubernetes.io/managed-by", "Helm"),),
    ),
)


def _entries(thing: Object) -> list[Object]:
    return thing["metadata"].get("managedFields") or []


def _scaled_object(autoscaler: Object) -> str | None:
    reference = controller(autoscaler) or {}
    if reference.get("kind") == "ScaledObject":
        return str(reference.get("name"))
    label = (autoscaler["metadata"].get("labels") or {}).get("scaledobject.keda.sh/name")
    return None if label is None else str(label)


def _unquoted(text: str) -> str:
    try:
        return str(json.loads(text))
    except ValueError:
        return text[1:-1]
