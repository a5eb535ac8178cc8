"""What a run does to the user's Deployment, and that it is afterwards what it was."""

from __future__ import annotations

from pathlib import Path

from cluster import Namespace
from cluster_runs import baseline_there, beside, patched, write_site, write_spec
from untouched import owners, plain


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
