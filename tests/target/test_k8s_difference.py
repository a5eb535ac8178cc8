"""How two states of an object differ, and what an apply leaves of the one that was there: on a real server's answers,
and on edges made by hand."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from k8s_objects import read

from runner.target.kubernetes.difference import RUNTIME, Difference, differences
from runner.target.kubernetes.leftover import Leftover, leftovers

Object = dict[str, Any]
OWN = ("A", "B", "C", "BOTH", "HF_TOKEN", "API_KEY", "URL", "VLLM_GHOST")
"""The run's own variables."""
CONTAINER = "spec.template.spec.containers[vllm]"


def lines(before: Any, after: Any, ignore: frozenset[str] = frozenset()) -> list[str]:
    return [one.one() for one in differences(before, after, ignore=ignore, own_env=OWN)]


def with_container(**container: Any) -> Object:
    return {"spec": {"template": {"spec": {"containers": [{"name": "vllm", **container}]}}}}


def in_container(before: Object, after: Object) -> list[str]:
    return [line.removeprefix(f"{CONTAINER}.") for line in lines(with_container(**before), with_container(**after))]


# A real server's answers ---------------------------------------------------------------------------------


def test_a_take_over_field_by_field() -> None:
    shown = read("ownership")
    assert lines(shown["before"], shown["dry-run"], RUNTIME) == [
        "spec.template.metadata.annotations[llm-experiment-runner/launch]: absent → \"run1-off-1\"",
        f'{CONTAINER}.args: with "--x"',
        f'{CONTAINER}.env[BOTH].value: "1" → "2"',
        "spec.template.spec.terminationGracePeriodSeconds: 2 → 30",
        'spec.strategy.rollingUpdate.maxUnavailable: "25%" → 1',
        'spec.strategy.rollingUpdate.maxSurge: "25%" → 0',
    ]  # fmt: skip


def test_a_restored_object_differs_in_nothing_but_the_servers_own_counting() -> None:
    shown = read("ownership")
    assert lines(shown["saved"], shown["restored"], RUNTIME) == []
    places = {one.path.partition("[")[0].partition(".f")[0] for one in differences(shown["saved"], shown["restored"])}
    counted = {"metadata.resourceVersion", "metadata.generation", "metadata.managedFields", "metadata.annotations"}
    assert counted <= places
    assert {place for place in places if not place.startswith("status.")} == counted


def test_a_ghost_that_an_apply_of_the_old_manifest_left_is_seen() -> None:
    """An environment variable and an argument of the on-condition stand in the object after a restore by apply."""
    shown = read("ownership")
    ghost = copy.deepcopy(shown["restored"])
    container = ghost["spec"]["template"]["spec"]["containers"][0]
    container["env"].append({"name": "VLLM_GHOST", "value": "1"})
    container["args"].append("--ghost")
    assert lines(shown["saved"], ghost, RUNTIME) == [
        f'{CONTAINER}.args: with "--ghost"',
        f'{CONTAINER}.env[VLLM_GHOST]: absent → {{"name": "VLLM_GHOST", "value": "1"}}',
    ]


