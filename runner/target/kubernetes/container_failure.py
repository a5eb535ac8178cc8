"""A container's status, read for why it ended or cannot begin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from runner.target.kubernetes.belonging import full_name

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ended:
    """A container's first end; `exit_code` None where the status has only that it was restarted."""

    words: str
    exit_code: int | None
    out_of_memory: bool


_NOW: Final = {
    "ErrImageNeverPull": "its image is not on the node, and imagePullPolicy Never forbids to pull it",
    "InvalidImageName": "its image's name is none",
    "ImageInspectError": "its image on the node cannot be read",
    "SignatureValidationFailed": "its image's signature is not accepted",
    "CreateContainerConfigError": "what its environment or its volumes refer to is not there",
    "CreateContainerError": "it cannot be made",
    "RunContainerError": "it cannot be started",
    "PreCreateHookError": "it cannot be made",
    "PreStartHookError": "it cannot be started",
    "PostStartHookError": "its postStart hook failed",
}
"""Reasons that no waiting heals."""
_PULL: Final = ("ErrImagePull", "ImagePullBackOff", "RegistryUnavailable")
_IMAGE: Final = ("ErrImageNeverPull", "InvalidImageName", "ImageInspectError", "SignatureValidationFailed")
_PASSING: Final = "failed to sync"
"""Kubelet has not read a Secret or ConfigMap yet, which it says in the words of one that is missing."""

WaitingKind = Literal["image", "container", "crash-loop"]


def waiting(pod: Object, container: Object) -> tuple[WaitingKind, str, int, float] | None:
    """Why a container does not run: its kind, the words, and in how many observations and for how many seconds that
    must be seen to be final. None for one that runs, has ended or is being made."""
    state = (container.get("state") or {}).get("waiting") or {}
    reason, message = str(state.get("reason") or ""), str(state.get("message") or "").strip()
    said = f" ({reason}): {message}" if message else f" ({reason})"
    where = _where(pod, container)
    if reason in _NOW:
        kind: WaitingKind = "image" if reason in _IMAGE else "container"
        passing = _PASSING in message
        return kind, f"{where}: {_NOW[reason]}{said}", 2 if passing else 1, 20.0 if passing else 0.0
    if reason in _PULL:
        return "image", f"{where}: its image {container.get('image')} cannot be pulled{said}", 2, 0.0
    if reason == "CrashLoopBackOff":
        last = _terminated(container)
        code = f", last with exit code {last.get('exitCode')}" if last else ""
        return "crash-loop", f"{where} ends again and again{code}{said}", 2, 0.0
    return None


def ended(pod: Object, container: Object, killed: str | None) -> Ended | None:
    """The end of a container that should run on; None while it has not ended once. `killed`: why kubelet ended it."""
    last = _terminated(container)
    if last is None:
        count = int(container.get("restartCount") or 0)
        if count == 0:
            return None
        return Ended(f"{_where(pod, container)} was restarted {count} times", None, False)
    return _told(pod, container, last, killed)


def init_ended(pod: Object, container: Object) -> Ended | None:
    """The end of an init container that did not succeed. One that runs beside the others (restartPolicy Always) is
    restarted as they are, and is told by CrashLoopBackOff."""
    specs = pod["spec"].get("initContainers") or []
    if any(one["name"] == container["name"] and one.get("restartPolicy") == "Always" for one in specs):
        return None
    last = _terminated(container)
    return None if last is None or last.get("exitCode") == 0 else _told(pod, container, last, None)


def _told(pod: Object, container: Object, last: Object, killed: str | None) -> Ended:
    code, reason = last.get("exitCode"), str(last.get("reason") or "")
    where = _where(pod, container)
    said = f": {str(last['message']).strip()}" if last.get("message") else ""
    if reason == "OOMKilled":
        limit = _memory_limit(pod, str(container["name"]))
        of = f"its memory limit is {limit}" if limit else "it has no memory limit of its own, so the node ran out"
        words = f"{where} was killed for want of host memory, not GPU memory (OOMKilled, exit code {code}; {of})"
        return Ended(words + said, code, True)
    if reason in ("StartError", "ContainerCannotRun"):
        return Ended(f"{where} could not be started ({reason}){said}", code, False)
    by = f"; kubelet says: {killed}" if killed else ""
    return Ended(f"{where} ended with exit code {code}{f' ({reason})' if reason else ''}{by}{said}", code, False)


def _terminated(container: Object) -> Object | None:
    """Its present end, or its last one."""
    for state in ("state", "lastState"):
        found: Object | None = (container.get(state) or {}).get("terminated")
        if found is not None:
            return found
    return None


def _memory_limit(pod: Object, name: str) -> str | None:
    for one in [*(pod["spec"].get("initContainers") or []), *pod["spec"]["containers"]]:
        if one["name"] == name:
            limit = ((one.get("resources") or {}).get("limits") or {}).get("memory")
            return None if limit is None else str(limit)
    return None


def _where(pod: Object, container: Object) -> str:
    inits = [one["name"] for one in pod["spec"].get("initContainers") or []]
    kind = "init container" if container["name"] in inits else "container"
    return f"{kind} {container['name']} of Pod {full_name(pod)}"
