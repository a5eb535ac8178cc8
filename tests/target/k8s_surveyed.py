"""A cluster to be surveyed: it answers from memory, merges a dry apply into what is there, and is never written to."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, cast

from kubernetes_plans import planned
from spec_files import GOOD

from runner.plan.model import Plan
from runner.target.base import Survey
from runner.target.kubernetes.cluster import Cluster
from runner.target.kubernetes.difference import keyed
from runner.target.kubernetes.ground import Ground
from runner.target.kubernetes.settings import Settings

Object = dict[str, Any]
PATCH = "{baseline: {deployment: vllm}}"


class Surveyed:
    """What there is, by kind."""

    context, namespace, server, version, in_cluster = "kit", "llm", "https://kit", "v1.36.0", False
    kubeconfig = None

    def __init__(self, **things: list[Object]) -> None:
        self.things = things

    def get(self, kind: str, name: str) -> Object | None:
        return next((copy.deepcopy(one) for one in self.list(kind) if one["metadata"]["name"] == name), None)

    def list(self, kind: str, **_: Any) -> list[Object]:
        return self.things.get(kind, [])

    def apply(self, manifest: Object, *, force: bool = False, dry_run: bool = False) -> Object:
        assert dry_run
        live = self.get("Deployment", manifest["metadata"]["name"])
        merged = manifest if live is None else _merged("", live, manifest)
        return copy.deepcopy(cast(Object, merged))


def _merged(field: str, live: Any, sent: Any) -> Any:
    if isinstance(live, dict) and isinstance(sent, dict):
        return {**live, **{key: _merged(key, live.get(key), one) for key, one in sent.items()}}
    if isinstance(live, list) and isinstance(sent, list):
        old, new = keyed(field, live), keyed(field, sent)
        if old is not None and new is not None:
            return [_merged("", old.get(key), new.get(key, old.get(key))) for key in {**old, **new}]
    return sent


def production(*, env: list[Object] | None = None, name: str = "vllm", **spec: Any) -> Object:
    """The user's own Deployment."""
    labels = {"app": name}
    container: Object = {"name": name, "image": "vllm/vllm-openai:v0.25.0", "args": ["some/model"]}
    if env is not None:
        container["env"] = env
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "llm", "uid": f"uid-{name}", "resourceVersion": "1", "generation": 1},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "strategy": {"type": "Recreate"},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            **spec,
        },
    }


def ground(folder: Path, cluster: Surveyed, site: str = PATCH, spec: str = "{}", good: str = GOOD) -> Ground:
    plan: Plan
    settings: Settings
    plan, settings = planned(folder, spec, site, good)
    return Ground(cast(Cluster, cluster), settings, plan)


def survey(folder: Path, cluster: Surveyed, site: str = PATCH, spec: str = "{}", good: str = GOOD) -> Survey:
    return ground(folder, cluster, site, spec, good).survey()
