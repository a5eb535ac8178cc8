"""What a run does to the user's Deployment, and that it is afterwards what it was."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import baselines
from cluster import Namespace, Recorder
from cluster_restore import (
    SECRET,
    alone,
    assert_as_it_was,
    assert_discreet,
    assert_untouched,
    baseline_of,
    owners,
    plain,
    template_hash,
)
from cluster_runs import SCALE, baseline_there, beside, patched, write_site, write_spec

ASK = """\
import sys, threading, time, httpx
body = {"model": "qwen", "messages": [{"role": "user", "content": "Are you busy?"}]}
ask = lambda: httpx.post(sys.argv[1] + "/v1/chat/completions", json=body, timeout=300)
threading.Thread(target=ask, daemon=True).start()
while not any(line.startswith("vllm:num_requests_waiting{") and float(line.split()[-1]) > 0
              for line in httpx.get(sys.argv[1] + "/metrics").text.splitlines()):
    time.sleep(0.1)
print("waits", flush=True)
time.sleep(300)
"""
"""A colleague's request, which the engine does not get to."""


def _no_more(namespace: Namespace, history: set[str]) -> set[str] | None:
    """The ReplicaSets' UIDs once they are no more than they were."""
    found = {one["metadata"]["uid"] for one in namespace.list("replicasets")}
    return found if found <= history else None


def test_a_patched_baseline_is_put_back_field_by_field_and_owner_by_owner(
    namespace: Namespace, engine_image: str, tmp_path: Path
) -> None:
    before = baseline_there(namespace, engine_image, env={"EXTRA": "kept", "HF_TOKEN": SECRET})
    hash_before = template_hash(namespace)
    history = {one["metadata"]["uid"] for one in namespace.list("replicasets")}
    write_site(tmp_path, engine_image, baseline=patched(), allow=["token-in-plain-env"])
    ran = namespace.run(tmp_path, str(write_spec(tmp_path)), "--yes")
    assert ran.code == 0, ran.stderr
    assert_as_it_was(namespace, before)
    assert template_hash(namespace) == hash_before
    left = namespace.wait("our ReplicaSets gone", lambda: _no_more(namespace, history), 30)
    assert left == history, "the user's rollout history is the user's"
    restored = baseline_of(ran).restored
    assert restored is not None and restored.restored
    assert all(one.equal for one in restored.compared), restored.compared
    assert {one.fact for one in restored.compared} >= {"template hash", "model", "idle", "one request"}
    assert_discreet(ran)
    # the user goes on as if nothing had been
    manifest = baselines.vllm(engine_image, env={**SCALE, "EXTRA": "kept", "HF_TOKEN": SECRET})
    generation = namespace.deployment("vllm")["metadata"]["generation"]
    baselines.by_apply(namespace, manifest)
    after = namespace.deployment("vllm")
    assert after["metadata"]["generation"] == generation
    assert plain(after) == plain(before) and owners(after) == owners(before)


def test_a_baseline_that_gives_up_its_gpu_gets_it_back(namespace: Namespace, engine_image: str, tmp_path: Path) -> None:
    before = baseline_there(namespace, engine_image)
    write_site(tmp_path, engine_image, baseline=beside())
    with Recorder(namespace) as pods:
        ran = namespace.run(tmp_path, str(write_spec(tmp_path, alone)), "--yes")
        assert ran.code == 0, ran.stderr
        ours = pods.wait(lambda one: one.object["metadata"]["labels"].get("app") != "vllm", 1)
        there = pods.at(ours.at)
    assert [one for one in there.values() if one["metadata"]["labels"].get("app") == "vllm"] == []
    assert_as_it_was(namespace, before)


def test_what_did_not_exist_is_removed(namespace: Namespace, engine_image: str, tmp_path: Path) -> None:
    write_site(tmp_path, engine_image, transport="cluster-ip")
    ran = namespace.run(tmp_path, str(write_spec(tmp_path, alone)))
    assert ran.code == 0, ran.stderr
    for kind in ("deployments", "replicasets", "pods", "services"):
        assert namespace.list(kind) == []


OWN_TEMPLATE = """\
{% extends "packaged/deployment.yaml.j2" %}
{% block pod %}
      hostname: of-my-own
{%- endblock %}
"""


