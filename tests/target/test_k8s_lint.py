"""The lint before anything is applied: what each rule finds, what it lets pass, and how it is switched off."""

import copy
from pathlib import Path
from typing import Any

import pytest
from kubernetes_plans import planned

from runner.spec.kubernetes import LINT_RULES, LintRule
from runner.target.kubernetes.lint import Finding, lint
from runner.target.kubernetes.render import render

POD = ("spec", "template", "spec")
ENGINE = (*POD, "containers", 0)


@pytest.fixture
def deployment(tmp_path: Path) -> dict[str, Any]:
    plan, settings = planned(tmp_path, "{runtime-class-name: nvidia, resources: {limits: {nvidia.com/gpu: 1}}}")
    return render(settings, plan, plan.arms[0], selector=None, launch="1", run="r").deployment


def changed(deployment: dict[str, Any], *changes: tuple[tuple[Any, ...], Any]) -> dict[str, Any]:
    """A copy with a value put at each path; ... takes the key away."""
    copied = copy.deepcopy(deployment)
    for (*path, last), value in changes:
        place: Any = copied
        for key in path:
            place = place[key]
        if value is ...:
            place.pop(last, None)
        else:
            place[last] = value
    return copied


def judged(
    deployment: dict[str, Any],
    *,
    live: dict[str, Any] | None = None,
    allow: tuple[LintRule, ...] = (),
    classes: set[str] | None = frozenset({"nvidia"}),  # type: ignore[assignment]
    container: str | None = None,
) -> list[Finding]:
    return lint(deployment, startup_seconds=900.0, runtime_classes=classes, live=live, allow=allow, container=container)


def test_the_programs_own_template_passes(deployment: dict[str, Any]) -> None:
    assert judged(deployment, live=deployment) == []


STRATEGY = ("spec", "strategy")
LIVENESS = (*ENGINE, "livenessProbe")
STARTUP = (*ENGINE, "startupProbe")
IMAGE = (*ENGINE, "image")
DEADLINE = ("spec", "progressDeadlineSeconds")
PROBE = {"httpGet": {"path": "/health", "port": 8000}}

BAD: list[tuple[LintRule, str, list[tuple[tuple[Any, ...], Any]], str]] = [
    ("rolling-update-on-one-gpu", "absent", [(STRATEGY, ...)], "no strategy is RollingUpdate"),
    ("rolling-update-on-one-gpu", "default surge", [(STRATEGY, {"type": "RollingUpdate"})], "(maxSurge 25%)"),
    (
        "rolling-update-on-one-gpu",
        "one",
        [(STRATEGY, {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}})],
        "(maxSurge 1)",
    ),
    ("progress-deadline-below-startup", "absent", [(DEADLINE, ...)], "is not set, which is 600"),
    ("progress-deadline-below-startup", "equal", [(DEADLINE, 900)], "write more than 900"),
    ("liveness-kills-slow-start", "no startup", [(LIVENESS, PROBE), (STARTUP, ...)], "kills it after 30 s"),
    (
        "liveness-kills-slow-start",
        "delay",
        [
            (LIVENESS, {**PROBE, "initialDelaySeconds": 600, "periodSeconds": 10, "failureThreshold": 29}),
            (STARTUP, ...),
        ],
        "kills it after 890 s",
    ),
    (
        "liveness-kills-slow-start",
        "short startup",
        [(LIVENESS, PROBE), (STARTUP, {**PROBE, "periodSeconds": 10, "failureThreshold": 89})],
        "startup probe gives up, and kills it, after 890 s",
    ),
    *[
        ("mutable-tag", image, [(IMAGE, image)], "another image tomorrow")
        for image in (
            "vllm/vllm-openai",
            "vllm/vllm-openai:latest",
            "a:nightly-2026",
            "localhost:5000/a",
            "a:main",
            "a:Dev",
        )
    ],
    (
        "token-in-plain-env",
        "value",
        [((*ENGINE, "env"), [{"name": "A", "value": "b"}, {"name": "HF_TOKEN", "value": "hf_x"}])],
        "secrets: {HF_TOKEN: {name: SECRET, key: KEY}}",
    ),
    ("missing-runtime-class", "other", [((*POD, "runtimeClassName"), "kata")], "no RuntimeClass kata (it has nvidia)"),
    ("service-links", "absent", [((*POD, "enableServiceLinks"), ...)], "it is not set, which is true"),
    ("service-links", "a word", [((*POD, "enableServiceLinks"), "no")], "write enableServiceLinks: false"),
    ("selector-differs", "labels", [(("spec", "selector"), {"matchLabels": {"app": "other"}})], "app=other"),
    ("container-differs", "name", [((*ENGINE, "name"), "engine")], "kubernetes: {container: good}"),
    ("replicas-not-one", "two", [(("spec", "replicas"), 2)], "write replicas: 1"),
    ("replicas-not-one", "none", [(("spec", "replicas"), 0)], "write replicas: 1"),
]


