"""The Kubernetes target's settings, resolved: what the site file says, else the spec, else the default."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from runner.engine.environment import shown
from runner.plan.model import Plan
from runner.spec.kubernetes import (
    Baseline,
    KubernetesSettings,
    KubernetesSite,
    LintRule,
    Object,
    Probes,
    SecretKey,
    Templates,
    Transport,
)
from runner.spec.kubernetes_meaning import CACHE, SHM
from runner.spec.nearest import hint

Origin = Literal["site file", "spec", "default"]

DEFAULTS: Final[Mapping[str, Any]] = {
    "image_pull_policy": "IfNotPresent",
    "command": ["vllm", "serve"],
    "port": 8000,
    "replicas": 1,
    "shm": "2Gi",
    "termination_grace_seconds": 30,
    "transport": "pod-ip",
    "gpu_command": ["nvidia-smi"],
}
SHM_PATH: Final = "/dev/shm"  # a path in a container, not a file of this machine
CACHE_PATH: Final = "/cache"
CACHE_VARIABLE: Final = "XDG_CACHE_HOME"
"""By which vLLM and the Hugging Face hub find their caches, whoever the image's user is."""
PACKAGED: Final = "the program's own"

_LABEL_CHARACTERS: Final = 63
_MAPS: Final = ("env", "secrets", "resources", "node-selector", "volumes", "volume-mounts", "probes", "templates")


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting with its value.

    `name` is the Deployment's. `service` is the name of the Service that the runner makes: another one than a patched
    baseline's, whose own Service is somebody's. `container` is None where nobody named it: then it is a patched
    baseline's own, else `name`. `origins` says by key, as it is written in a file, which file a value is from.
    """

    kubeconfig: str | None
    context: str | None
    namespace: str | None
    name: str
    service: str
    container: str | None
    image: str | None
    image_pull_policy: str
    image_pull_secrets: list[str]
    command: list[str]
    port: int
    replicas: int
    env: dict[str, str]
    secrets: dict[str, SecretKey]
    limits: dict[str, str]
    requests: dict[str, str]
    claims: list[Object]
    runtime_class_name: str | None
    node_selector: dict[str, str]
    tolerations: list[Object]
    volumes: list[Object]
    volume_mounts: list[Object]
    shm: str
    cache: Object | None
    probes: dict[str, Object | None]
    termination_grace_seconds: int
    templates: Templates
    allow: list[LintRule]
    transport: Transport
    gpu_command: list[str]
    baseline: Baseline | None
    origins: dict[str, Origin] = field(default_factory=dict)

    @property
    def patches(self) -> bool:
        """Whether the conditions run in the baseline itself."""
        return self.baseline is not None and self.baseline.take_over == "patch"

    @property
    def through_service(self) -> bool:
        """Whether requests take the way through a Service, so that there must be one."""
        return self.transport in ("cluster-ip", "node-port")

    def described(self) -> dict[str, Any]:
        """Key by key as a file has it, for the record and for `run plan`. Values of variables that sound like secrets
        are hidden; what is set nowhere is left out."""
        told: dict[str, Any] = {
            "kubeconfig": self.kubeconfig,
            "context": self.context,
            "namespace": self.namespace,
            "name": self.name,
            "service": self.service,
            "container": self.container,
            "image": self.image,
            "image-pull-policy": self.image_pull_policy,
            "image-pull-secrets": self.image_pull_secrets,
            "command": self.command,
            "port": self.port,
            "replicas": self.replicas,
            "env": {name: shown(name, value) for name, value in self.env.items()},
            "secrets": {name: f"{one.key} of the Secret {one.name}" for name, one in self.secrets.items()},
            "resources": _told({"limits": self.limits, "requests": self.requests, "claims": self.claims}),
            "runtime-class-name": self.runtime_class_name,
            "node-selector": self.node_selector,
            "tolerations": self.tolerations,
            "volumes": self.volumes,
            "volume-mounts": self.volume_mounts,
            "shm": self.shm,
            "cache": self.cache,
            "probes": self.probes,
            "termination-grace-seconds": self.termination_grace_seconds,
            "templates": {name: path or PACKAGED for name, path in self.templates},
            "allow": self.allow,
            "transport": self.transport,
            "gpu-command": self.gpu_command,
            "baseline": self.baseline and self.baseline.model_dump(by_alias=True),
        }
        return _told(told)


def merge(spec: KubernetesSettings, site: KubernetesSite, *, experiment: str) -> Settings:
    """Both with absolute paths (`beside`); `experiment` is the plan's name, from which the Deployment has its own
    where nobody named it."""
    both = _Merge(spec, site)
    baseline: Baseline | None = both.value("baseline")
    named: str | None = both.value("name")
    if baseline is not None and baseline.take_over == "patch":
        name, service = baseline.deployment, _label(f"{baseline.deployment}-experiment")
        both.origins["name"] = both.origins["baseline"]
    else:
        name = named or _label(experiment)
        service = name
    both.origins["service"] = "default"  # no file has it
    wanted = (spec.resources, site.resources)
    return Settings(
        kubeconfig=both.value("kubeconfig"),
        context=both.value("context"),
        namespace=both.value("namespace"),
        name=name,
        service=service,
        container=both.value("container"),
        image=both.value("image"),
        image_pull_policy=both.value("image_pull_policy"),
        image_pull_secrets=both.whole("image_pull_secrets"),
        command=both.value("command"),
        port=both.value("port"),
        replicas=both.value("replicas"),
        env=both.maps("env", [spec.env, site.env]),
        secrets=both.maps("secrets", [spec.secrets, site.secrets]),
        limits=both.maps("resources.limits", [part.limits for part in wanted]),
        requests=both.maps("resources.requests", [part.requests for part in wanted]),
        claims=both.listed("resources.claims", [part.claims for part in wanted], "name"),
        runtime_class_name=both.value("runtime_class_name"),
        node_selector=both.maps("node-selector", [spec.node_selector, site.node_selector]),
        tolerations=both.whole("tolerations"),
        volumes=both.listed("volumes", [spec.volumes, site.volumes], "name"),
        volume_mounts=both.listed("volume-mounts", [spec.volume_mounts, site.volume_mounts], "mountPath"),
        shm=both.value("shm"),
        cache=both.value("cache"),
        probes=both.maps("probes", [_given(spec.probes), _given(site.probes)]),
        termination_grace_seconds=both.value("termination_grace_seconds"),
        templates=Templates.model_validate(both.maps("templates", [_said(spec.templates), _said(site.templates)])),
        allow=both.whole("allow"),
        transport=both.value("transport"),
        gpu_command=both.value("gpu_command"),
        baseline=baseline,
        origins=both.complete(_MAPS),
    )


class _Merge:
    """Takes one setting after the other, and notes where it was from."""

    def __init__(self, spec: KubernetesSettings, site: KubernetesSite) -> None:
        self._files: tuple[tuple[Origin, KubernetesSettings], ...] = (("site file", site), ("spec", spec))
        self.origins: dict[str, Origin] = {}

    def value(self, name: str) -> Any:
        """One value; a null says nothing, as a missing key does."""
        found: tuple[Origin, Any] = next(
            ((origin, getattr(file, name)) for origin, file in self._files if getattr(file, name, None) is not None),
            ("default", DEFAULTS.get(name)),
        )
        self.origins[_kebab(name)] = found[0]
        return found[1]

    def whole(self, name: str) -> Any:
        """A list, from the first file that has the key."""
        found: tuple[Origin, Any] = next(
            ((origin, getattr(file, name)) for origin, file in self._files if name in file.model_fields_set),
            ("default", []),
        )
        self.origins[_kebab(name)] = found[0]
        return found[1]

    def maps(self, key: str, spec_then_site: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Key by key."""
        merged: dict[str, Any] = {}
        for (origin, _), found in zip(reversed(self._files), spec_then_site, strict=True):
            for name, value in found.items():
                merged[name] = value
                self.origins[f"{key}.{name}"] = origin
        return merged

    def complete(self, keys: Iterable[str]) -> dict[str, Origin]:
        """The origins, with those of these maps that nobody wrote anything into."""
        empty = [key for key in keys if not any(name.startswith(f"{key}.") for name in self.origins)]
        return {**self.origins, **dict.fromkeys(empty, "default")}

    def listed(self, key: str, spec_then_site: list[list[Object]], identity: str) -> list[Object]:
        """Objects that have a name of their own, by that name."""
        named = [{str(item.get(identity)): item for item in items} for items in spec_then_site]
        return list(self.maps(key, named).values())


