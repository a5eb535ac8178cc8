"""Whose fields are whose: the API server's own refusals and managedFields, and the signs of tools."""

from __future__ import annotations

from typing import Any

import pytest
from k8s_objects import read

from runner.target.kubernetes.ownership import (
    Conflict,
    autoscalers,
    conflicts,
    external_owners,
    fields,
    is_hand,
    owned_by,
)

Object = dict[str, Any]
ARGS = "spec.template.spec.containers[vllm].args"


def causes(name: str) -> list[Object]:
    found: list[Object] = read("ownership")[name]["details"]["causes"]
    return found


def test_the_conflicts_with_a_client_side_apply() -> None:
    assert conflicts(causes("client-side-apply")) == [
        Conflict("kubectl-client-side-apply", "spec.strategy.type"),
        Conflict("kubectl-client-side-apply", "spec.template.spec.terminationGracePeriodSeconds"),
        Conflict("kubectl-client-side-apply", ARGS),
        Conflict("kubectl-client-side-apply", "spec.template.spec.containers[vllm].env[BOTH].value"),
    ]


def test_the_conflicts_with_hands_and_a_program_that_applies() -> None:
    found = conflicts(causes("many"))
    assert [(one.manager, one.applied) for one in found] == [
        ("kubectl-client-side-apply", False),
        ("kubectl-patch", False),
        ("kubectl-set", False),
        ("argocd-controller", True),
    ]
    assert [one.manager for one in found if not is_hand(one.manager)] == ["argocd-controller"]


def test_the_conflict_with_a_subresource() -> None:
    assert conflicts(causes("scaled")) == [Conflict("kubectl", "spec.replicas", subresource="scale")]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ('conflict with "m" using apps/v1 at 2026-11-30T15:00:00Z', Conflict("m", "spec.replicas")),
        ('conflict with "m"', Conflict("m", "spec.replicas", applied=True)),
        ('conflict with "m" with subresource "status" using v1', Conflict("m", "spec.replicas", subresource="status")),
        ('conflict with "a \\"quoted\\" one" using apps/v1', Conflict('a "quoted" one', "spec.replicas")),
        ("some other words", Conflict("some other words", "spec.replicas")),
        ("", Conflict("(unknown)", "spec.replicas")),
        # Somebody who calls himself so as to read like a hand.
        (
            'conflict with "kubectl-edit\\" using apps/v1"',
            Conflict('kubectl-edit" using apps/v1', "spec.replicas", True),
        ),
    ],
)
def test_each_form_of_the_message(message: str, expected: Conflict) -> None:
    cause = {"reason": "FieldManagerConflict", "message": message, "field": ".spec.replicas"}
    assert conflicts([cause]) == [expected]
    assert not is_hand(expected.manager)


def test_a_refusal_for_another_reason_is_no_conflict() -> None:
    assert conflicts(causes("recreate-over-rolling-update")) == []


@pytest.mark.parametrize(
    ("server", "path"),
    [
        ('.spec.template.spec.containers[name="vllm"].ports[containerPort=8000,protocol="TCP"].name',
         "spec.template.spec.containers[vllm].ports[8000/TCP].name"),
        (".metadata.annotations.team", "metadata.annotations.team"),
        ('.metadata.finalizers["a/b"]', "metadata.finalizers[a/b]"),
        ('.spec.template.spec.containers[name="a=b]c"].args', "spec.template.spec.containers[a=b]c].args"),
        (".metadata.annotations.example.com/x", "metadata.annotations[example.com/x]"),
        ("not a path", "not a path"),
        ("", ""),
    ],
)  # fmt: skip
def test_the_servers_paths_in_one_spelling(server: str, path: str) -> None:
    found = conflicts([{"reason": "FieldManagerConflict", "message": 'conflict with "m"', "field": server}])
    assert found[0].field == path


@pytest.mark.parametrize(
    "manager",
    ["kubectl-client-side-apply", "kubectl-edit", "kubectl-patch", "kubectl-set", "kubectl", "before-first-apply"],
)
def test_hands(manager: str) -> None:
    assert is_hand(manager)


@pytest.mark.parametrize(
    "manager",
    ["argocd-controller", "helm", "kustomize-controller", "kubectl-", "kubectl2", "my-kubectl", "Kubectl", "",
     "llm-experiment-runner", "kube-controller-manager"],
)  # fmt: skip
def test_no_hands(manager: str) -> None:
    assert not is_hand(manager)


def test_owned_by_says_whether_a_manager_has_anything_left() -> None:
    shown = read("ownership")
    assert not owned_by(shown["before"], "llm-experiment-runner")
    assert owned_by(shown["taken"], "llm-experiment-runner")
    # Put back without managedFields: the object is as before, and we still own some of it.
    assert owned_by(shown["restored"], "llm-experiment-runner")
    assert not owned_by({"metadata": {}}, "llm-experiment-runner")


