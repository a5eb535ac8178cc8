"""What an apply keeps of the object that was there: the live fields that the manifest does not speak of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from runner.target.kubernetes.difference import empty, is_open, keyed, printed
from runner.target.kubernetes.field_path import below, element, within
from runner.target.kubernetes.hidden import hide

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Leftover:
    """A field of the live object that the rendered manifest does not have and that stays after the apply. A value that
    sounds secret is `(hidden)`."""

    path: str
    value: Any

    def one(self) -> str:
        """As one line. What a variable of somebody else's holds is not shown, whatever its name."""
        return f"{self.path}: {'(kept)' if _plain_variable(self.path, self.value) else printed(self.value)}"


def leftovers(rendered: Object, result: Object, *, live: Object, fresh: Object | None = None) -> list[Leftover]:
    """The fields that are in the live object and in the result of the (dry) apply, and not in the rendered manifest.

    The API server's defaults are none: what `fresh` has too, the manifest as the server would create it, where that is
    known; else what the table of defaults here has. Kubernetes' and kubectl's own bookkeeping in the metadata is none
    either. Elements of lists that Kubernetes replaces as a whole cannot be left over.
    """
    found = []
    for path, value in _kept("", rendered, result, live, fresh):
        rest = value if fresh is not None else _without_defaults(path, value, result)
        if not empty(rest):
            found.append(Leftover(path, hide(path, value)))
    return found


def _plain_variable(path: str, value: Any) -> bool:
    if isinstance(value, dict):
        return _VARIABLE.search(path) is not None and "value" in value
    return _VARIABLE.search(path.removesuffix(".value")) is not None


_VARIABLE: Final = re.compile(r"\.env\[[^\]]*\]$")


@dataclass(frozen=True, slots=True)
class Unlike:
    """A field of the live object that the condition `kept` keeps and the condition `rendered` writes."""

    path: str
    kept: str
    rendered: str


def unlike(kept: Mapping[str, list[Leftover]], rendered: Mapping[str, Object]) -> list[Unlike]:
    """What would not stay as it is in a condition that keeps it, by the conditions' names: once another condition has
    written the field it is this run's own, and the next apply that leaves it out takes it away."""
    fields = {name: list(_fields("", manifest)) for name, manifest in rendered.items()}
    return [
        Unlike(one.path, keeps, writes)
        for keeps, leftover in kept.items()
        for one in leftover
        for writes, paths in fields.items()
        if writes != keeps and any(within(path, [one.path]) or within(one.path, [path]) for path in paths)
    ]


def _fields(path: str, value: Any) -> Iterator[str]:
    """The leaves of a manifest, by path."""
    place = below if isinstance(value, dict) else element
    parts = value if isinstance(value, dict) else None
    if isinstance(value, list):
        parts = keyed(path.rpartition(".")[2], value)
    if parts:
        for key, one in parts.items():
            yield from _fields(place(path, key), one)
    elif not empty(value):
        yield path


_BOOKKEEPING: Final = re.compile(
    r"(?:apiVersion|kind|status.*|metadata\.(?:name|namespace|uid|resourceVersion|generation|creationTimestamp"
    r"|managedFields|selfLink|deletion\w+|ownerReferences|finalizers)"
    r"|metadata\.annotations\[(?:deployment\.kubernetes\.io/revision|kubectl\.kubernetes\.io/last-applied-configuration)"
    r"\]|spec\.template\.metadata\.creationTimestamp)"
)


def _kept(path: str, rendered: Any, result: Any, live: Any, fresh: Any) -> Iterator[tuple[str, Any]]:
    if _BOOKKEEPING.fullmatch(path) or empty(result) or empty(live):
        return
    if rendered is None and fresh is not None:
        # The server's own filling-in: only what is more than that is left over.
        rendered, fresh = fresh, None
    if rendered is None:
        rendered = _none_of(path, result)
    if rendered is None:
        yield path, result
        return
    parts = _parts(path, rendered, result, live, fresh)
    if parts is not None:
        for place, *sides in parts:
            yield from _kept(place, *sides)