def test_a_template_of_the_users_own_in_a_baseline_that_is_like_off_already(
    namespace: Namespace, engine_image: str, tmp_path: Path
) -> None:
    """The baseline is what the condition will be, so that nothing but the launch makes a rollout: a fresh process all
    the same."""
    (tmp_path / "mine.yaml.j2").write_text(OWN_TEMPLATE, encoding="utf-8")
    site = write_site(tmp_path, engine_image, templates={"deployment": "mine.yaml.j2"}, name="vllm", replicas=1)
    spec = write_spec(tmp_path, alone)
    first = namespace.run(tmp_path, "plan", str(spec))
    assert first.code == 0, first.stderr
    print(first.stdout)
    with Recorder(namespace) as pods:
        made = namespace.start(tmp_path, str(spec))
        pods.wait(lambda one: one.change == "ADDED")
        shown = namespace.deployment("vllm")
        ended = namespace.finish(tmp_path, made)
    assert ended.code == 0, ended.stderr
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "vllm"}, "spec": shown["spec"]}
    annotations = body["spec"]["template"]["metadata"].pop("annotations")
    assert any(name.endswith("launch") for name in annotations)
    baselines.by_apply(namespace, body)
    namespace.rolled_out("vllm")
    before = namespace.deployment("vllm")
    [pod] = namespace.list("pods", **before["spec"]["selector"]["matchLabels"])
    write_site(
        tmp_path, engine_image, templates={"deployment": "mine.yaml.j2"}, name="vllm", replicas=1, baseline=patched()
    )
    plan = namespace.run(tmp_path, "plan", str(spec))
    assert plan.code == 0, plan.stderr
    print(plan.stdout)
    assert "how what is there differs" not in plan.stdout
    ran = namespace.run(tmp_path, str(spec), "--yes")
    assert ran.code == 0, ran.stderr
    assert site.exists()
    facts = ran.record.engines[-1].launched
    assert facts is not None
    assert facts.facts["Pod UID"] != pod["metadata"]["uid"]
    assert_as_it_was(namespace, before)


def test_a_baseline_of_no_replicas_stays_one(namespace: Namespace, engine_image: str, tmp_path: Path) -> None:
    baselines.by_apply(namespace, baselines.vllm(engine_image, replicas=0))
    namespace.rolled_out("vllm")
    before = namespace.deployment("vllm")
    write_site(tmp_path, engine_image, baseline=patched())
    ran = namespace.run(tmp_path, str(write_spec(tmp_path, alone)), "--yes")
    assert ran.code == 0, ran.stdout + ran.stderr
    assert_as_it_was(namespace, before)
    assert namespace.list("pods") == []


def test_a_baseline_that_is_not_in_order_is_left_alone(namespace: Namespace, engine_image: str, tmp_path: Path) -> None:
    """Not Ready; then Ready, and busy with others' requests."""
    manifest = baselines.vllm(engine_image, env=SCALE)
    container = manifest["spec"]["template"]["spec"]["containers"][0]
    container["readinessProbe"] = {"httpGet": {"path": "/not-there", "port": "http"}, "periodSeconds": 1}
    baselines.by_apply(namespace, manifest)
    write_site(tmp_path, engine_image, baseline=patched())
    spec = write_spec(tmp_path, alone, lambda one: one["limits"].update({"idle-seconds": 2}))
    namespace.wait("its Pod runs", lambda: any(one["status"]["phase"] == "Running" for one in namespace.list("pods")))
    before = namespace.deployment("vllm")
    ran = namespace.run(tmp_path, str(spec), "--yes")
    assert ran.code == 8, ran.stderr
    assert "has no Pod of its newest revision that is Ready; nothing was changed" in ran.stdout
    after = namespace.deployment("vllm")
    assert plain(after) == plain(before) and owners(after) == owners(before)

    faults = '[{"kind": "stall-while-waiting", "after_requests": 1}]'
    baselines.by_apply(
        namespace,
        baselines.vllm(engine_image, env={**SCALE, "SIMULATOR_FAULTS": faults}, strategy={"type": "Recreate"}),
    )
    namespace.rolled_out("vllm")
    [pod] = [one for one in namespace.list("pods") if "deletionTimestamp" not in one["metadata"]]
    asked = subprocess.Popen(
        [*namespace.cluster.network, sys.executable, "-c", ASK, f"http://{pod['status']['podIP']}:8000"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    before = namespace.deployment("vllm")
    try:
        assert asked.stdout is not None and asked.stdout.readline() == "waits\n"
        ran = namespace.run(tmp_path, str(spec), "--yes")
    finally:
        asked.kill()
        asked.communicate()
    assert ran.code == 8, ran.stdout + ran.stderr
    assert "it serves others" in ran.stdout
    assert namespace.deployment("vllm") == before
    assert [one["metadata"]["uid"] for one in namespace.list("pods")] == [pod["metadata"]["uid"]]


def test_without_consent_nothing_is_changed(namespace: Namespace, engine_image: str, tmp_path: Path) -> None:
    baselines.by_apply(namespace, baselines.vllm(engine_image, replicas=0))
    namespace.rolled_out("vllm")
    before = namespace.deployment("vllm")
    write_site(tmp_path, engine_image, baseline=patched())
    ran = namespace.run(tmp_path, str(write_spec(tmp_path)))
    assert ran.code == 8
    assert "what existed before this run would be changed; say --yes to agree. Nothing was changed" in ran.stderr
    assert_untouched(namespace, before, ran)
