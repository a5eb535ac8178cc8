"""What was agreed to is the object that was surveyed, and no other."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from k8s_surveyed import PATCH, Surveyed, production
from spec_files import GOOD, write

from runner.access import Access
from runner.plan.build import build_plan
from runner.spec.load import load_site, load_spec
from runner.spec.site import Site
from runner.target.base import Declined, Stay
from runner.target.choose import TARGETS
from runner.target.kubernetes import target as of_target
from runner.target.kubernetes.cluster import MANAGER, Cluster, ClusterError
from runner.target.kubernetes.consent import changed_since, hold_to_consent
from runner.target.kubernetes.target import KubernetesTarget

Object = dict[str, Any]
DB: Object = {"name": "DB", "value": "postgres password"}
SCALER: Object = {
    "metadata": {"name": "auto"},
    "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "vllm"}, "maxReplicas": 3},
}


def owned(manager: str, *names: str, **entry: Any) -> Object:
    return {"manager": manager, "fieldsV1": {"f:spec": {f"f:{name}": {} for name in names}}, **entry}


def seen() -> Object:
    made = production()
    made["metadata"]["managedFields"] = [owned("kubectl", "replicas", "paused")]
    return made


def test_what_a_controller_writes_is_no_change() -> None:
    now = seen()
    now["metadata"] |= {"resourceVersion": "9", "generation": 1}
    now["metadata"]["annotations"] = {"deployment.kubernetes.io/revision": "4"}
    now["metadata"]["managedFields"].append(owned("kube-controller-manager", "x", subresource="status"))
    now["status"] = {"replicas": 1}
    assert changed_since(seen(), now) == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda one: one["metadata"].update(uid="2"), "another UID"),
        (lambda one: one["metadata"]["managedFields"].append(owned(MANAGER, "replicas")), "held by another run"),
        (lambda one: one["spec"]["template"]["spec"]["containers"][0].update(env=[DB]), r"\.env\[DB\] is another\."),
        (lambda one: one["spec"].update(replicas=2), "spec.replicas: 1 → 2"),
        (lambda one: one["metadata"]["managedFields"].append(owned("helm", "replicas")), "helm took spec.replicas"),
        (lambda one: one["metadata"].update(managedFields=[owned("kubectl", "replicas")]), "gave up spec.paused"),
    ],
)
def test_another_object_or_the_same_in_other_hands_is_declined(change: Callable[[Object], None], told: str) -> None:
    now = seen()
    change(now)
    with pytest.raises(Declined, match=told):
        hold_to_consent(cast(Cluster, Surveyed()), seen(), now)


def test_an_autoscaler_that_came_since_is_declined() -> None:
    hold_to_consent(cast(Cluster, Surveyed()), seen(), seen())
    with pytest.raises(Declined, match=r"HorizontalPodAutoscaler auto .* scales it now"):
        hold_to_consent(cast(Cluster, Surveyed(HorizontalPodAutoscaler=[SCALER])), seen(), seen())


@pytest.mark.parametrize("status", [403, 500])
def test_autoscalers_that_may_not_be_seen_were_told_and_those_that_cannot_are_not_passed_over(status: int) -> None:
    class Closed(Surveyed):
        def list(self, kind: str, **_: Any) -> list[Object]:
            raise ClusterError("no", status=status)

    if status == 403:
        hold_to_consent(cast(Cluster, Closed()), seen(), seen())
    else:
        with pytest.raises(ClusterError):
            hold_to_consent(cast(Cluster, Closed()), seen(), seen())


def test_the_target_keeps_what_it_surveyed_and_saves_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = Surveyed(Deployment=[seen()])
    monkeypatch.setattr(of_target.Cluster, "connect", lambda **_: there)
    spec = load_spec(write(tmp_path, f"{GOOD}kubernetes: {{image: 'vllm/vllm-openai:v0.26.0'}}\n"))
    (tmp_path / "site.yaml").write_text(f"kubernetes: {PATCH}\n", encoding="utf-8")
    target, plan = KubernetesTarget(spec, load_site(tmp_path / "site.yaml")), build_plan(spec, "kubernetes")
    assert target.survey(plan).problems == []
    changed = copy.deepcopy(seen())
    changed["spec"]["template"]["spec"]["containers"][0]["args"].append("--max-model-len=16")
    there.things["Deployment"] = [changed]
    events: list[object] = []

    async def stay() -> None:
        async with target.stay(Stay(plan, "run", tmp_path, events.append)):
            raise AssertionError("it was not agreed to")

    with pytest.raises(Declined, match=r"not as it was surveyed: .*--max-model-len=16"):
        asyncio.run(stay())
    assert events == []


def test_what_lets_the_runner_in_reaches_the_engine_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[object] = []

    def occupied(*words: object) -> Any:
        given.extend(words)
        raise Declined("seen")

    monkeypatch.setattr(of_target.Cluster, "connect", lambda **_: Surveyed(Deployment=[seen()]))
    monkeypatch.setattr(of_target, "Occupation", occupied)
    spec = load_spec(write(tmp_path, f"{GOOD}kubernetes: {{image: 'vllm/vllm-openai:v0.26.0'}}\n"))
    access = Access.made({}, "k3y")
    target, plan = TARGETS["kubernetes"](Site(), spec, access), build_plan(spec, "kubernetes")

    async def stay() -> None:
        async with target.stay(Stay(plan, "run", tmp_path, lambda _: None)):
            raise AssertionError("it was declined")

    with pytest.raises(Declined, match="seen"):
        asyncio.run(stay())
    assert given[-1] == access
