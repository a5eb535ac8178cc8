"""How engines run as Deployments of a cluster: what a spec or a site file says of it."""

import os
import re
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, get_args

from pydantic import AfterValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from runner.spec.invariants import Key, Name
from runner.spec.problem import shown
from runner.spec.process import Place
from runner.spec.strict import Strict

Transport = Literal["pod-ip", "cluster-ip", "node-port", "port-forward"]
TakeOver = Literal["patch", "scale-to-zero"]
LintRule = Literal[
    "rolling-update-on-one-gpu",
    "progress-deadline-below-startup",
    "liveness-kills-slow-start",
    "mutable-tag",
    "token-in-plain-env",
    "missing-runtime-class",
    "service-links",
    "selector-differs",
    "container-differs",
    "replicas-not-one",
]
LINT_RULES: Final[tuple[LintRule, ...]] = get_args(LintRule)
Object = dict[str, Any]
"""A part of a Kubernetes object, written as Kubernetes has it (camelCase keys)."""


def _text(pattern: str, limit: int, what: str) -> tuple[AfterValidator, WithJsonSchema]:
    """Text of this pattern and length; `what` says in words what it must be."""

    def check(text: str) -> str:
        if len(text) > limit:
            words = {"text": shown(text), "count": len(text), "limit": limit}
            raise PydanticCustomError("kubernetes_name", "{text} has {count} characters; at most {limit} fit", words)
        if re.fullmatch(pattern, text) is None:
            raise PydanticCustomError("kubernetes_name", "{text} must {what}", {"text": shown(text), "what": what})
        return text

    schema = {"type": "string", "pattern": f"^{pattern}$", "maxLength": limit}
    return AfterValidator(check), WithJsonSchema(schema)