# Lists as Kubernetes merges them --------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["env", "volumeMounts", "ports"])
def test_the_order_of_a_list_of_maps_is_no_difference_and_its_elements_are_held_by_key(field: str) -> None:
    one, two, changed, path = {
        "env": ({"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"value": "3"}, "env[B].value"),
        "volumeMounts": ({"mountPath": "/a", "name": "v"}, {"mountPath": "/b", "name": "v"}, {"readOnly": True},
                         "volumeMounts[/b].readOnly"),
        "ports": ({"containerPort": 1, "protocol": "UDP"}, {"containerPort": 1}, {"name": "x"}, "ports[1/TCP].name"),
    }[field]  # fmt: skip
    assert in_container({field: [one, two]}, {field: [two, one]}) == []
    (found,) = in_container({field: [one, two]}, {field: [{**two, **changed}, one]})
    assert found.startswith(f"{path}: ")
    (gone,) = in_container({field: [one, two]}, {field: [one]})
    assert gone.startswith(f"{path.rpartition('.')[0]}: ") and gone.endswith(" → absent")


def test_volumes_secrets_and_init_containers_are_held_by_name() -> None:
    before = {"spec": {"volumes": [{"name": "a", "emptyDir": {}}], "imagePullSecrets": [{"name": "x"}]}}
    after = {"spec": {"volumes": [{"name": "a", "hostPath": {"path": "/m"}}], "imagePullSecrets": [{"name": "y"}]}}
    assert lines(before, after) == [
        'spec.volumes[a].hostPath: absent → {"path": "/m"}',
        'spec.imagePullSecrets[x]: {"name": "x"} → absent',
        'spec.imagePullSecrets[y]: absent → {"name": "y"}',
    ]
    two = {"initContainers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}
    assert lines(two, {"initContainers": [{"name": "b", "image": "2"}, {"name": "a", "image": "1"}]}) == [
        'initContainers[b].image: "1" → "2"'
    ]


def test_tolerations_are_one_list() -> None:
    one, two = {"key": "a"}, {"key": "b"}
    assert lines({"tolerations": [one, two]}, {"tolerations": [two, one]}) == [
        'tolerations: [{"key": "a"}, {"key": "b"}] → [{"key": "b"}, {"key": "a"}]'
    ]


def test_a_service_has_ports_by_their_own_key() -> None:
    before = {"spec": {"ports": [{"port": 80, "targetPort": 8000}, {"port": 81, "targetPort": 8001}]}}
    after = {"spec": {"ports": [{"port": 81, "targetPort": 8001}, {"port": 80, "targetPort": 9000}]}}
    assert lines(before, after) == ["spec.ports[80/TCP].targetPort: 8000 → 9000"]


def test_two_variables_of_one_name_are_compared_as_a_whole_list() -> None:
    twice = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    assert in_container({"env": twice}, {"env": twice}) == []
    (found,) = in_container({"env": twice}, {"env": twice[::-1]})
    assert found.startswith("env: [")


# Words ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (["--a", "1"], ["--a", "1", "--b", "2"], 'with "--b" "2"'),
        (["--a", "1", "--b"], ["--b"], 'without "--a" "1"'),
        (["--a", "1"], ["--a", "2"], 'without "1", with "2"'),
        (["--a", "--b", "--c"], ["--c", "--a", "--b"], '"--c" elsewhere'),
        (["--a", "--a"], ["--a"], 'without "--a"'),
    ],
)
def test_args_are_shown_word_by_word(before: list[str], after: list[str], told: str) -> None:
    assert in_container({"args": before}, {"args": after}) == [f"args: {told}"]
    assert in_container({"command": before}, {"command": after}) == [f"command: {told}"]


def test_args_that_only_one_side_has_are_shown_whole() -> None:
    assert in_container({}, {"args": ["serve", "m"]}) == ['args: absent → ["serve", "m"]']


# Absent and empty ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("nothing", [None, {}, [], {"limits": {}}])
def test_absent_and_empty_are_the_same(nothing: Any) -> None:
    assert in_container({"resources": nothing}, {}) == []
    assert in_container({}, {"resources": nothing}) == []
    assert in_container({"resources": nothing}, {"resources": {"limits": {"nvidia.com/gpu": "1"}}}) == [
        'resources.limits[nvidia.com/gpu]: absent → "1"'
    ]


def test_zero_false_and_empty_text_are_values() -> None:
    assert lines({"spec": {}}, {"spec": {"replicas": 0, "paused": False}}) == [
        "spec.replicas: absent → 0",
        "spec.paused: absent → false",
    ]
    assert lines({"metadata": {"labels": {}}}, {"metadata": {"labels": {"a": ""}}}) == [
        'metadata.labels.a: absent → ""'
    ]


def test_a_variable_without_a_value_is_one_of_no_characters() -> None:
    assert in_container({"env": [{"name": "A"}]}, {"env": [{"name": "A", "value": ""}]}) == []
    assert in_container({"env": [{"name": "A"}]}, {"env": [{"name": "A", "value": "x"}]}) == [
        'env[A].value: absent → "x"'
    ]


def test_text_is_not_the_number_it_spells() -> None:
    assert lines({"a": "1"}, {"a": 1}) == ['a: "1" → 1']


# Ignored -------------------------------------------------------------------------------------------------


def test_what_is_ignored_is_that_path_and_below_and_no_other() -> None:
    before = {"status": {"replicas": 1}, "statusQuo": 1, "metadata": {"generation": 1, "generationX": 1}}
    after = {"status": {"replicas": 2}, "statusQuo": 2, "metadata": {"generation": 2, "generationX": 2}}
    assert [one.path for one in differences(before, after, ignore=RUNTIME)] == ["statusQuo", "metadata.generationX"]


def test_an_object_made_anew_is_not_the_same_object() -> None:
    before, after = ({"metadata": {"uid": uid, "creationTimestamp": "t"}} for uid in "ab")
    assert lines(before, after, RUNTIME) == ['metadata.uid: "a" → "b"']


# Secrets -------------------------------------------------------------------------------------------------

SECRET = "s3cr3t-value"


def env(name: str, value: str) -> Object:
    return {"env": [{"name": name, "value": value}]}


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (
            env("HF_TOKEN", SECRET),
            env("HF_TOKEN", SECRET + "2"),
            "env[HF_TOKEN].value: (hidden) → (hidden), which differs",
        ),
        ({}, env("API_KEY", SECRET), 'env[API_KEY]: absent → {"name": "API_KEY", "value": "(hidden)"}'),
        (
            {"env": [*env("HF_TOKEN", SECRET)["env"]] * 2},
            env("HF_TOKEN", "x"),
            'env: [{"name": "HF_TOKEN", "value": "(hidden)"}, {"name": "HF_TOKEN", "value": "(hidden)"}] → '
            '[{"name": "HF_TOKEN", "value": "(hidden)"}]',
        ),
        ({"args": ["--api-key", SECRET]}, {"args": ["--api-key", "other"]}, "args: a hidden word differs"),
        ({"args": ["a"]}, {"args": ["a", "--api-key", SECRET]}, 'args: with "--api-key" (hidden)'),
        ({"args": ["a"]}, {"args": ["a", f"--api-key={SECRET}"]}, 'args: with "--api-key=(hidden)"'),
        (
            {"args": ["a"]},
            {"args": ["a", f"HF_TOKEN={SECRET} vllm serve --api-key '{SECRET}' --port 1"]},
            'args: with "HF_TOKEN=(hidden) vllm serve --api-key (hidden) --port 1"',
        ),
        (env("URL", f"http://u:{SECRET}@h"), env("URL", "http://h"), 'env[URL].value: "http://(hidden)@h" → "http://h"'),
        (
            {},
            {"readinessProbe": {"httpGet": {"httpHeaders": [{"name": "Authorization", "value": f"Bearer {SECRET}"}]}}},
            'readinessProbe: absent → {"httpGet": {"httpHeaders": [{"name": "Authorization", "value": "(hidden)"}]}}',
        ),
        (
            {},
            {"env": [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "t"}}}]},
            'env[HF_TOKEN]: absent → {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "t"}}}',
        ),
    ],
)  # fmt: skip
def test_what_sounds_secret_is_hidden_on_both_sides_and_a_difference_still_told(
    before: Object, after: Object, told: str
) -> None:
    found = differences(with_container(**before), with_container(**after), own_env=OWN)
    assert [one.one().removeprefix(f"{CONTAINER}.") for one in found] == [told]
    assert SECRET not in repr(found)


