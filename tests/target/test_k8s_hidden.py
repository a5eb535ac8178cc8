"""What of an object is never shown: the values that somebody else gave, and what sounds secret in the words of all."""

from __future__ import annotations

from typing import Any

import pytest
from k8s_objects import pod

from runner.target.base import Transport
from runner.target.kubernetes.difference import differences
from runner.target.kubernetes.engine import KubernetesEngine
from runner.target.kubernetes.hidden import hide, variables
from runner.target.kubernetes.leftover import leftovers

Object = dict[str, Any]
SECRET = "s3cr3t-value"


def deployment(env: list[Object], **container: Any) -> Object:
    return {"spec": {"template": {"spec": {"containers": [{"name": "vllm", "env": env, **container}]}}}}


def variable(name: str, value: str) -> Object:
    return {"name": name, "value": value}


def test_a_value_that_the_run_did_not_set_is_never_shown_whatever_its_name() -> None:
    before = deployment([variable("HOUSE_CODE", SECRET), variable("OWN", "1")])
    after = deployment([variable("HOUSE_CODE", SECRET + "2"), variable("OWN", "2")])
    found = differences(before, after, own_env={"OWN"})
    assert [one.one().rpartition("env")[2] for one in found] == [
        "[HOUSE_CODE].value: (hidden) → (hidden), which differs",
        '[OWN].value: "1" → "2"',
    ]
    assert SECRET not in repr(found) and SECRET not in repr(differences(before, after))
    gone = differences(before, deployment([variable("OWN", "1")]), own_env={"OWN"})
    assert gone[0].one().endswith('{"name": "HOUSE_CODE", "value": "(hidden)"} → absent')


def test_a_whole_container_that_is_gone_or_kept_shows_no_value_of_its_environment() -> None:
    before = deployment([variable("HOUSE_CODE", SECRET)])
    found = differences(before, {"spec": {"template": {"spec": {"containers": [{"name": "b"}]}}}})
    assert found and SECRET not in repr(found)
    twice = differences(deployment([variable("HOUSE_CODE", SECRET)] * 2), deployment([]))
    assert twice and SECRET not in repr(twice)


def test_what_is_kept_of_the_environment_is_named_and_not_shown() -> None:
    live = deployment([variable("OWN", "1"), variable("HOUSE_CODE", SECRET)])
    (kept,) = leftovers(deployment([variable("OWN", "1")]), live, live=live)
    assert kept.one().endswith("env[HOUSE_CODE]: (kept)")


def test_the_variables_of_a_manifest() -> None:
    made = deployment([variable("A", "1"), {"name": "B", "valueFrom": {}}])
    made["spec"]["template"]["spec"]["initContainers"] = [{"name": "i", "env": [variable("C", "")]}, {"name": "j"}]
    assert variables(made) == {"A", "B", "C"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--api-key", SECRET, SECRET + "2", "--port", "1"], ["--api-key", "(hidden)", "(hidden)", "--port", "1"]),
        (["--api-key", SECRET, "-O3"], ["--api-key", "(hidden)", "-O3"]),
        (["serve --api-key " + SECRET], ["serve --api-key (hidden)"]),
        ([f"serve --api-key {SECRET} {SECRET}2 --port 1"], ["serve --api-key (hidden) --port 1"]),
        (["--hf-overrides", f'{{"token": "{SECRET}", "a": 1}}'], ["--hf-overrides", '{"token": (hidden), "a": 1}']),
        (["--hf-overrides", f'{{\\"token\\":\\"{SECRET}\\"}}'], ["--hf-overrides", '{\\"token\\":(hidden)}']),
        ([f"--hf-overrides={{'token':'{SECRET}'}}"], ["--hf-overrides={'token':(hidden)}"]),
        (["curl", "-H", f"Authorization: Bearer {SECRET}"], ["curl", "-H", "Authorization: (hidden)"]),
        ([f"curl -H 'Authorization: Basic {SECRET}' url"], ["curl -H 'Authorization: (hidden)' url"]),
        ([f"x Bearer {SECRET} y"], ["x Bearer (hidden) y"]),
        ([f"AccountName=a;AccountKey={SECRET}"], ["AccountName=a;AccountKey=(hidden)"]),
        ([f"--env=HF_TOKEN={SECRET}"], ["--env=HF_TOKEN=(hidden)"]),
        ([f"env --verbose HF_TOKEN={SECRET} vllm"], ["env --verbose HF_TOKEN=(hidden) vllm"]),
        ([f"X-Api-Key:{SECRET}"], ["X-Api-Key:(hidden)"]),
        (["curl", f"http://u:{SECRET}@h/v1"], ["curl", "http://(hidden)@h/v1"]),
    ],
)  # fmt: skip
def test_secrets_in_words(words: list[str], told: list[str]) -> None:
    assert hide("spec.args", words) == told


@pytest.mark.parametrize(
    "words",
    [
        ["serve", "Qwen/Qwen2.5-3B", "--max-num-batched-tokens", "8192", "--tokenizer", "a", "-O3"],
        ["--speculative-config", '{"method": "ngram", "num_speculative_tokens": 5}'],
        ["--kv-transfer-config", '{"kv_connector": "Nixl", "kv_role": "both"}'],
        ["bash", "-c", "cd $PWD && exec vllm serve --port 8000 http://h:1/v1"],
    ],
)
def test_other_words_stay_as_they_are(words: list[str]) -> None:
    assert hide("spec.args", words) == words


@pytest.mark.parametrize("name", ["[x/token]", ".api-key", "[example.com/db-password]"])
def test_annotations_and_labels_by_their_names(name: str) -> None:
    assert hide(f"metadata.annotations{name}", SECRET) == "(hidden)"
    assert hide("metadata", {"labels": {"x/token": SECRET, "app": "a"}}) == {
        "labels": {"x/token": "(hidden)", "app": "a"}
    }


def test_references_and_tolerations_are_shown() -> None:
    for value in ({"secretKeyRef": {"name": "s", "key": "token"}}, [{"key": "gpu", "operator": "Exists"}]):
        assert hide("spec.x", value) == value


class Unused:
    """What an engine that is not asked has no need of."""


def engine(own_env: Any = None, **spec: Any) -> KubernetesEngine:
    unused: Any = Unused()
    return KubernetesEngine(
        unused,
        pod("engine", **spec),
        "c",
        endpoint="http://h:1",
        transport=Transport("pod-ip"),
        facts={},
        log=unused,
        forward=None,
        gpu_command=["nvidia-smi"],
        own_env=own_env,
    )


def test_an_engine_shows_the_runs_own_variables_and_only_the_names_of_others() -> None:
    env = [
        variable("OWN", f"http://u:{SECRET}@h"),
        variable("HOUSE_CODE", SECRET),
        {"name": "REF", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ]
    made = engine({"OWN"}, containers=[{"name": "c", "command": ["vllm"], "args": ["--api-key", SECRET], "env": env}])
    assert made.env == {"OWN": "http://(hidden)@h", "HOUSE_CODE": "(kept)", "REF": "(secret s, key k)"}
    assert made.command == ["vllm", "--api-key", "(hidden)"]
    assert engine(containers=[{"name": "c", "env": [variable("A", "1")]}]).env == {"A": "1"}
