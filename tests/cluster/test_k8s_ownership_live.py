"""Whose the fields of the user's Deployment are: taken over from their own hands, left to everything else."""

from __future__ import annotations

import json
from pathlib import Path

import baselines
import pytest
from cluster import Namespace, Object
from cluster_restore import SECRET, alone, assert_as_it_was, assert_discreet, assert_untouched
from cluster_runs import baseline_there, beside, patched, write_site, write_spec


def waiting(namespace: Namespace, image: str) -> Object:
    """A user's Deployment that has no Pod: enough for what is refused before anything begins."""
    baselines.by_apply(namespace, baselines.vllm(image, replicas=0))
    namespace.rolled_out("vllm")
    return namespace.deployment("vllm")


def test_what_the_users_hands_set_is_listed_taken_over_and_put_back(
    namespace: Namespace, engine_image: str, tmp_path: Path
) -> None:
    baseline_there(namespace, engine_image, strategy={"type": "Recreate"})
    baselines.by_set_env(namespace, "vllm", HF_TOKEN=SECRET, SIMULATOR_TIME_SCALE="0.05")
    baselines.by_edit(namespace, "vllm", "terminationGracePeriodSeconds: 5", "terminationGracePeriodSeconds: 7")
    args = [baselines.MODEL, *baselines.ARGS[:-1], "--max-num-batched-tokens", "4096"]
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "vllm", "args": args}]}}}}
    baselines.by_patch(namespace, "vllm", patch)
    namespace.rolled_out("vllm")
    before = namespace.deployment("vllm")
    write_site(tmp_path, engine_image, baseline=patched(), allow=["token-in-plain-env"])
    ran = namespace.run(tmp_path, str(write_spec(tmp_path, alone)), "--yes")
    assert ran.code == 0, ran.stdout + ran.stderr
    container = "spec.template.spec.containers[vllm]"
    for line in (
        f"taken over from kubectl-set: {container}.env[SIMULATOR_TIME_SCALE].value",
        "taken over from kubectl-edit: spec.template.spec.terminationGracePeriodSeconds",
        f"taken over from kubectl-patch: {container}.args",
    ):
        assert line in ran.stderr
    assert f"kept from the baseline, in every condition alike: {container}.env[HF_TOKEN]" in ran.stderr
    assert_as_it_was(namespace, before)
    assert_discreet(ran)


@pytest.mark.parametrize("manager", ["helm", "ci-bot"])
def test_a_field_of_a_tools_is_not_taken(namespace: Namespace, engine_image: str, tmp_path: Path, manager: str) -> None:
    waiting(namespace, engine_image)
    args = [baselines.MODEL, "--served-model-name", "qwen"]
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "vllm", "args": args}]}}}}
    baselines.by_patch(namespace, "vllm", patch, manager=manager)
    namespace.rolled_out("vllm")
    before = namespace.deployment("vllm")
    write_site(tmp_path, engine_image, baseline=patched())
    ran = namespace.run(tmp_path, str(write_spec(tmp_path, alone)), "--yes")
    assert ran.code == 8, ran.stderr
    assert f"the field spec.template.spec.containers[vllm].args is owned by {manager}" in ran.stderr
    assert_untouched(namespace, before, ran)
    # it gives up its GPU without a word about the field
    write_site(tmp_path, engine_image, baseline=beside())
    other = namespace.run(tmp_path, "plan", str(tmp_path / "spec.yaml"))
    assert other.code == 0, other.stderr
    assert namespace.deployment("vllm") == before


def test_a_tools_field_that_the_conditions_do_not_set_is_no_conflict(
    namespace: Namespace, engine_image: str, tmp_path: Path
) -> None:
    waiting(namespace, engine_image)
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "vllm", "env": [{"name": "CI", "value": "1"}]}]}}}}
    baselines.by_patch(namespace, "vllm", patch, manager="ci-bot")
    before = namespace.deployment("vllm")
    write_site(tmp_path, engine_image, baseline=patched())
    ran = namespace.run(tmp_path, "plan", str(write_spec(tmp_path, alone)))
    assert ran.code == 0, ran.stderr
    assert "ci-bot" not in ran.stdout + ran.stderr
    assert "kept from the baseline, in every condition alike: spec.template.spec.containers[vllm].env[CI]" in ran.stdout
    assert namespace.deployment("vllm") == before


def test_a_tool_that_watches_the_deployment_is_not_fought(
    namespace: Namespace, engine_image: str, tmp_path: Path
) -> None:
    waiting(namespace, engine_image)
    scaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "more"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "vllm"},
            "maxReplicas": 3,
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
                }
            ],
        },
    }
    namespace.kubectl("create", "--filename", "-", stdin=json.dumps(scaler))
    namespace.kubectl("label", "deployment", "vllm", "argocd.argoproj.io/instance=prod")
    before = namespace.deployment("vllm")
    for baseline in (patched(), beside()):
        write_site(tmp_path, engine_image, baseline=baseline)
        ran = namespace.run(tmp_path, str(write_spec(tmp_path, alone)), "--yes")
        assert ran.code == 8, ran.stderr
        assert "Argo CD puts back what others change (label argocd.argoproj.io/instance: prod)" in ran.stderr
        assert "scaled by the HorizontalPodAutoscaler more (1 to 3 replicas)" in ran.stderr
        assert_untouched(namespace, before, ran)
