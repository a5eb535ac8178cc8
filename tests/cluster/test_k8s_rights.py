"""A run with the rights that docs/kubernetes.md asks for, and with no others."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from cluster import Namespace
from cluster_runs import baseline_there, patched, write_site, write_spec
from ruamel.yaml import YAML
from vllm_cpu import ROOT

ACCOUNT = "experimenter"


def role() -> str:
    """The Role as the page has it."""
    page = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    [found] = re.findall(r"```yaml\n(apiVersion: rbac.*?)```", page, re.DOTALL)
    return str(found)


@pytest.fixture
def rights(namespace: Namespace, tmp_path: Path) -> Path:
    """A kubeconfig of a service account that has the Role and nothing else."""
    namespace.kubectl("create", "serviceaccount", ACCOUNT)
    namespace.kubectl("apply", "--filename", "-", stdin=role())
    account = f"--serviceaccount={namespace.name}:{ACCOUNT}"
    namespace.kubectl("create", "rolebinding", ACCOUNT, "--role=llm-experiment-runner", account)
    token = namespace.kubectl("create", "token", ACCOUNT).strip()
    config = YAML(typ="safe", pure=True).load(namespace.kubeconfig.read_text(encoding="utf-8"))
    for user in config["users"]:
        user["user"] = {"token": token}
    path = tmp_path / "rights.kubeconfig"
    path.write_text(json.dumps(config), encoding="utf-8")
    return path


def test_the_rights_that_the_page_asks_for_are_enough(
    namespace: Namespace, engine_image: str, tmp_path: Path, rights: Path
) -> None:
    before = baseline_there(namespace, engine_image)
    write_site(tmp_path, engine_image, baseline=patched(), kubeconfig=str(rights), transport="cluster-ip")
    ran = namespace.run(tmp_path, str(write_spec(tmp_path)), "--yes")
    assert ran.code == 0, ran.stderr
    assert "runtimeclasses" in ran.stderr or "RuntimeClass" in ran.stderr  # what it may not see is said
    after = namespace.deployment("vllm")
    assert after["spec"] == before["spec"]
    for one in ran.record.baselines:
        assert one.restored is not None and one.restored.restored, one
    assert [one.saved.what.partition(" ")[0] for one in ran.record.baselines] == ["Deployment", "Service"]
    assert ran.record.engines[0].launched is not None
    assert ran.record.engines[0].launched.transport == "cluster-ip"
    assert namespace.list("services") == []
