"""A user's Deployment of an engine, made in the ways that users and their tools make one.

`vllm(...)` is the manifest; every `by_...` puts one into the cluster under another field manager.
"""

from __future__ import annotations

import json
import os
from typing import Any

from cluster import Namespace, Object
from cluster_kit import checked, kubectl

MODEL = "Qwen/Qwen2.5-3B-Instruct-AWQ"
ARGS = ("--served-model-name", "qwen", "--max-model-len", "4096", "--max-num-seqs", "16", "--enforce-eager")


def vllm(
    image: str,
    *,
    name: str = "vllm",
    model: str = MODEL,
    args: tuple[str, ...] = ARGS,
    env: dict[str, str] | None = None,
    gpus: int = 1,
    **spec: Any,
) -> Object:
    """A manifest as people write it: no strategy, hence RollingUpdate. `spec` goes over the Deployment's spec."""
    listen = ("--host", "0.0.0.0", "--port", "8000")
    container: Object = {
        "name": name,
        "image": image,
        "command": ["vllm", "serve"],
        "args": [model, *args, *listen],
        "ports": [{"name": "http", "containerPort": 8000}],
        "readinessProbe": {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 1},
    }
    if env:
        container["env"] = [{"name": key, "value": value} for key, value in env.items()]
    if gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": str(gpus)}}
    pod: Object = {"terminationGracePeriodSeconds": 5, "containers": [container]}
    if gpus:
        pod["runtimeClassName"] = "nvidia"
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
            **spec,
        },
    }


def by_apply(namespace: Namespace, manifest: Object) -> None:
    """Client-side apply: manager kubectl-client-side-apply, and the annotation last-applied-configuration."""
    namespace.kubectl("apply", "--filename", "-", stdin=json.dumps(manifest))


def by_create(namespace: Namespace, manifest: Object) -> None:
    """Manager kubectl-create, no annotation."""
    namespace.kubectl("create", "--filename", "-", stdin=json.dumps(manifest))


def by_server_side_apply(namespace: Namespace, manifest: Object, manager: str) -> None:
    """Server-side apply under a tool's name: `helm`, `argocd-controller`. Takes over what others own."""
    words = ["apply", "--server-side", "--force-conflicts", f"--field-manager={manager}", "--filename", "-"]
    namespace.kubectl(*words, stdin=json.dumps(manifest))


def by_set_env(namespace: Namespace, name: str, **env: str) -> None:
    """`kubectl set env`: manager kubectl-set."""
    namespace.kubectl("set", "env", f"deployment/{name}", *(f"{key}={value}" for key, value in env.items()))


def by_patch(
    namespace: Namespace, name: str, patch: Object, kind: str = "strategic", manager: str | None = None
) -> None:
    """`kubectl patch`: manager kubectl-patch, or a tool's name."""
    words = ["patch", "deployment", name, f"--type={kind}", "--patch", json.dumps(patch)]
    namespace.kubectl(*words, *([f"--field-manager={manager}"] if manager else []))


def by_edit(namespace: Namespace, name: str, old: str, new: str) -> None:
    """`kubectl edit`, in which the user writes `new` for `old`: manager kubectl-edit."""
    program = [str(kubectl() if kubectl().exists() else "kubectl"), "--namespace", namespace.name]
    before = namespace.kubectl("get", "deployment", name, "--output", "yaml")
    assert old in before, before
    editor = f"sed -i 's|{old}|{new}|'"
    environment = {**os.environ, "KUBECONFIG": str(namespace.cluster.kubeconfig), "KUBE_EDITOR": editor}
    checked([*program, "edit", f"deployment/{name}"], environment)


def managers(deployment: Object) -> dict[str, set[str]]:
    """Field managers by name, with their operations, but for the status and its controller."""
    found: dict[str, set[str]] = {}
    for entry in deployment["metadata"]["managedFields"]:
        if entry.get("subresource") != "status":
            found.setdefault(entry["manager"], set()).add(entry["operation"])
    return found
