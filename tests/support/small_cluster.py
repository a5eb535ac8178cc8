"""A cluster in memory, with one Deployment controller, for tests of what a run takes and gives back."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any

from runner.target.kubernetes.cluster import MANAGER, ClusterError

Object = dict[str, Any]


class SmallCluster:
    """Each write moves the object's version, and the controller acts before it returns: a new ReplicaSet for a new
    template, no Pod of an old one, and Pods that are Ready at once.

    `before` is called before anything is done, `after` once a write is done and before it is answered; both get the
    verb, the kind and the name, and may raise.
    """

    namespace, context, in_cluster, kubeconfig = "demo", "small", False, "/home/user/.kube/config"

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Object] = {}
        self.before: Callable[[str, str, str], None] = lambda *_: None
        self.after: Callable[[str, str, str], None] = lambda *_: None
        self.writes: list[tuple[str, str, str]] = []
        self._made = 0

    def get(self, kind: str, name: str, namespace: str | None = None) -> Object | None:
        self.before("get", kind, name)
        return copy.deepcopy(self.objects.get((kind, name)))

    def list(self, kind: str, *, labels: Mapping[str, str] | None = None, **_: Any) -> list[Object]:
        self.before("list", kind, "")
        wanted = dict(labels or {}).items()
        every = [one for (which, _), one in self.objects.items() if which == kind]
        return [copy.deepcopy(one) for one in every if wanted <= (one["metadata"].get("labels") or {}).items()]

    def create(self, manifest: Object) -> Object:
        key = (manifest["kind"], manifest["metadata"]["name"])
        self.before("create", *key)
        if key in self.objects:
            raise ClusterError("already there", status=409, reason="AlreadyExists")
        return self._written("create", self._fresh(manifest))

    def apply(self, manifest: Object, *, force: bool = False) -> Object:
        key = (manifest["kind"], manifest["metadata"]["name"])
        self.before("apply", *key)
        there = self.objects.get(key)
        if there is None:
            return self._written("apply", self._fresh(manifest))
        self._fenced(manifest)
        made = copy.deepcopy(there)
        made["spec"].update(copy.deepcopy(manifest["spec"]))
        return self._written("apply", _owned(made))

    def replace(self, body: Object) -> Object:
        key = (body["kind"], body["metadata"]["name"])
        self.before("replace", *key)
        self._fenced(body)
        changed = body["spec"] != self.objects[key]["spec"]
        made = copy.deepcopy(body)
        made["metadata"]["uid"] = self.objects[key]["metadata"]["uid"]
        made["status"] = self.objects[key].get("status", {})
        return self._written("replace", _owned(made) if changed else made)

    def scale(self, name: str, replicas: int, *, resource_version: str) -> Object:
        self.before("scale", "Deployment", name)
        made = copy.deepcopy(self.objects["Deployment", name])
        if made["metadata"]["resourceVersion"] != resource_version:
            raise ClusterError("changed since", status=409, reason="Conflict")
        made["spec"]["replicas"] = replicas
        self._written("scale", _owned(made))
        return {}

    def delete(self, kind: str, name: str, *, uid: str) -> None:
        self.before("delete", kind, name)
        there = self.objects.get((kind, name))
        if there is None:
            return
        if there["metadata"]["uid"] != uid:
            raise ClusterError("another one", status=409, reason="Conflict")
        del self.objects[kind, name]
        for key, one in list(self.objects.items()):
            if key[0] in ("ReplicaSet", "Pod") and one["metadata"]["labels"].get("of") == name:
                del self.objects[key]
        self.writes.append(("delete", kind, name))
        self.after("delete", kind, name)

    def pod(self, name: str, labels: Mapping[str, str], owner: str | None, phase: str = "Running") -> None:
        """Put a Pod there."""
        ready = {"type": "Ready", "status": "True" if phase == "Running" else "False"}
        references = [{"controller": True, "uid": owner}] if owner else []
        self.objects["Pod", name] = {
            "kind": "Pod",
            "metadata": {"name": name, "uid": f"uid-{name}", "labels": dict(labels), "ownerReferences": references},
            "spec": {"containers": [{"name": "vllm"}]},
            "status": {"phase": phase, "conditions": [ready]},
        }

    def _fenced(self, manifest: Object) -> None:
        there = self.objects[manifest["kind"], manifest["metadata"]["name"]]
        wanted = manifest["metadata"].get("resourceVersion")
        if wanted is not None and wanted != there["metadata"]["resourceVersion"]:
            raise ClusterError("changed since", status=409, reason="Conflict")

    def _fresh(self, manifest: Object) -> Object:
        self._made += 1
        made = copy.deepcopy(manifest)
        made["metadata"].update(uid=f"made-{self._made}", resourceVersion="0", generation=0, managedFields=[])
        return _owned(made)

    def _written(self, verb: str, made: Object) -> Object:
        kind, name = made["kind"], made["metadata"]["name"]
        there = self.objects.get((kind, name))
        version = int(there["metadata"]["resourceVersion"]) if there else 0
        made["metadata"]["resourceVersion"] = str(version + 1)
        if there is None or there["spec"] != made["spec"]:
            made["metadata"]["generation"] = int(made["metadata"].get("generation") or 0) + 1
        self.objects[kind, name] = made
        self.writes.append((verb, kind, name))
        if kind == "Deployment":
            self.control(name)
        self.after(verb, kind, name)
        return copy.deepcopy(self.objects[kind, name])

    def control(self, name: str) -> None:
        """What the Deployment controller does."""
        live = self.objects["Deployment", name]
        template, replicas = live["spec"]["template"], live["spec"].get("replicas", 1)
        mark = f"{abs(hash(json.dumps(template, sort_keys=True))) % 10**8:08}"
        labels = {**live["spec"]["selector"]["matchLabels"], "of": name, "pod-template-hash": mark}
        new = f"{name}-{mark}"
        revision = {"deployment.kubernetes.io/revision": mark}
        live["metadata"].setdefault("annotations", {}).update(revision)
        self.objects["ReplicaSet", new] = {
            "kind": "ReplicaSet",
            "metadata": {
                "name": new,
                "uid": f"uid-{new}",
                "labels": labels,
                "annotations": revision,
                "ownerReferences": [{"controller": True, "uid": live["metadata"]["uid"]}],
            },
            "spec": {"template": copy.deepcopy(template)},
        }
        for key, one in list(self.objects.items()):
            mine = key[0] == "Pod" and one["metadata"]["labels"].get("of") == name
            if mine and one["status"]["phase"] == "Running":
                del self.objects[key]
        for number in range(replicas):
            self.pod(f"{new}-{number}", labels, f"uid-{new}")
            pod = self.objects["Pod", f"{new}-{number}"]
            pod["metadata"]["annotations"] = (template.get("metadata") or {}).get("annotations") or {}
        counts = dict.fromkeys(("replicas", "updatedReplicas", "availableReplicas"), replicas)
        live["status"] = {"observedGeneration": live["metadata"]["generation"], **counts}


def _owned(made: Object) -> Object:
    managers = made["metadata"].setdefault("managedFields", [])
    if MANAGER not in [one["manager"] for one in managers]:
        managers.append({"manager": MANAGER})
    return made
