"""What Kubernetes takes only one of, and an apply cannot exchange."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from k8s_surveyed import Surveyed, production, survey

from runner.target.kubernetes.either_or import Clash, clashes

Object = dict[str, Any]
SECRET = {"secretKeyRef": {"name": "hf", "key": "token"}}
CONTAINER = "spec.template.spec.containers[vllm]"


def with_env(*env: Object) -> Object:
    return production(env=list(env))


def with_pod(**spec: Any) -> Object:
    made = production()
    made["spec"]["template"]["spec"] |= spec
    return made


def with_container(**spec: Any) -> Object:
    made = production()
    made["spec"]["template"]["spec"]["containers"][0] |= spec
    return made


@pytest.mark.parametrize(
    ("live", "sent", "clash"),
    [
        (
            with_env({"name": "T", "value": "x"}),
            with_env({"name": "T", "valueFrom": SECRET}),
            Clash(f"{CONTAINER}.env[T]", "value", "valueFrom"),
        ),
        (
            with_env({"name": "T", "valueFrom": SECRET}),
            with_env({"name": "T", "value": "x"}),
            Clash(f"{CONTAINER}.env[T]", "valueFrom", "value"),
        ),
        (
            with_env({"name": "T", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}),
            with_env({"name": "T", "valueFrom": SECRET}),
            Clash(f"{CONTAINER}.env[T]", "fieldRef", "secretKeyRef"),
        ),
        (
            with_pod(volumes=[{"name": "shm", "emptyDir": {}}]),
            with_pod(volumes=[{"name": "shm", "hostPath": {"path": "/x"}}]),
            Clash("spec.template.spec.volumes[shm]", "emptyDir", "hostPath"),
        ),
        (
            with_container(livenessProbe={"exec": {"command": ["true"]}}),
            with_container(livenessProbe={"httpGet": {"port": 1}}),
            Clash(f"{CONTAINER}.livenessProbe", "exec", "httpGet"),
        ),
    ],
)
def test_one_in_the_place_of_another_is_a_clash(live: Object, sent: Object, clash: Clash) -> None:
    assert clashes(sent, live) == [clash]


@pytest.mark.parametrize(
    ("live", "sent"),
    [
        (with_env({"name": "T", "value": ""}), with_env({"name": "T", "valueFrom": SECRET})),
        (with_env({"name": "T", "valueFrom": SECRET}), with_env({"name": "T", "valueFrom": SECRET})),
        (with_env({"name": "U", "value": "x"}), with_env({"name": "T", "valueFrom": SECRET})),
        (with_env({"name": "T", "value": "x"}), production()),
        (
            with_pod(volumes=[{"name": "shm", "emptyDir": {}}]),
            with_pod(volumes=[{"name": "shm", "emptyDir": {"medium": "Memory"}}]),
        ),
    ],
)
def test_what_stays_one_is_none(live: Object, sent: Object) -> None:
    assert clashes(sent, live) == []


def test_the_survey_says_it_before_the_server_does(tmp_path: Path) -> None:
    there = Surveyed(Deployment=[with_env({"name": "HF_TOKEN", "value": "hf_x"})])
    found = survey(tmp_path, there, spec="{secrets: {HF_TOKEN: {name: hf, key: token}}}")
    (problem,) = found.problems
    assert problem.startswith(f"{CONTAINER}.env[HF_TOKEN] has value in the Deployment that is there, and valueFrom in")
    assert "hf_x" not in problem


def test_a_token_of_the_deployments_own_is_to_be_moved_there(tmp_path: Path) -> None:
    there = Surveyed(Deployment=[with_env({"name": "HF_TOKEN", "value": "hf_x"})])
    (problem,) = survey(tmp_path, there).problems
    assert problem.startswith("token-in-plain-env: ") and "in the Deployment itself" in problem
    assert "kubernetes: {secrets:" not in problem