_LABEL: Final = "consist of lower-case letters, digits and dashes, and end with a letter or a digit"
ServiceName = Annotated[
    str, *_text(r"[a-z]([a-z0-9-]*[a-z0-9])?", 63, f"begin with a lower-case letter, {_LABEL}: it names a Service too")
]
DnsLabel = Annotated[str, *_text(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", 63, f"begin with one, {_LABEL}")]
ObjectName = Annotated[
    str,
    *_text(
        r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*",
        253,
        "be the name of a Kubernetes object: lower-case letters, digits, dashes and dots",
    ),
]
SecretKeyName = Annotated[
    str, *_text(r"[-._a-zA-Z0-9]+", 253, "be a key of a Secret: letters, digits, dots, dashes and underscores")
]
Image = Annotated[
    str,
    *_text(
        r"([a-zA-Z0-9.-]+(:[0-9]+)?/)?[a-z0-9._-]+(/[a-z0-9._-]+)*(:[a-zA-Z0-9_][a-zA-Z0-9._-]*)?(@[a-z0-9]+:[0-9a-f]+)?",
        1000,
        "be an image such as vllm/vllm-openai:v0.26.0, in lower case and without http://",
    ),
]

_QUANTITY: Final = re.compile(r"([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?")


def _quantity(value: Any) -> str:
    """A quantity as the API server prints it: text."""
    given = value if isinstance(value, str) else "" if isinstance(value, (bool, list, dict)) else shown(value)
    if _QUANTITY.fullmatch(given) is None:
        words = {"given": shown(value)}
        message = "{given} is no quantity of Kubernetes; write a number, or one with a unit such as 2Gi, 500Mi or 250m"
        raise PydanticCustomError("quantity", message, words)
    return given


Quantity = Annotated[
    Any,
    AfterValidator(_quantity),
    WithJsonSchema(
        {"anyOf": [{"type": "string", "pattern": f"^({_QUANTITY.pattern})$"}, {"type": "number", "minimum": 0}]}
    ),
]


class SecretKey(Strict):
    """A key of a Secret: named, never read."""

    name: ObjectName = Field(description="The Secret's.")
    key: SecretKeyName


class Resources(Strict):
    """What the container asks for, as in Kubernetes."""

    limits: dict[Key, Quantity] = Field(default_factory=dict, description="{nvidia.com/gpu: 1, memory: 24Gi}.")
    requests: dict[Key, Quantity] = Field(default_factory=dict)
    claims: list[Object] = Field(default_factory=list)


class Probes(Strict):
    """The kubelet's probes of the engine, as in a container; each laid over the template's own. Null leaves it out."""

    startup: Object | None = Field(
        default=None, description="Default: GET /health every 5 s, as often as limits.startup-seconds allows."
    )
    readiness: Object | None = Field(default=None, description="Default: GET /health every 5 s.")
    liveness: Object | None = Field(default=None, description="Default: none.")


class Baseline(Strict):
    """A Deployment that is there before the run and must be there, unchanged, after it."""

    deployment: ObjectName
    take_over: TakeOver = Field(
        default="patch",
        description="patch: the conditions run in this Deployment itself; scale-to-zero: it gives its GPU up for the "
        "time, and the conditions run in a Deployment of their own.",
    )


class Templates(Strict):
    """The author's own Jinja templates, by path from this file's folder."""

    deployment: Place | None = Field(default=None, description="Default: the one that comes with the program.")
    service: Place | None = Field(default=None, description="Default: the one that comes with the program.")

    def beside(self, folder: Path) -> Self:
        """The same with absolute paths."""
        given = {name: beside(folder, value) for name, value in self if value is not None}
        return self.model_copy(update=given)


class KubernetesSettings(Strict):
    """The Kubernetes target's settings. What the site file says wins over what the spec says: maps key by key, volumes
    and their mounts by name and path, other lists as a whole."""

    name: ServiceName | None = Field(
        default=None,
        description="Of the Deployment, its Service and its container. Default: the experiment's name; where a "
        "baseline is patched, the baseline's.",
    )
    container: DnsLabel | None = Field(
        default=None,
        description="The container's name in the Pod, where it is another: a baseline that is patched keeps its own.",
    )
    image: Image | None = Field(default=None, description="With a tag that stays what it is, or a digest. Required.")
    image_pull_policy: Literal["IfNotPresent", "Always", "Never"] | None = Field(
        default=None, description="Default: IfNotPresent."
    )
    image_pull_secrets: list[ObjectName] = Field(default_factory=list, description="Names of Secrets.")
    command: Annotated[list[Name], Field(min_length=1)] | None = Field(
        default=None,
        description="The container's command; the model, the condition's arguments, --host and --port follow as its "
        "args. Default: [vllm, serve].",
    )
    port: Annotated[int, Field(ge=1, le=65535)] | None = Field(
        default=None, description="The port that the engine listens on. Default: 8000."
    )
    replicas: Annotated[int, Field(ge=1, le=1)] | None = Field(
        default=None, description="One: the counters of one Pod are compared with the requests that it served."
    )
    env: dict[str, str] = Field(
        default_factory=dict, description="For every condition's container; a condition's own env wins."
    )
    secrets: dict[str, SecretKey] = Field(
        default_factory=dict,
        description="Environment variables whose values are a Secret's, by reference: "
        "{HF_TOKEN: {name: hf, key: token}}.",
    )
    resources: Resources = Field(
        default=Resources(), description="As in a container: {limits: {nvidia.com/gpu: 1}}. Default: none."
    )
    runtime_class_name: ObjectName | None = Field(
        default=None, description="nvidia on k3s. Default: none, the node's own runtime."
    )
    node_selector: dict[Key, str] = Field(default_factory=dict, description="Labels that the node must have.")
    tolerations: list[Object] = Field(default_factory=list, description="As in a Pod's spec.")
    volumes: list[Object] = Field(default_factory=list, description="As in a Pod's spec.")
    volume_mounts: list[Object] = Field(default_factory=list, description="As in a container.")
    shm: Quantity | None = Field(
        default=None, description="Size of /dev/shm, in memory; it counts against the memory limit. Default: 2Gi."
    )
    cache: Annotated[Object, Field(min_length=1, max_length=1)] | None = Field(
        default=None,
        description="A volume source for /cache, where XDG_CACHE_HOME then leads, kept from start to start: "
        "{hostPath: {path: /var/cache/vllm}}. Default: none, what an engine fetched or compiled goes with its Pod.",
    )
    probes: Probes = Field(default=Probes(), description="Laid over the template's own.")
    termination_grace_seconds: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="How long an engine may take to end. Default: 30."
    )
    templates: Templates = Field(default=Templates(), description="Jinja templates of your own.")
    allow: list[LintRule] = Field(default_factory=list, description="Rules of the lint that are switched off.")
    transport: Transport | None = Field(
        default=None,
        description="How the load reaches the engine; default: pod-ip. Token latency through port-forward is no "
        "measurement, and the report says so.",
    )
    gpu_command: Annotated[list[Name], Field(min_length=1)] | None = Field(
        default=None, description="What nvidia-smi is called in the container. Default: [nvidia-smi]."
    )
    baseline: Baseline | None = Field(
        default=None, description="The Deployment that holds the GPU now; it is put back after the run."
    )

    def beside(self, folder: Path) -> Self:
        """The same with absolute paths; `folder` is that of the file in which they were written."""
        return self.model_copy(update={"templates": self.templates.beside(folder)})


class KubernetesSite(KubernetesSettings):
    """What only a site file has: which cluster, and where in it."""

    kubeconfig: Place | None = Field(
        default=None, description="From this file's folder. Default: $KUBECONFIG, else ~/.kube/config."
    )
    context: Key | None = Field(default=None, description="Default: the kubeconfig's current one.")
    namespace: DnsLabel | None = Field(default=None, description="Default: the context's, else default.")

    def beside(self, folder: Path) -> Self:
        """The same with absolute paths; `folder` is that of the file in which they were written."""
        kubeconfig = None if self.kubeconfig is None else beside(folder, self.kubeconfig)
        return super().beside(folder).model_copy(update={"kubeconfig": kubeconfig})


def beside(folder: Path, path: str) -> str:
    """A path that was written in a file of this folder, absolute. `~` is the home directory."""
    return os.path.normpath(folder.absolute() / Path(path).expanduser())