@pytest.mark.parametrize("word", ["--max-num-batched-tokens", "--tokenizer", "token"])
def test_options_that_only_sound_alike_are_shown(word: str) -> None:
    assert in_container({"args": ["a"]}, {"args": ["a", word, "8"]}) == [f'args: with "{word}" "8"']


def test_kubectls_copy_of_the_manifest_is_hidden() -> None:
    name = "kubectl.kubernetes.io/last-applied-configuration"
    before, after = ({"metadata": {"annotations": {name: json.dumps({"x": SECRET + end})}}} for end in "12")
    (found,) = differences(before, after)
    assert found == Difference(f"metadata.annotations[{name}]", "(hidden)", "(hidden)")
    assert found.one().endswith("(hidden) → (hidden), which differs")


# Left over -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_fresh", [True, False])
def test_what_a_forced_apply_keeps_of_a_client_side_baseline(with_fresh: bool) -> None:
    shown = read("ownership")
    fresh = shown["fresh"] if with_fresh else None
    found = leftovers(shown["rendered-rolling"], shown["dry-run"], live=shown["before"], fresh=fresh)
    assert [one.path for one in found] == [
        "metadata.annotations.team",
        "spec.template.spec.volumes[shm]",
        f"{CONTAINER}.env[EXTRA]",
        f"{CONTAINER}.env[HF_TOKEN]",
        f"{CONTAINER}.volumeMounts[/dev/shm]",
        f"{CONTAINER}.livenessProbe",
        "spec.template.spec.tolerations",
    ]
    assert found[2].one() == f"{CONTAINER}.env[EXTRA]: (kept)", "whatever its name, its value is not ours to show"
    assert "hf_not_a_real_one" not in repr(found)


