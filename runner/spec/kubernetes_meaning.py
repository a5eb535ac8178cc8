"""What the schema cannot say of a `kubernetes:` block: names that meet, secrets in plain sight, files that are missing.

Like `meaning`, every rule passes over what has the wrong shape. What only shows when spec and site file are put
together (a mount whose volume the other file has) is judged there: `runner/target/kubernetes/settings.py`.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any

from runner.engine.environment import is_secret
from runner.spec.problem import Path, shown
from runner.spec.prompts import did_you_mean

Found = Iterator[tuple[Path, str, bool]]
"""Path, message, and whether the problem is the key (else its value)."""

SHM, CACHE = "shm", "cache"
"""Volumes that the templates make themselves."""

_BLOCK: Path = ("kubernetes",)
_HANDLERS = ("httpGet", "exec", "tcpSocket", "grpc")
_SECRET = (
    "this sounds like a secret, and its value would stand in plain sight in the Deployment; name the Secret that "
    "holds it: kubernetes: {{secrets: {{{name}: {{name: SECRET, key: KEY}}}}}}"
)


def kubernetes_problems(root: Mapping[str, Any], folder: FilePath, variables: Mapping[str, Any] | None = None) -> Found:
    """The block's problems, in a spec or in a site file. `folder` is that file's own; `variables` are the environment
    variables that the same file sets for engines elsewhere."""
    block = _map(root.get("kubernetes"))
    yield from _environment(block, variables or {})
    yield from _resources(block)
    yield from _volumes(block)
    yield from _probes(block)
    yield from _baseline(block)
    yield from _templates(block, folder)
    for key in ("volumes", "volume-mounts", "tolerations", "cache", "probes", "resources"):
        try:
            json.dumps(block.get(key), allow_nan=False)
        except (TypeError, ValueError):
            yield (*_BLOCK, key), "this cannot be written as JSON, which is what a cluster is sent", False


def _environment(block: Mapping[str, Any], variables: Mapping[str, Any]) -> Found:
    env, secrets = _map(block.get("env")), _map(block.get("secrets"))
    allowed = "token-in-plain-env" in _list(block.get("allow"))
    for key, names in (("env", env), ("secrets", secrets)):
        for name in names:
            if not name or "=" in name or not (name.isascii() and name.isprintable()):
                yield (*_BLOCK, key, name), f"{shown(name)} cannot be the name of an environment variable", True
    for name, value in env.items():
        if is_secret(name) and not allowed:
            yield (*_BLOCK, "env", name), _SECRET.format(name=name), True
        if isinstance(value, str) and "\0" in value:
            yield (*_BLOCK, "env", name), "a NUL character cannot be given to a process", False
    for name in secrets:
        if name in env:
            yield (
                (*_BLOCK, "secrets", name),
                f'"{name}" has a value in kubernetes.env too; it has one or the other',
                True,
            )
        elif name in variables:
            message = f'"{name}" has a value in an env of this file too; it has one or the other'
            yield (*_BLOCK, "secrets", name), message, True


def _resources(block: Mapping[str, Any]) -> Found:
    resources = _map(block.get("resources"))
    limits, requests = _map(resources.get("limits")), _map(resources.get("requests"))
    for key, amounts in (("limits", limits), ("requests", requests)):
        for name, value in amounts.items():
            if "/" in name and isinstance(value, (str, int, float)) and not str(value).isdecimal():
                message = f"{shown(value)} must be a whole number: a device such as {name} is not divided"
                yield (*_BLOCK, "resources", key, name), message, False
    for name, value in requests.items():
        if "/" not in name:
            continue
        where: Path = (*_BLOCK, "resources", "requests", name)
        if name not in limits:
            yield where, f'a device is asked for in limits: write limits: {{"{name}": {shown(value)}}}', True
        elif str(limits[name]) != str(value):
            yield (
                where,
                f"a device's request and its limit ({shown(limits[name])}) are one; leave the request out",
                False,
            )


def _volumes(block: Mapping[str, Any]) -> Found:
    for key, identity, what in (("volumes", "name", "volume"), ("volume-mounts", "mountPath", "mount")):
        seen: set[str] = set()
        for index, item in enumerate(_list(block.get(key))):
            where: Path = (*_BLOCK, key, index)
            needed = ("name",) if key == "volumes" else ("name", "mountPath")
            for field in needed:
                if isinstance(item, Mapping) and not (isinstance(item.get(field), str) and item[field]):
                    yield where, f'a {what} needs "{field}"', True
            named = _map(item).get(identity)
            if not isinstance(named, str):
                continue
            if named in seen:
                yield (*where, identity), f"{shown(named)} stands twice", False
            seen.add(named)
            if key == "volumes" and named in (SHM, CACHE):
                yield (*where, identity), f'the volume "{named}" is made by kubernetes: {{{named}: ...}}', False
            if key == "volumes" and len(item) != 2:
                yield where, "a volume has its name and one source: {name: models, hostPath: {path: /srv/models}}", True
            if key == "volume-mounts" and not named.startswith("/"):
                yield (*where, identity), f"{shown(named)} must be an absolute path in the container", False


def _probes(block: Mapping[str, Any]) -> Found:
    for name, probe in _map(block.get("probes")).items():
        handlers = [key for key in _HANDLERS if key in _map(probe)]
        if len(handlers) > 1:
            words = " and ".join(f'"{key}"' for key in handlers)
            yield (*_BLOCK, "probes", name), f"a probe asks in one way; here are {words}", True


def _baseline(block: Mapping[str, Any]) -> Found:
    baseline = _map(block.get("baseline"))
    deployment, name = baseline.get("deployment"), block.get("name")
    if not isinstance(deployment, str) or not isinstance(name, str):
        return
    if baseline.get("take-over") == "scale-to-zero":
        if name == deployment:
            message = (
                f'"{name}" is the baseline, which is scaled to zero meanwhile; the conditions need another name, or '
                f"baseline: {{take-over: patch}} to run in it"
            )
            yield (*_BLOCK, "name"), message, False
    elif name != deployment:
        message = (
            f'the conditions run in the baseline "{deployment}" itself and keep its name; leave "name" out, or '
            f"write baseline: {{take-over: scale-to-zero}}"
        )
        yield (*_BLOCK, "name"), message, False


def _templates(block: Mapping[str, Any], folder: FilePath) -> Found:
    for key, name in _map(block.get("templates")).items():
        if key not in ("deployment", "service") or not isinstance(name, str) or not name:
            continue
        try:
            path = folder / FilePath(name).expanduser()
            if not path.is_file():
                reason = "is no file" if path.exists() else f"does not exist{did_you_mean(path)}"
                yield (*_BLOCK, "templates", key), f"the template {shown(name)} {reason}", False
        except (OSError, RuntimeError, ValueError) as error:
            yield (*_BLOCK, "templates", key), f"the template {shown(name)} cannot be looked up: {error}", False


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