def test_every_rule_has_a_case() -> None:
    assert {rule for rule, *_ in BAD} == set(LINT_RULES)


@pytest.mark.parametrize(("rule", "case", "changes", "words"), BAD, ids=[f"{one[0]}: {one[1]}" for one in BAD])
def test_a_rule_finds_what_it_is_for_and_only_its_name_switches_it_off(
    deployment: dict[str, Any], rule: LintRule, case: str, changes: list[tuple[tuple[Any, ...], Any]], words: str
) -> None:
    bad = changed(deployment, *changes)
    found = judged(bad, live=deployment)
    assert [(one.rule, one.severity) for one in found] == [(rule, "error")], case
    assert words in found[0].words
    assert f"kubernetes: {{allow: [{rule}]}}" in found[0].words
    assert "hf_x" not in found[0].words
    assert judged(bad, live=deployment, allow=(rule,)) == []
    others = tuple(other for other in LINT_RULES if other != rule)
    assert judged(bad, live=deployment, allow=others) == found


GOOD = [
    [(STRATEGY, {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}})],
    [(STRATEGY, {"rollingUpdate": {"maxSurge": "0%"}})],
    [(DEADLINE, 901)],
    [(LIVENESS, PROBE)],
    [(LIVENESS, {**PROBE, "initialDelaySeconds": 870}), (STARTUP, ...)],
    [(LIVENESS, {**PROBE, "failureThreshold": 90}), (STARTUP, ...)],
    [(STARTUP, ...)],
    [(IMAGE, f"vllm/vllm-openai@sha256:{'0' * 64}")],
    [(IMAGE, f"vllm/vllm-openai:latest@sha256:{'0' * 64}")],
    [(IMAGE, "localhost:5000/vllm:v0.26.0")],
    [(IMAGE, "a:maintained-1")],
    [((*ENGINE, "env"), [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}])],
    [((*ENGINE, "env"), [{"name": "HF_TOKEN", "value": ""}])],
    [((*POD, "runtimeClassName"), ...)],
    [(("spec", "replicas"), ...)],
]


@pytest.mark.parametrize("changes", GOOD, ids=str)
def test_what_is_sound_passes(deployment: dict[str, Any], changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    assert judged(changed(deployment, *changes), live=deployment) == []


def test_a_cluster_that_does_not_say_its_runtime_classes_is_a_note_and_no_error(deployment: dict[str, Any]) -> None:
    (found,) = judged(deployment, classes=None)
    assert (found.rule, found.severity) == ("missing-runtime-class", "note")
    assert "is not known" in found.words
    (found,) = judged(deployment, classes=set())
    assert (found.severity, "it has none" in found.words) == ("error", True)


def test_without_an_object_that_is_there_nothing_can_differ_from_it(deployment: dict[str, Any]) -> None:
    assert judged(changed(deployment, ((*ENGINE, "name"), "other")), live=None) == []


def test_only_the_engines_own_liveness_is_judged_and_a_container_beside_it_is_no_second_engine(
    deployment: dict[str, Any],
) -> None:
    beside = {"name": "exporter", "image": "exporter:1", "livenessProbe": PROBE}
    both = changed(
        deployment, ((*POD, "containers"), [deployment["spec"]["template"]["spec"]["containers"][0], beside])
    )
    assert judged(both, live=deployment, container="good") == []
    assert [one.rule for one in judged(both, live=deployment, container="exporter")] == [
        "liveness-kills-slow-start",
        "container-differs",
    ]


def test_init_containers_are_looked_at_too(deployment: dict[str, Any]) -> None:
    first = {"name": "fetch", "image": "a:latest", "env": [{"name": "HF_TOKEN", "value": "hf_x"}]}
    found = judged(changed(deployment, ((*POD, "initContainers"), [first])))
    assert [(one.rule, one.path) for one in found] == [
        ("mutable-tag", "spec.template.spec.initContainers[0].image"),
        ("token-in-plain-env", "spec.template.spec.initContainers[0].env[0]"),
    ]


def test_a_selector_is_compared_by_what_it_says(deployment: dict[str, Any]) -> None:
    selector = {**deployment["spec"]["selector"], "matchExpressions": None}
    assert judged(changed(deployment, (("spec", "selector"), selector)), live=deployment) == []