def test_nothing_is_left_over_of_what_the_manifest_speaks_of() -> None:
    shown = read("ownership")
    assert leftovers(shown["dry-run"], shown["dry-run"], live=shown["before"]) == []


def test_a_baseline_of_the_same_manifest_leaves_nothing() -> None:
    """All that the server adds of itself is a default: the table has each of them."""
    shown = read("ownership")
    assert leftovers(shown["rendered-rolling"], shown["fresh"], live=shown["fresh"]) == []
    assert leftovers(shown["rendered-rolling"], shown["fresh"], live=shown["fresh"], fresh=shown["fresh"]) == []


def test_what_the_live_object_lacks_is_not_left_over() -> None:
    """A mutating webhook's own addition."""
    shown = read("ownership")
    result = copy.deepcopy(shown["fresh"])
    result["spec"]["template"]["spec"]["priorityClassName"] = "low"
    assert leftovers(shown["rendered-rolling"], result, live=shown["fresh"]) == []
    live = copy.deepcopy(result)
    assert leftovers(shown["rendered-rolling"], result, live=live) == [
        Leftover("spec.template.spec.priorityClassName", "low")
    ]


@pytest.mark.parametrize(
    ("field", "value"), [("terminationMessagePolicy", "FallbackToLogsOnError"), ("imagePullPolicy", "Always")]
)
def test_a_value_beside_the_default_is_left_over(field: str, value: str) -> None:
    shown = read("ownership")
    live = copy.deepcopy(shown["fresh"])
    live["spec"]["template"]["spec"]["containers"][0][field] = value
    found = leftovers(shown["rendered-rolling"], live, live=live)
    assert found == [Leftover(f"{CONTAINER}.{field}", value)]


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("vllm/vllm-openai", "Always"),
        ("vllm/vllm-openai:latest", "Always"),
        ("registry:5000/vllm", "Always"),
        ("vllm/vllm-openai:v0.33.0", "IfNotPresent"),
        ("vllm/vllm-openai@sha256:" + "0" * 64, "IfNotPresent"),
    ],
)
def test_the_default_pull_policy_goes_by_the_tag(image: str, policy: str) -> None:
    for shown in ("Always", "IfNotPresent", "Never"):
        live = with_container(image=image, imagePullPolicy=shown)
        found = leftovers(with_container(image=image), live, live=live)
        assert [one.value for one in found] == ([] if shown == policy else [shown])
