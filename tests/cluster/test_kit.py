"""What the other tests of this lane stand on: the cluster, the embedded engine's image, and the helpers themselves."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import baselines
import cluster_kit
import engine_image as images
import pytest
from cluster import Cluster, Namespace, Recorder
from cluster_kit import KIT, ROOT

MKIMAGE = KIT / "mkimage"


def one_pod(namespace: Namespace, name: str) -> dict[str, Any]:
    [pod] = namespace.pods(app=name)
    return pod


def fetch(namespace: Namespace, url: str) -> str:
    """By a client in the cluster's network, as the runner is."""
    program = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=10).read().decode())"
    return cluster_kit.checked([*namespace.cluster.network, sys.executable, "-c", program, url])


def read(archive: Path, digest: str) -> bytes:
    with tarfile.open(archive) as tar:
        member = tar.extractfile("blobs/" + digest.replace(":", "/"))
        assert member is not None
        return member.read()


def described(archive: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Manifest and configuration of the one image in an archive; every blob is what its digest says."""
    with tarfile.open(archive) as tar:
        index = tar.extractfile("index.json")
        assert index is not None
        [entry] = json.load(index)["manifests"]
        for member in tar.getmembers():
            if member.name.startswith("blobs/"):
                content = tar.extractfile(member)
                assert content is not None
                assert hashlib.sha256(content.read()).hexdigest() == Path(member.name).name
    manifest = json.loads(read(archive, entry["digest"]))
    return manifest, json.loads(read(archive, manifest["config"]["digest"]))


# --- mkimage: no cluster needed ---


def test_an_image_has_the_folders_files_as_roots_and_is_the_same_again(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "tool").write_text("#!/bin/sh\n")
    (root / "bin" / "tool").chmod(0o755)
    (root / "bin" / "alias").symlink_to("tool")
    archives = [tmp_path / "one.tar", tmp_path / "two.tar"]
    for archive in archives:
        os.utime(root / "bin" / "tool", (time.time(), time.time()))
        cluster_kit.checked([MKIMAGE, "example.org/tool:1", archive, root, "--entrypoint", "/bin/tool", "--quick"])
    assert archives[0].read_bytes() == archives[1].read_bytes()
    manifest, configuration = described(archives[0])
    assert configuration["config"]["Entrypoint"] == ["/bin/tool", "--quick"]
    [layer] = manifest["layers"]
    packed = tmp_path / "layer.tar.gz"
    packed.write_bytes(read(archives[0], layer["digest"]))
    with tarfile.open(packed) as tar:
        members = {one.name: one for one in tar.getmembers()}
    assert set(members) == {"bin", "bin/tool", "bin/alias"}
    assert members["bin/tool"].mode & 0o777 == 0o755 and members["bin/alias"].linkname == "tool"
    assert {(one.uid, one.gid, one.mtime) for one in members.values()} == {(0, 0, 0)}


def test_an_image_on_a_base_has_its_layers_below_and_keeps_what_is_not_said_anew(tmp_path: Path) -> None:
    for name, words in (("base", ("--entrypoint", "/base")), ("top", ("--base", tmp_path / "base.tar"))):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.txt").write_text(name)
        cluster_kit.checked([MKIMAGE, f"example.org/{name}:1", tmp_path / f"{name}.tar", tmp_path / name, *words])
    base, _ = described(tmp_path / "base.tar")
    top, configuration = described(tmp_path / "top.tar")
    assert top["layers"][:1] == base["layers"] and len(top["layers"]) == 2
    assert len(configuration["rootfs"]["diff_ids"]) == 2
    assert configuration["config"]["Entrypoint"] == ["/base"]


def test_the_engines_image_has_all_that_the_embedded_engine_imports() -> None:
    imported = set()
    for path in (ROOT / "runner" / "simulator").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom):
                imported.add(node.module or "")
            elif isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
    ours = {name.partition(".")[0] for name in imported - {""}} - set(sys.stdlib_module_names) - {"runner"}
    ours.add("httptools")  # by uvicorn, which the engine tells to
    assert ours == {name.partition(".")[0].replace("-", "_") for name in images.IMPORTED}


# --- sessions ---


def test_sessions_at_a_time_have_clusters_of_their_own_and_end_what_a_killed_one_left() -> None:
    if os.geteuid() != 0:
        pytest.skip("ending a cluster needs root")
    with cluster_kit.slot() as first, cluster_kit.slot() as second:
        assert first != second
    left = cluster_kit.Kit(first).state
    (left / "pki").mkdir(parents=True)
    with cluster_kit.slot() as again:
        assert again == first
        assert not left.exists()


# --- the cluster ---


def test_the_cluster_is_ready_and_has_one_gpu(cluster: Cluster) -> None:
    [node] = cluster.get("nodes")["items"]
    conditions = {one["type"]: one["status"] for one in node["status"]["conditions"]}
    assert conditions["Ready"] == "True"
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "1"
    assert cluster.get("runtimeclass", "nvidia")["handler"] == "nvidia"


def test_a_pod_runs_and_the_recorder_saw_it_come_and_go(namespace: Namespace, engine_image: str) -> None:
    begin = time.time()
    with Recorder(namespace) as recorder:
        script = "echo it works; exit 3"
        overrides = {"spec": {"restartPolicy": "Never"}}
        words = ["--image", engine_image, "--restart=Never", "--overrides", json.dumps(overrides)]
        namespace.kubectl("run", "once", *words, "--command", "--", "sh", "-c", script)
        ended = recorder.wait(lambda one: one.object["status"].get("phase") == "Failed")
        assert namespace.kubectl("logs", "once") == "it works\n"
        namespace.kubectl("delete", "pod", "once")
        gone = recorder.wait(lambda one: one.change == "DELETED")
    [status] = ended.object["status"]["containerStatuses"]
    assert status["state"]["terminated"]["exitCode"] == 3
    assert recorder.seen[0].change == "ADDED"
    assert begin < recorder.seen[0].at <= ended.at < gone.at
    assert set(recorder.at(ended.at)) == {ended.uid} and recorder.at(gone.at) == {}


# --- the embedded engine's image ---


def test_the_engines_image_is_an_engine_that_says_it_is_simulated(namespace: Namespace, engine_image: str) -> None:
    baselines.by_apply(namespace, baselines.vllm(engine_image))
    namespace.rolled_out("vllm")
    pod = one_pod(namespace, "vllm")
    address = f"http://{pod['status']['podIP']}:8000"
    version = json.loads(fetch(namespace, f"{address}/version"))
    assert version["version"] and version["simulated"] is True
    assert 'vllm:num_requests_running{engine="0",model_name="qwen"} 0.0' in fetch(namespace, f"{address}/metrics")
    assert json.loads(fetch(namespace, f"{address}/v1/models"))["data"][0]["id"] == "qwen"
    log = namespace.kubectl("logs", pod["metadata"]["name"])
    assert "Application startup complete" in log
    assert "max_num_seqs" in log

    query = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    name, total = namespace.execute(pod["metadata"]["name"], *query).strip().split(", ")
    assert name and int(total) > 0
    counted = namespace.execute(pod["metadata"]["name"], "cat", "/tmp/nvidia-smi.samples")
    assert counted == "."


def test_the_engines_variables_reach_nvidia_smi_in_its_container(namespace: Namespace, engine_image: str) -> None:
    fault = [{"kind": "nvidia-smi", "how": "not-available", "at_sample": 2}]
    baselines.by_create(namespace, baselines.vllm(engine_image, env={"SIMULATOR_FAULTS": json.dumps(fault)}))
    namespace.rolled_out("vllm")
    name = one_pod(namespace, "vllm")["metadata"]["name"]
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    first, second, third = [namespace.execute(name, *query).strip() for _ in range(3)]
    assert first.isdecimal() and second == "[N/A]" and third.isdecimal()


# --- the helpers ---


def test_baselines_are_owned_by_those_who_made_them(namespace: Namespace, engine_image: str) -> None:
    manifest = baselines.vllm(engine_image, env={"EXTRA": "1"}, replicas=0)
    annotation = "kubectl.kubernetes.io/last-applied-configuration"
    baselines.by_apply(namespace, manifest)
    made = namespace.deployment("vllm")
    assert set(baselines.managers(made)) == {"kubectl-client-side-apply"}
    assert json.loads(made["metadata"]["annotations"][annotation])["spec"]["replicas"] == 0
    assert made["spec"]["strategy"]["type"] == "RollingUpdate"

    baselines.by_set_env(namespace, "vllm", MORE="2")
    baselines.by_edit(namespace, "vllm", "revisionHistoryLimit: 10", "revisionHistoryLimit: 9")
    baselines.by_patch(namespace, "vllm", {"spec": {"progressDeadlineSeconds": 601}})
    baselines.by_patch(namespace, "vllm", {"spec": {"minReadySeconds": 1}}, manager="argocd-controller")
    made = namespace.deployment("vllm")
    hands = {"kubectl-client-side-apply", "kubectl-set", "kubectl-edit", "kubectl-patch", "argocd-controller"}
    assert set(baselines.managers(made)) == hands
    assert made["spec"]["revisionHistoryLimit"] == 9 and made["spec"]["minReadySeconds"] == 1
    [container] = made["spec"]["template"]["spec"]["containers"]
    assert [one["name"] for one in container["env"]] == ["EXTRA", "MORE"]

    baselines.by_server_side_apply(namespace, baselines.vllm(engine_image, name="other", replicas=0), "helm")
    assert baselines.managers(namespace.deployment("other")) == {"helm": {"Apply"}}
    baselines.by_create(namespace, baselines.vllm(engine_image, name="third", replicas=0))
    third = namespace.deployment("third")
    assert set(baselines.managers(third)) == {"kubectl-create"}
    assert "annotations" not in third["metadata"] or annotation not in third["metadata"]["annotations"]


def test_the_runner_runs_in_the_clusters_network(namespace: Namespace, tmp_path: Path, engine_image: str) -> None:
    """By the endpoint target, which is all that this needs: it reaches a Pod's address."""
    baselines.by_apply(namespace, baselines.vllm(engine_image, env={"SIMULATOR_TIME_SCALE": "0.02"}))
    namespace.rolled_out("vllm")
    spec = {
        "name": "reach",
        "model": baselines.MODEL,
        "args": {"served-model-name": "qwen"},
        "conditions": {"base": {}},
        "prompts": {"p": {"messages": [{"role": "user", "content": "Say a word."}]}},
        "request": {"model": "qwen", "max_tokens": 8, "temperature": 0},
        "phases": {"load": {"concurrency": [2], "requests": 4}},
        "invariants": {name: {"allow-inconclusive": True} for name in INCONCLUSIVE},
    }
    (tmp_path / "spec.yaml").write_text(json.dumps(spec))
    address = one_pod(namespace, "vllm")["status"]["podIP"]
    (tmp_path / "site.yaml").write_text(json.dumps({"endpoint": {"urls": {"base": f"http://{address}:8000"}}}))
    ended = namespace.run(tmp_path, "spec.yaml", "--target", "endpoint")
    assert ended.code == 0, ended.stdout + ended.stderr
    assert ended.result["simulated"] is True
    context = json.loads(
        namespace.cluster.kubectl("config", "view", "--minify", f"--kubeconfig={namespace.kubeconfig}", "-o", "json")
    )
    assert context["contexts"][0]["context"]["namespace"] == namespace.name


INCONCLUSIVE = ("configuration-in-force", "declared-differences", "request-options")