def test_the_fields_of_a_manager_are_readable() -> None:
    shown = read("ownership")["managed"]
    by_manager = {entry["manager"]: fields(entry) for entry in shown["metadata"]["managedFields"]}
    assert by_manager["kubectl-patch"] == [ARGS]
    assert "spec.template.spec.containers[vllm].env[BOTH].value" in by_manager["kubectl-set"]
    assert by_manager["kubectl-edit"] == ["spec.template.spec.containers[vllm].livenessProbe.periodSeconds"]
    assert "metadata.annotations[argocd.argoproj.io/tracking-id]" in by_manager["argocd-controller"]
    first = by_manager["kubectl-client-side-apply"]
    assert "spec.template.spec.containers[vllm].ports[8080/TCP].containerPort" in first
    assert "metadata.annotations[kubectl.kubernetes.io/last-applied-configuration]" in first
    assert not any(":" in path or path.endswith(".") for path in first)


def test_an_entry_without_fields_owns_none() -> None:
    assert fields({"manager": "m"}) == []
    assert fields({"fieldsV1": {"f:metadata": {"f:finalizers": {'v:"a"': {}, "i:0": {}}}}}) == [
        "metadata.finalizers[a]",
        "metadata.finalizers[0]",
    ]


# Tools ---------------------------------------------------------------------------------------------------


def thing(**metadata: Any) -> Object:
    return {"metadata": {"name": "vllm", "namespace": "ns", **metadata}}


@pytest.mark.parametrize(
    ("metadata", "name", "fights"),
    [
        ({"labels": {"argocd.argoproj.io/instance": "x"}}, "Argo CD", True),
        ({"annotations": {"argocd.argoproj.io/tracking-id": "x"}}, "Argo CD", True),
        ({"managedFields": [{"manager": "argocd-controller"}]}, "Argo CD", True),
        ({"labels": {"kustomize.toolkit.fluxcd.io/name": "x"}}, "Flux", True),
        ({"labels": {"helm.toolkit.fluxcd.io/name": "x"}}, "Flux", True),
        ({"managedFields": [{"manager": "kustomize-controller"}]}, "Flux", True),
        ({"annotations": {"objectset.rio.cattle.io/owner-name": "x"}}, "Rancher Fleet or a k3s AddOn", True),
        ({"labels": {"app.kubernetes.io/managed-by": "Helm"}}, "Helm", False),
        ({"annotations": {"meta.helm.sh/release-name": "x"}}, "Helm", False),
        ({"managedFields": [{"manager": "helm"}]}, "Helm", False),
        (
            {"ownerReferences": [{"kind": "LLMService", "name": "x", "uid": "u", "controller": True}]},
            "LLMService x",
            True,
        ),
    ],
)
def test_the_sign_of_each_tool(metadata: Object, name: str, fights: bool) -> None:
    (found,) = external_owners(thing(**metadata))
    assert (found.name, found.fights) == (name, fights)
    assert found.words().startswith(name)
    assert ("puts back what others change" in found.words()) == fights


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {"app.kubernetes.io/instance": "x", "app.kubernetes.io/managed-by": "me"}},
        {"ownerReferences": [{"kind": "ConfigMap", "name": "x", "uid": "u"}]},
        {"managedFields": [{"manager": "kubectl-edit"}]},
        {"annotations": {"example.com/argocd.argoproj.io/x": "y"}},
        {},
    ],
)
def test_what_is_no_sign(metadata: Object) -> None:
    assert external_owners(thing(**metadata)) == []


def test_a_release_that_flux_makes_by_helm_is_both() -> None:
    labels = {"app.kubernetes.io/managed-by": "Helm", "helm.toolkit.fluxcd.io/name": "x"}
    assert [(one.name, one.fights) for one in external_owners(thing(labels=labels))] == [
        ("Flux", True),
        ("Helm", False),
    ]


def test_the_tool_on_a_real_object() -> None:
    shown = read("ownership")
    (found,) = external_owners(shown["managed"])
    assert found.words() == (
        "Argo CD puts back what others change (annotation argocd.argoproj.io/tracking-id: "
        "serving:apps/Deployment:judges/vllm)"
    )
    assert external_owners(shown["before"]) == []


# Autoscalers ---------------------------------------------------------------------------------------------


def scaler(target: Object, **metadata: Any) -> Object:
    return {"metadata": {"name": "h", **metadata}, "spec": {"scaleTargetRef": target, "maxReplicas": 3}}


def test_an_autoscaler_of_the_deployment_is_told_and_others_are_not() -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "vllm"}
    assert autoscalers([scaler(target)], "vllm") == ["HorizontalPodAutoscaler h (1 to 3 replicas)"]
    for other in ({"kind": "StatefulSet"}, {"name": "other"}, {"apiVersion": "example.com/v1"}):
        assert autoscalers([scaler({**target, **other})], "vllm") == []
    assert autoscalers([{"metadata": {"name": "h"}}], "vllm") == []


def test_an_autoscaler_made_by_keda_names_the_scaled_object() -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "vllm"}
    owner = [{"kind": "ScaledObject", "name": "s", "uid": "u", "controller": True}]
    label = {"scaledobject.keda.sh/name": "s"}
    for one in (scaler(target, ownerReferences=owner), scaler(target, labels=label)):
        one["spec"]["minReplicas"] = 0
        assert autoscalers([one], "vllm") == [
            "HorizontalPodAutoscaler h (0 to 3 replicas, made by KEDA's ScaledObject s)"
        ]