def _none_of(path: str, result: Any) -> Any:
    """What to hold a value against whose names or elements are told one by one; None for one told as a whole."""
    if isinstance(result, dict) and is_open(path):
        return {}
    return [] if isinstance(result, list) and keyed(path.rpartition(".")[2], result) is not None else None


def _parts(
    path: str, rendered: Any, result: Any, live: Any, fresh: Any
) -> Iterator[tuple[str, Any, Any, Any, Any]] | None:
    sides = (rendered, result, live, fresh)
    place = below if isinstance(result, dict) else element
    maps: list[dict[str, Any] | None]
    if isinstance(result, dict):
        maps = [one if isinstance(one, dict) else None for one in sides]
    elif isinstance(result, list):
        maps = [keyed(path.rpartition(".")[2], one) if isinstance(one, list) else None for one in sides]
    else:
        return None
    first, second, third, fourth = maps
    if first is None or second is None or third is None:
        return None
    return ((place(path, key), first.get(key), second[key], third.get(key), (fourth or {}).get(key)) for key in second)


_PROBE: Final = r"(?:.*\.)?(?:startup|readiness|liveness)Probe"
_DEFAULTS: Final[tuple[tuple[re.Pattern[str], Any], ...]] = tuple(
    (re.compile(pattern), value)
    for pattern, value in (
        (r"spec\.replicas", 1),
        (r"spec\.progressDeadlineSeconds", 600),
        (r"spec\.revisionHistoryLimit", 10),
        (r"spec\.strategy\.type", "RollingUpdate"),
        (r"spec\.strategy\.rollingUpdate\.(?:maxSurge|maxUnavailable)", "25%"),
        (r"spec\.template\.spec\.restartPolicy", "Always"),
        (r"spec\.template\.spec\.dnsPolicy", "ClusterFirst"),
        (r"spec\.template\.spec\.schedulerName", "default-scheduler"),
        (r"spec\.template\.spec\.terminationGracePeriodSeconds", 30),
        (r"spec\.template\.spec\.enableServiceLinks", True),
        (r".*ontainers\[[^\]]*\]\.terminationMessagePath", "/dev/termination-log"),
        (r".*ontainers\[[^\]]*\]\.terminationMessagePolicy", "File"),
        (r".*\.ports\[[^\]]*\]\.protocol", "TCP"),
        (rf"{_PROBE}\.(?:timeoutSeconds|successThreshold)", 1),
        (rf"{_PROBE}\.periodSeconds", 10),
        (rf"{_PROBE}\.failureThreshold", 3),
        (r".*\.httpGet\.scheme", "HTTP"),
        (r".*\.httpGet\.path", "/"),
        (r".*\.grpc\.service", ""),
        (r".*\.fieldRef\.apiVersion", "v1"),
        (r".*\.(?:secret|configMap|projected|downwardAPI)\.defaultMode", 420),
        (r".*\.hostPath\.type", ""),
        (r".*\.resourceFieldRef\.divisor", "0"),
    )
)
"""What Kubernetes 1.36 fills in of a Deployment, by path."""
_IMAGE: Final = re.compile(
    r"spec\.template\.spec\.(?P<list>initContainers|containers)\[(?P<name>[^\]]*)\]\.imagePullPolicy"
)
_ACCOUNT: Final = "spec.template.spec.serviceAccount"


def _without_defaults(path: str, value: Any, result: Object) -> Any:
    """The value without what the API server fills in; an element of a list stays as a whole."""
    if isinstance(value, dict):
        return {name: _without_defaults(below(path, name), one, result) for name, one in value.items()}
    if any(pattern.fullmatch(path) and value == default for pattern, default in _DEFAULTS):
        return None
    if (image := _IMAGE.fullmatch(path)) is not None:
        return None if value == _pull_policy(result, image["list"], image["name"]) else value
    if path == _ACCOUNT and value == result["spec"]["template"]["spec"].get("serviceAccountName"):
        return None  # the old name of the field, which the server keeps in step
    return value


def _pull_policy(result: Object, which: str, name: str) -> str | None:
    """What the server takes where none is given, from the image's tag."""
    containers = result["spec"]["template"]["spec"][which]
    image = next((str(one.get("image")) for one in containers if one["name"] == name), "")
    if "@" in image:
        return "IfNotPresent"
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"
