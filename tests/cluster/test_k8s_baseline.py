"""What a run does to the user's Deployment, and that it is afterwards what it was."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from cluster import Namespace, Object
from cluster_runs import baseline_there, beside, patched, write_site, write_spec

UNTOUCHED = ("resourceVersion", "generation", "managedFields")


def plain(deployment: Object) -> Any:
    """The object without what Kubernetes moves by itself."""
    kept = copy.deepcopy(deployment)
    for key in UNTOUCHED:
        kept["metadata"].pop(key, None)
    kept["metadata"].get("annotations", {}).pop("deployment.kubernetes.io/revision", None)
    kept.pop("status", None)
    return kept


def owners(deployment: Object) -> list[Any]:
    """Who owns which field, but for the status."""
    return [
        (entry["manager"], entry["operation"], entry["fieldsV1"])
        for entry in deployment["metadata"]["managedFields"]
        if entry.get("subresource") != "status"
    ]


def test_a_patched_baseline_is_put_back_field_by_field_and_owner_by_owner(
    namespace: Namespace, engine_image: str, tmp_path: Path
) -> None:
    before = baseline_there(namespace, engine_image, env={"EXTRA": "kept"})
    write_site(tmp_path, engine_image, baseline=patched())
    ran = namespace.run(tmp_path, str(write_spec(tmp_path)), "--yes")
    print(ran.stderr)
    print(ran.stdout)
    assert ran.code == 0, ran.stderr
    after = namespace.deployment("vllm")
    assert plain(after) == plain(before)
    assert owners(after) == owners(before)
    restored = ran.record.baselines[0].restored
    assert restored is not None and restored.restored
    assert all(one.equal for one in restored.compared), restored.compared


def test_a_baseline_that_gives_up_its_gpu_gets_it_back(namespace: Namespace, engine_image: str, tmp_path: Path) -> None:
    before = baseline_there(namespace, engine_image)
    write_site(tmp_path, engine_image, baseline=beside())
    ran = namespace.run(tmp_path, str(write_spec(tmp_path)), "--yes")
    print(ran.stderr)
    assert ran.code == 0, ran.stderr
    after = namespace.deployment("vllm")
    assert plain(after) == plain(before)
    assert owners(after) == owners(before)
    assert [one["metadata"]["name"] for one in namespace.list("deployments")] == ["vllm"]


def test_what_did_not_exist_is_removed(namespace: Namespace, engine_image: str, tmp_path: Path) -> None:
    write_site(tmp_path, engine_image)
    ran = namespace.run(tmp_path, str(write_spec(tmp_path)))
    print(ran.stderr)
    assert ran.code == 0, ran.stderr
    for kind in ("deployments", "replicasets", "pods", "services"):
        assert namespace.list(kind) == []
