"""How engines run as Deployments of a cluster: what a spec or a site file says of it."""

from typing import Annotated, Any, Literal

from pydantic import Field

from runner.spec.invariants import Key, Name
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
]
Object = dict[str, Any]
"""A part of a Kubernetes object, written as Kubernetes has it (camelCase keys)."""
DnsLabel = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]


class SecretKey(Strict):
    """A key of a Secret: named, never read."""

    name: Name
    key: Name


class Baseline(Strict):
    """A Deployment that is there before the run and must be there, unchanged, after it."""

    deployment: DnsLabel
    take_over: TakeOver = Field(
        default="patch",
        description="patch: the conditions run in this Deployment itself; scale-to-zero: it gives its GPU up for the "
        "time, and the conditions run in a Deployment of their own.",
    )


class Templates(Strict):
    """The author's own Jinja templates, from this file's folder."""

    deployment: Name | None = None
    service: Name | None = None


class KubernetesSettings(Strict):
    """The Kubernetes target's settings. What the site file says wins over what the spec says, key by key."""

    name: DnsLabel | None = Field(default=None, description="Of Deployment, Service and container.")
    image: Name | None = Field(default=None, description="With a tag that stays what it is, or a digest.")
    image_pull_policy: Literal["IfNotPresent", "Always", "Never"] | None = None
    image_pull_secrets: list[Name] = Field(default_factory=list)
    command: list[Name] | None = Field(
        default=None,
        description="The container's command; the model, the condition's arguments, --host and --port follow as its "
        "args. Default: [vllm, serve].",
    )
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    replicas: Annotated[int, Field(ge=1, le=1)] | None = Field(
        default=None, description="One: the counters of one Pod are compared with the requests that it served."
    )
    env: dict[str, str] = Field(default_factory=dict, description="For every condition's container.")
    secrets: dict[str, SecretKey] = Field(
        default_factory=dict, description="Environment variables whose values are a Secret's, by reference."
    )
    resources: Object | None = Field(default=None, description="As in a container: {limits: {nvidia.com/gpu: 1}}.")
    runtime_class_name: Name | None = None
    node_selector: dict[str, str] = Field(default_factory=dict)
    tolerations: list[Object] = Field(default_factory=list)
    volumes: list[Object] = Field(default_factory=list, description="As in a Pod's spec.")
    volume_mounts: list[Object] = Field(default_factory=list, description="As in a container.")
    shm: Name | None = Field(default=None, description="Size of /dev/shm, in memory: 2Gi.")
    cache: Object | None = Field(
        default=None, description="A volume source for ~/.cache, kept from start to start: {hostPath: {path: /models}}."
    )
    probes: dict[Literal["startup", "readiness", "liveness"], Object | None] = Field(
        default_factory=dict, description="Over the template's own; null leaves a probe out."
    )
    termination_grace_seconds: Annotated[int, Field(ge=0)] | None = None
    templates: Templates = Templates()
    allow: list[LintRule] = Field(default_factory=list, description="Rules of the lint that are switched off.")
    transport: Transport | None = Field(
        default=None,
        description="How the load reaches the engine; default: pod-ip. Token latency through "
        "port-forward is no measurement, and the report says so.",
    )
    gpu_command: list[Name] | None = Field(default=None, description="nvidia-smi in the container, if elsewhere.")
    baseline: Baseline | None = None


class KubernetesSite(KubernetesSettings):
    """What only a site file has: which cluster, and where in it."""

    kubeconfig: Name | None = Field(default=None, description="Default: $KUBECONFIG, else ~/.kube/config.")
    context: Key | None = Field(default=None, description="Default: the kubeconfig's current one.")
    namespace: DnsLabel | None = Field(default=None, description="Default: the context's, else default.")