def problems(settings: Settings, plan: Plan) -> list[str]:
    """What makes these settings impossible for the plan, and only shows now that all is put together."""
    found = []
    if settings.image is None:
        found.append("no image is named; write kubernetes: {image: vllm/vllm-openai:v0.26.0} into spec or site file")
    baseline = settings.baseline
    if baseline is not None and not settings.patches and baseline.deployment == settings.name:
        found.append(
            f"the conditions' Deployment and the baseline are both called {settings.name}, and the baseline is to be "
            f"scaled to zero meanwhile; give the conditions another name, or write baseline: {{take-over: patch}}"
        )
    found += _mounts_without_volume(settings)
    for name in settings.secrets:
        holders = [arm.label for arm in plan.arms if name in arm.env]
        if name in settings.env or holders:
            where = "kubernetes.env" if name in settings.env else f"the env of {', '.join(holders)}"
            found.append(
                f"{name} is taken from a Secret by kubernetes.secrets, and has a value in {where}: leave one out"
            )
    for path, setting in ((SHM_PATH, "shm"), (CACHE_PATH, "cache")):
        mounted = any(mount.get("mountPath") == path for mount in settings.volume_mounts)
        if mounted and settings.origins.get(setting) != "default":
            found.append(f"kubernetes.volume-mounts mounts {path}, and kubernetes.{setting} does too: leave one out")
    return found


def _mounts_without_volume(settings: Settings) -> Iterable[str]:
    volumes = [str(volume.get("name")) for volume in settings.volumes]
    made = [SHM, *([CACHE] if settings.cache is not None else [])]
    for mount in settings.volume_mounts:
        name = str(mount.get("name"))
        if name not in (*volumes, *made):
            meant = hint(name, volumes) if volumes else "there is no volume yet: add it to kubernetes.volumes"
            yield f"kubernetes.volume-mounts mounts the volume {name}, which neither spec nor site file has; {meant}"


def _given(probes: Probes) -> dict[str, Any]:
    """The probes that a file names, null included."""
    return {name: getattr(probes, name) for name in Probes.model_fields if name in probes.model_fields_set}


def _said(templates: Templates) -> dict[str, str]:
    return {name: path for name, path in templates if path is not None}


def _kebab(name: str) -> str:
    return name.replace("_", "-")


def _label(text: str) -> str:
    """A text as the name of a Service: lower-case letters, digits and dashes, at most 63."""
    plain = re.sub(r"[^a-z0-9-]+", "-", text.lower()).strip("-")
    if not plain[:1].isalpha():
        plain = f"e-{plain}"
    if len(plain) > _LABEL_CHARACTERS and plain.endswith("-experiment"):
        plain = f"{plain[: _LABEL_CHARACTERS - 11].rstrip('-')}-experiment"
    return plain[:_LABEL_CHARACTERS].rstrip("-")


def _told(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None and value not in ({}, [])}
