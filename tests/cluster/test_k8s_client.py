"""The client of a cluster, on a real one."""

import re
from pathlib import Path
from typing import Any

import pytest
from cluster_client import apply_as, connect, deployment, running, wait_for, with_args
from cluster_kit import PROBE

from runner.target.kubernetes.cluster import MANAGER, Cluster, ClusterError
from runner.target.kubernetes.pod_exec import execute


def test_what_is_connected_to_is_named(client: Cluster, kubeconfig: Path, namespace: Any) -> None:
    assert client.namespace == namespace.name
    assert re.fullmatch(r"v1\.\d+\.\d+.*", client.version)
    assert client.context in kubeconfig.read_text(encoding="utf-8")
    assert not client.in_cluster


def test_objects_are_as_the_api_gives_them(client: Cluster) -> None:
    assert client.get("Deployment", "engine") is None
    assert client.get("Deployment", "engine", "no-such-namespace") is None
    made = client.apply(deployment())
    assert made["metadata"]["managedFields"][0]["manager"] == MANAGER
    assert client.get("Deployment", "engine")["spec"] == made["spec"]  # type: ignore[index]
    found = client.list("Deployment", fields="metadata.name=engine")
    assert [(item["kind"], item["apiVersion"], item["metadata"]["name"]) for item in found] == [
        ("Deployment", "apps/v1", "engine")
    ]
    assert client.list("Deployment", labels={"app": "another"}) == []
    assert made["metadata"]["uid"] in {one["metadata"]["uid"] for one in client.list("Deployment", everywhere=True)}
    assert [node["kind"] for node in client.list("Node")][:1] == ["Node"]


def test_fields_of_another_manager_are_a_conflict_that_names_it(
    client: Cluster, kubeconfig: Path, tmp_path: Path
) -> None:
    apply_as("somebody", with_args("-port", "8080"), kubeconfig, client.namespace, tmp_path)
    with pytest.raises(ClusterError, match="somebody") as conflict:
        client.apply(with_args("-port", "8081"))
    assert (conflict.value.status, conflict.value.reason) == (409, "Conflict")
    assert [(cause["reason"], cause["field"]) for cause in conflict.value.causes] == [
        ("FieldManagerConflict", '.spec.template.spec.containers[name="main"].args')
    ]
    assert '"somebody"' in conflict.value.causes[0]["message"]
    taken = client.apply(with_args("-port", "8081"), force=True)
    assert taken["spec"]["template"]["spec"]["containers"][0]["args"] == ["-port", "8081"]


def test_a_dry_run_answers_and_changes_nothing(client: Cluster) -> None:
    assert client.apply(deployment(), dry_run=True)["spec"]["strategy"]["type"] == "RollingUpdate"
    assert client.create(deployment(), dry_run=True)["metadata"]["uid"]
    assert client.get("Deployment", "engine") is None
    before = client.apply(deployment())
    assert client.apply(with_args("-delay", "1s"), dry_run=True)["metadata"]["generation"] == 2
    after = client.get("Deployment", "engine")
    assert after is not None
    assert client.replace(after | with_args(), dry_run=True)["spec"] != before["spec"]
    unchanged = client.get("Deployment", "engine")
    assert unchanged is not None and unchanged["spec"] == before["spec"]


def test_an_object_that_has_changed_since_is_not_replaced(client: Cluster) -> None:
    first = client.apply(deployment())
    second = client.apply(deployment(paused=True))
    with pytest.raises(ClusterError, match="has been modified") as conflict:
        client.replace(first)
    assert conflict.value.reason == "Conflict"
    with pytest.raises(ClusterError) as stale:
        client.scale("engine", 1, resource_version=first["metadata"]["resourceVersion"])
    assert stale.value.reason == "Conflict"

    def scaled() -> bool:
        """The controller writes its status meanwhile, which moves the version."""
        latest = client.get("Deployment", "engine")
        assert latest is not None and latest["metadata"]["uid"] == second["metadata"]["uid"]
        assert latest["spec"]["replicas"] == 0
        try:
            made = client.scale("engine", 1, resource_version=latest["metadata"]["resourceVersion"])
        except ClusterError as error:
            assert error.reason == "Conflict"
            return False
        return bool(made["spec"]["replicas"] == 1)

    wait_for(scaled)


def test_only_the_very_object_is_deleted(client: Cluster) -> None:
    uid = client.create(deployment())["metadata"]["uid"]
    with pytest.raises(ClusterError) as another:
        client.delete("Deployment", "engine", uid="00000000-0000-0000-0000-000000000000")
    assert another.value.reason == "Conflict"
    assert client.get("Deployment", "engine") is not None
    client.delete("Deployment", "engine", uid=uid)
    wait_for(lambda: client.get("Deployment", "engine") is None)
    client.delete("Deployment", "engine", uid=uid)


def test_what_exists_is_not_created_again(client: Cluster) -> None:
    client.create(deployment())
    with pytest.raises(ClusterError, match="already exists") as error:
        client.create(deployment())
    assert error.value.reason == "AlreadyExists"


def test_the_servers_warnings_are_passed_on_once(client: Cluster, warned: list[tuple[str, str]]) -> None:
    twice = deployment()
    twice["spec"]["template"]["spec"]["containers"][0]["env"] = [
        {"name": "A", "value": "1"},
        {"name": "A", "value": "2"},
    ]
    client.create(twice, dry_run=True)
    client.create(twice, dry_run=True)
    assert [about for about, _ in warned] == [f"Deployment {client.namespace}/engine"]
    assert 'hides previous definition of "A"' in warned[0][1]


def test_a_server_with_another_certificate_is_not_believed(client: Cluster, kubeconfig: Path, tmp_path: Path) -> None:
    text = kubeconfig.read_text(encoding="utf-8")
    other = tmp_path / "other.kubeconfig"
    other.write_text(re.sub(r"certificate-authority-data: .*", "", text), encoding="utf-8")
    with pytest.raises(ClusterError, match=r"cannot be reached: its certificate is not accepted: .*; is .*other"):
        connect(other, client.namespace)
    other.write_text(text.replace(client.server, client.server.replace("https", "http")), encoding="utf-8")
    with pytest.raises(ClusterError, match=r"HTTP request to an HTTPS server"):
        connect(other, client.namespace)


def test_who_may_do_nothing_is_told_so_in_words(nobody: Cluster, client: Cluster) -> None:
    with pytest.raises(ClusterError, match=r"not allowed to list every Pod .*: pods is forbidden: User .*nobody"):
        nobody.list("Pod")
    with pytest.raises(ClusterError) as refused:
        nobody.apply(deployment())
    assert refused.value.reason == "Forbidden" and not refused.value.unsure
    running(client, "shell", ["sleep", "1000"])
    with pytest.raises(OSError, match=r"not allowed to start a program in container main .*nobody"):
        execute(nobody, "shell", "main", ["true"])


def test_an_apply_reaches_the_server_as_it_was_meant(client: Cluster) -> None:
    word = '한글 🙂 "\\ud83d\\ude42" \u2028 end'
    manifest: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "words"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": PROBE, "args": [word]}]},
            },
        },
    }
    for made in (client.apply(manifest, dry_run=True), client.create(manifest, dry_run=True)):
        assert made["spec"]["template"]["spec"]["containers"][0]["args"] == [word]
