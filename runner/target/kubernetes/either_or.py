"""Fields of which Kubernetes takes one and not two, and that an apply cannot exchange.

It takes nothing away that another manager set: a variable's `value` and the `valueFrom` in its place would both be
there, which the server refuses.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from runner.target.kubernetes.difference import keyed
from runner.target.kubernetes.field_path import element

Object = Mapping[str, Any]

_SOURCES: Final = ("secretKeyRef", "configMapKeyRef", "fieldRef", "resourceFieldRef", "fileKeyRef")
_HANDLERS: Final = ("httpGet", "exec", "tcpSocket", "grpc")
_PROBES: Final = ("startupProbe", "readinessProbe", "livenessProbe")


@dataclass(frozen=True, slots=True)
class Clash:
    """At `path` the live object has the field `there`, and the manifest the field `sent` in its place."""

    path: str
    there: str
    sent: str

    def words(self) -> str:
        """In one line, with the way out."""
        return (
            f"{self.path} has {self.there} in the Deployment that is there, and {self.sent} in what is rendered: "
            f"Kubernetes takes only one of them, and an apply takes away nothing that somebody else set. Change it in "
            f"the Deployment itself first, or leave it out of what is rendered: then it stays as it is, in every "
            f"condition"
        )


def clashes(manifest: Object, live: Object) -> list[Clash]:
    """What the apply of the manifest over the live object would be refused for."""
    sent, there = (one["spec"]["template"]["spec"] for one in (manifest, live))
    found: list[Clash] = []
    for path, ours, theirs in _pairs("spec.template.spec.volumes", sent, there, "volumes"):
        found += _clash(path, ours, theirs, tuple(key for key in {**theirs, **ours} if key != "name"))
    for kind in ("initContainers", "containers"):
        for path, ours, theirs in _pairs(f"spec.template.spec.{kind}", sent, there, kind):
            found += _in_container(path, ours, theirs)
    return found


def _in_container(path: str, ours: Object, theirs: Object) -> Iterator[Clash]:
    for place, mine, live in _pairs(f"{path}.env", ours, theirs, "env"):
        yield from _clash(place, mine, live, ("value", "valueFrom"))
        yield from _clash(place, mine.get("valueFrom") or {}, live.get("valueFrom") or {}, _SOURCES)
    for probe in _PROBES:
        yield from _clash(f"{path}.{probe}", ours.get(probe) or {}, theirs.get(probe) or {}, _HANDLERS)


def _pairs(path: str, ours: Object, theirs: Object, field: str) -> Iterator[tuple[str, Object, Object]]:
    """The elements that both lists have, by their keys."""
    mine, live = (keyed(field, one.get(field) or []) or {} for one in (ours, theirs))
    for key in mine:
        if key in live:
            yield element(path, key), mine[key], live[key]


def _clash(path: str, ours: Object, theirs: Object, fields: tuple[str, ...]) -> Iterator[Clash]:
    # an emptyDir without settings is a map without keys; a variable's value of no characters is none
    sent = [one for one in fields if ours.get(one) not in (None, "")]
    there = [one for one in fields if theirs.get(one) not in (None, "") and one not in sent]
    if sent and there:
        yield Clash(path, there[0], sent[0])
