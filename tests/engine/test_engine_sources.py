"""Evidence without a log: what /server_info, /v1/models and the scrape tell of a condition, and what they do not."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from engine_recorded import FIXTURES, read_json, text

from runner.engine.arguments import wanted
from runner.engine.evidence import ABSENT, CONTRADICTING, ArgumentEvidence, InForce, judge, judge_environment
from runner.engine.exposition import Exposition, parse
from runner.engine.features import features
from runner.engine.log import LogEvidence, Speculative, read_log
from runner.engine.served import ServedModel, Version, read_models, read_version
from runner.engine.server_info import ServerInfo, read_server_info
from runner.engine.sources import Sources
from runner.engine.speculation import told
from runner.engine.values import same_variable

OFF, ON, V1 = "h200-b2048/off-a", "h200-b2048/on-a", "h200-b2048/off-v1-async"
NOASYNC = "h200-b2048/off-v1-noasync"
ARMS = (OFF, ON, V1, NOASYNC)
GRID = {"served-model-name": "qwen2.5-3b", "max-model-len": 4096, "enforce-eager": True, "max-num-seqs": 16,
        "gpu-memory-utilization": 0.22, "max-num-batched-tokens": 2048}  # fmt: skip
NGRAM = {"spec-method": "ngram", "spec-tokens": 5}


def info(folder: str, *changes: tuple[str, str]) -> ServerInfo:
    body = text(f"{folder}/server_info.json")
    for old, new in changes:
        assert old in body
        body = body.replace(old, new)
    return read_server_info(body)


def scrape(folder: str) -> Exposition:
    return parse(text(f"{folder}/metrics/c1-r1-before.prom"))


def log(folder: str) -> LogEvidence:
    return read_log(text(f"{folder}/startup.log").splitlines())


def models(folder: str = OFF) -> tuple[ServedModel, ...]:
    found = read_models(text(f"{folder}/models.json"))
    assert found is not None
    return found


def verdicts(found: list[ArgumentEvidence]) -> dict[str, str]:
    return {one.name: str(one.verdict) for one in found}


def of(found: list[ArgumentEvidence], name: str) -> ArgumentEvidence:
    [one] = [one for one in found if one.name == name]
    return one


# ------------------------------------------------------------------------------------------------------
# Plain arguments


@pytest.mark.parametrize("folder", ARMS)
def test_every_recorded_argument_is_in_force_by_the_servers_own_configuration(folder: str) -> None:
    on = folder == ON
    args = wanted(GRID | (NGRAM if on else {}) | ({"async-scheduling": False} if folder == NOASYNC else {}))
    found = judge(args, None, None, info(folder))
    assert set(verdicts(found).values()) == {"in-force"}, verdicts(found)
    assert {one.source for one in found} == {"/server_info"}
    assert all(one.parsed is ABSENT and one.configured is not ABSENT and one.quote for one in found)


@pytest.mark.parametrize("name", [*GRID, "async-scheduling"])
def test_every_value_that_is_another_is_contradicted_and_the_source_named(name: str) -> None:
    value: Any = {**GRID, "async-scheduling": True}[name]
    other = (not value) if isinstance(value, bool) else value + 1 if isinstance(value, int | float) else "another"
    [found] = judge(wanted({name: other}), None, None, info(OFF))
    # another word may be what the engine made of this one
    assert found.verdict is (InForce.UNKNOWN if isinstance(value, str) else InForce.DIFFERS)
    assert found.reason.startswith("/server_info shows ")
    assert found.source == "/server_info"


def test_what_stands_in_several_sections_or_in_none_is_not_told() -> None:
    found = judge(
        wanted({"backend": "inductor", "attention-backend": "FLASH", "nobody-knows": 1}), None, None, info(OFF)
    )
    assert verdicts(found) == dict.fromkeys(("backend", "attention_backend", "nobody_knows"), "unknown")
    assert {one.reason for one in found} == {"there is no log, and /server_info does not show it"}


def test_a_section_is_compared_by_the_keys_that_were_given() -> None:
    asked = {"compilation-config": {"mode": 0, "backend": "inductor"}}
    assert of(judge(wanted(asked), None, None, info(OFF)), "compilation_config").verdict is InForce.IN_FORCE
    for other in ({"mode": 3}, {"mode": 0, "backend": "eager"}, {"mode": 0, "nobody-knows": 1}):
        # may have been resolved to what is shown
        [found] = judge(wanted({"compilation-config": other}), None, None, info(OFF))
        assert found.verdict is InForce.UNKNOWN


def test_the_models_answer_tells_length_names_and_what_was_started() -> None:
    args = {**wanted({"max-model-len": 4096, "served-model-name": "qwen2.5-3b"}), "model": "/models/qwen2.5-3b-shape"}
    found = judge(args, None, None, None, models())
    assert set(verdicts(found).values()) == {"in-force"}
    assert {one.source for one in found} == {"/v1/models"}
    other = {**wanted({"max-model-len": 2048, "served-model-name": ["qwen2.5-3b", "b"]}), "model": "org/other"}
    found = judge(other, None, None, None, models())
    assert set(verdicts(found).values()) == {"differs"}
    assert of(found, "model").reason == "/v1/models shows '/models/qwen2.5-3b-shape'"


def test_an_adapters_entry_is_not_the_engines() -> None:
    own = models()[0]
    with_adapter = (own, ServedModel("lora", "/adapters/a", own.id, None))
    args = {"model": own.root, "max_model_len": 4096, "served_model_name": own.id}
    assert set(verdicts(judge(args, None, None, None, with_adapter)).values()) == {"in-force"}
    assert set(verdicts(judge(args, None, None, None, with_adapter[1:])).values()) == {"unknown"}


def test_the_labels_of_the_cache_configuration_tell_without_a_log() -> None:
    args = wanted({"block-size": 16, "enable-prefix-caching": True, "gpu-memory-utilization": 0.3, "max-num-seqs": 16})
    found = judge(args, None, scrape(OFF))
    assert verdicts(found) == {
        "block_size": "in-force",
        "enable_prefix_caching": "in-force",
        "gpu_memory_utilization": "differs",
        "max_num_seqs": "unknown",
    }
    assert of(found, "block_size").source == "vllm:cache_config_info"
    assert of(found, "max_num_seqs").reason == "there is no log, and there is no /server_info"


def test_two_sources_that_show_two_values_contradict_each_other_and_are_both_quoted() -> None:
    other = info(OFF, ('"max_model_len":4096', '"max_model_len":8192'))
    # whichever of the two was wanted
    for asked in (4096, 8192):
        args = wanted({"max-model-len": asked})
        for sources in ((log(OFF), None, other, None), (None, None, other, models())):
            [found] = judge(args, *sources)
            assert found.verdict is (InForce.DIFFERS)
            first = "the engine's configuration line" if sources[0] else "/server_info"
            if sources[0] and asked == 8192:
                assert found.reason == "vLLM parsed 4096"
            else:
                second = "/server_info" if sources[0] else "/v1/models"
                assert found.source == f"{first}, {second}"
                assert found.quote is not None and "4096" in found.quote and "8192" in found.quote
    # neither of them is: it is the disagreement that is told
    [found] = judge(wanted({"max-model-len": -1}), None, None, other, models())
    assert (found.verdict, found.reason) == (InForce.DIFFERS, "/server_info shows 8192, /v1/models 4096")


def test_negations_and_nulls_keep_their_rules() -> None:
    assert judge(wanted({"max-num-seqs": None}), None, scrape(OFF), info(OFF)) == []
    for args in ({"no-enable-prefix-caching": True}, {"enable-prefix-caching": False}):
        assert verdicts(judge(wanted(args), None, None, info(OFF))) == {"enable_prefix_caching": "differs"}
    assert verdicts(judge(wanted({"no-async-scheduling": True}), None, None, info(NOASYNC))) == {
        "async_scheduling": "in-force"
    }
    assert verdicts(judge(wanted({"spec-method": None, "spec-tokens": None}), None, scrape(OFF), info(OFF))) == {}


def test_a_value_that_the_engine_resolves_is_unknown() -> None:
    found = judge(wanted({"dtype": "auto", "max-model-len": "auto"}), None, None, info(OFF))
    assert set(verdicts(found).values()) == {"unknown"}
    assert of(found, "dtype").reason == "/server_info shows 'torch.bfloat16', which may be its resolution"


def test_nothing_tells_nothing() -> None:
    args = {**wanted({**GRID, **NGRAM, "speculative-config": {"a": 1}}), "model": "m"}
    for sources in ((None, None, None, None), (None, None, ServerInfo(), ()), (LogEvidence(), Exposition({}, {}))):
        found = judge(args, *sources)
        assert {one.verdict for one in found} == {InForce.UNKNOWN}
        assert [one.name for one in found] == list(args)


# ------------------------------------------------------------------------------------------------------
# Variables


@pytest.mark.parametrize(
    ("folder", "env", "verdict"),
    [
        (V1, {"VLLM_USE_V2_MODEL_RUNNER": "0"}, "in-force"),
        (V1, {"VLLM_USE_V2_MODEL_RUNNER": "1"}, "differs"),
        (V1, {"VLLM_USE_V2_MODEL_RUNNER": "maybe"}, "unknown"),
        (OFF, {"VLLM_USE_V2_MODEL_RUNNER": "0"}, "unknown"),
        (OFF, {"VLLM_SOME_PLUGINS_OWN": "1"}, "unknown"),
        (OFF, {"VLLM_API_KEY": "k"}, "unknown"),
        (OFF, {"OMP_NUM_THREADS": "1"}, "unknown"),
        (OFF, {"VLLM_LOG_STATS_INTERVAL": "10"}, "in-force"),
        (OFF, {"VLLM_LOG_STATS_INTERVAL": "1"}, "differs"),
        (OFF, {"VLLM_TARGET_DEVICE": "cuda"}, "in-force"),
        (OFF, {"VLLM_TARGET_DEVICE": "cpu"}, "unknown"),
    ],
)
def test_a_variable_is_told_by_the_servers_own_list(folder: str, env: dict[str, str], verdict: str) -> None:
    [found] = judge_environment(env, info(folder))
    assert found.verdict == verdict
    assert found.name == f"env.{next(iter(env))}"
    assert judge_environment(env, None)[0].verdict is InForce.UNKNOWN


@pytest.mark.parametrize(
    ("text", "found", "verdict"),
    [
        ("debug", "DEBUG", None),
        ("~/.c", "/home/someone/.c", None),
        ("a", "a", True),
        ("1.10", "1.1", None),
        ("true", "1", None),
        ("4", "5", False),
        ("0", "true", False),
        ("5", 5, True),
        ("4", 5, False),
        ("false", True, False),
        ("1", True, True),
        ("maybe", True, None),
        ("a,b", ["a", "b"], None),
    ],
)
def test_another_text_is_another_value_only_where_it_clearly_is(text: str, found: object, verdict: bool | None) -> None:
    assert same_variable(text, found) is verdict


# ------------------------------------------------------------------------------------------------------
# Speculation

SCRAPES = sorted(path.relative_to(FIXTURES).as_posix() for path in FIXTURES.rglob("*.prom"))


@pytest.mark.parametrize("name", SCRAPES)
def test_the_draft_counters_of_every_recording_exist_where_it_speculates_and_have_its_positions(name: str) -> None:
    [one] = told(Sources(None, parse(text(name))))
    on = re.search(r"/(?:q3b-|gemma-)?on(?:-a|-b16384)?/", name) is not None
    assert one.speculative == (Speculative(None, None, 5) if on else None)


@pytest.mark.parametrize(
    ("folder", "args", "verdict", "reason"),
    [
        (ON, {"spec-tokens": 5}, "in-force", "the draft counters exist"),
        (ON, {"spec-tokens": 3}, "differs", "the draft counters: the engine drafts 5 tokens"),
        (ON, {"spec-method": "ngram"}, "unknown", "by the draft counters it speculates, and nothing tells its method"),
        (ON, {"speculative-config": {"method": "ngram", "num_speculative_tokens": 5}}, "unknown", "tells its method"),
        (ON, {"speculative-config": {"method": "ngram", "num_speculative_tokens": 4}}, "differs", "drafts 5 tokens"),
        (ON, {"speculative-config.num_speculative_tokens": 5}, "in-force", "one position for each"),
        (OFF, {"spec-tokens": 5}, "ignored", "exposes its metrics and none of speculation's"),
        (OFF, {"spec-method": "ngram"}, "ignored", "exposes its metrics and none of speculation's"),
        (OFF, {"speculative-config": {"method": "eagle3"}}, "ignored", "exposes its metrics and none"),
    ],
)
def test_the_counters_alone_tell_whether_it_speculates_and_how_many_tokens(
    folder: str, args: dict[str, Any], verdict: str, reason: str
) -> None:
    [found] = judge(wanted(args), None, scrape(folder))
    assert found.verdict == verdict
    assert reason in found.reason
    assert found.source == "the draft counters"


@pytest.mark.parametrize(
    ("positions", "tokens"), [(("0",), 1), (("0", "1", "2"), 3), (("1", "2"), None), (("0", "x"), None), ((), None)]
)
def test_the_tokens_are_the_positions_from_0_on_and_nothing_else(
    positions: tuple[str, ...], tokens: int | None
) -> None:
    name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    lines = [f'{name}{{position="{one}"}} 0' for one in positions]
    body = ["vllm:num_requests_running 0", "vllm:spec_decode_num_drafts_total 0", *lines]
    [one] = told(Sources(None, parse("\n".join(body) + "\n")))
    assert one.speculative == Speculative(None, None, tokens)
    [found] = judge({"spec_tokens": 3}, None, parse("\n".join(body) + "\n"))
    assert found.verdict == {3: "in-force", None: "unknown"}.get(tokens, "differs")


@pytest.mark.parametrize("sources", [(log(ON), None), (None, info(ON)), (log(ON), info(ON))])
def test_counters_that_are_missing_beside_a_configuration_that_is_seen_are_another_finding(sources: Any) -> None:
    """The check of the counters tells that nothing could be counted; the argument is in force by what it shows."""
    found = judge(wanted(NGRAM), sources[0], scrape(OFF), sources[1])
    assert set(verdicts(found).values()) == {"in-force"}


def test_a_scrape_of_nothing_says_nothing_of_speculation() -> None:
    foreign = parse("# TYPE up gauge\nup 1\n")
    assert told(Sources(None, foreign)) == []
    assert verdicts(judge(wanted(NGRAM), None, foreign)) == {"spec_method": "unknown", "spec_tokens": "unknown"}
    assert judge({}, None, foreign) == []


@pytest.mark.parametrize(
    ("folder", "args", "verdict", "reason"),
    [
        (ON, NGRAM, "in-force", "/server_info shows the speculation"),
        (ON, {"spec-method": "eagle3"}, "differs", "/server_info: the engine speculates by the method 'ngram'"),
        (ON, {"spec-tokens": 4}, "differs", "/server_info: the engine drafts 5 tokens"),
        (ON, {"speculative-config": {"method": "ngram", "num_speculative_tokens": 5, "prompt-lookup-max": 5}},
         "in-force", "/server_info shows the speculation"),
        (ON, {"speculative-config": {"method": "ngram", "num_speculative_tokens": 5, "prompt-lookup-max": 4}},
         "differs", "/server_info: prompt_lookup_max is 5"),
        (ON, {"speculative-config": {"method": "ngram", "nobody_knows": 4}}, "unknown", "tells its nobody_knows"),
        (OFF, NGRAM, "ignored", "/server_info says speculative_config null"),
    ],
)  # fmt: skip
def test_the_servers_configuration_tells_the_method_too(
    folder: str, args: dict[str, Any], verdict: str, reason: str
) -> None:
    for one in judge(wanted(args), None, scrape(folder), info(folder)):
        assert one.verdict == verdict
        assert reason in one.reason
        assert one.source == "/server_info"


def test_a_log_and_a_configuration_that_disagree_contradict_the_argument() -> None:
    assert set(verdicts(judge(wanted(NGRAM), log(ON), scrape(ON), info(ON))).values()) == {"in-force"}
    found = judge(wanted(NGRAM), log(ON), scrape(ON), info(OFF))
    assert set(verdicts(found).values()) == {"ignored"}
    other = info(ON, ('"num_speculative_tokens":5', '"num_speculative_tokens":3'))
    assert of(judge(wanted(NGRAM), log(ON), None, other), "spec_tokens").verdict is InForce.DIFFERS


@pytest.mark.parametrize(
    ("sources", "where"),
    [
        ((None, scrape(ON)), "the draft counters"),
        ((None, None, info(ON)), "/server_info"),
        ((log(ON), None), "the engine's configuration line"),
        ((log(OFF), scrape(ON)), "the draft counters"),
        ((log(ON), scrape(ON), info(ON)), "the engine's configuration line, /server_info, the draft counters"),
    ],
)
def test_speculation_that_nobody_asked_for_contradicts_the_condition(sources: Any, where: str) -> None:
    for args in ({}, wanted({"max-model-len": 4096})):
        *_, found = judge(args, *sources)
        assert found.name == "speculative_config" and found.verdict in CONTRADICTING
        assert found.reason == f"not asked for, and yet the engine speculates: {where}"
        assert found.source == where and found.configured is not ABSENT
    assert judge({}, log(OFF), scrape(OFF), info(OFF)) == []


# ------------------------------------------------------------------------------------------------------
# Features


@pytest.mark.parametrize(
    ("folder", "asynchronous", "runner"),
    [(OFF, "enabled", None), (ON, "disabled", None), (V1, "enabled", "V1"), (NOASYNC, "disabled", "V1")],
)
def test_features_by_the_servers_configuration(folder: str, asynchronous: str, runner: str | None) -> None:
    found = features(None, None, info(folder))
    assert {name: one.value for name, one in found.items()} == {
        "async-scheduling": asynchronous,
        "model-runner": runner,
        "max-num-batched-tokens": 2048,
        "unsupported-sampling": None,
    }
    assert {one.source for one in found.values() if one.value is not None} == {"/server_info"}
    state = "True" if asynchronous == "enabled" else "False"
    assert found["async-scheduling"].quote == f"/server_info: async_scheduling: {state}"
    # what the log of the same process tells does not change by it
    assert features(log(folder), None, info(folder)) == features(log(folder))


def test_a_log_and_a_configuration_that_disagree_tell_nothing_of_a_feature() -> None:
    found = features(log(OFF), None, info(ON))["async-scheduling"]
    assert found.value is None and found.source == "log and /server_info disagree"
    assert found.quote is not None and "enabled" in found.quote and "async_scheduling: False" in found.quote


def test_the_runner_of_the_log_is_what_came_of_the_forced_one() -> None:
    assert features(log(OFF), None, info(V1))["model-runner"].value == "V2"


def test_the_budget_beside_drafts_that_take_slots_of_it_is_not_guessed() -> None:
    slots = info(ON, ('"method":"ngram"', '"method":"draft_model"'), ('"max_num_scheduled_tokens":2048', '"x":1'))
    assert features(None, None, slots)["max-num-batched-tokens"].value is None
    stated = info(ON, ('"max_num_scheduled_tokens":2048', '"max_num_scheduled_tokens":2032'))
    assert features(None, None, stated)["max-num-batched-tokens"].value == 2032


# ------------------------------------------------------------------------------------------------------
# Models and version


def test_the_recorded_models_and_versions() -> None:
    assert models() == (ServedModel("qwen2.5-3b", "/models/qwen2.5-3b-shape", None, 4096),)
    assert read_version(text(f"{OFF}/version.json")) == Version("0.26.0", simulated=False)
    assert read_json(f"{OFF}/version.json") == {"version": "0.26.0"}


@pytest.mark.parametrize("body", ["", "{", "[]", "null", '{"data": 5}', '{"data": {}}', "[" * 100_000, b"\xff"])
def test_what_is_no_list_of_models_is_none(body: str | bytes) -> None:
    assert read_models(body) is None
    assert read_version(body) == Version()


def test_what_a_server_does_not_say_is_absent() -> None:
    body = json.dumps({"data": [{"id": "m"}, {"id": 5}, "x", {"id": "n", "root": 1, "max_model_len": True}]})
    assert read_models(body) == (ServedModel("m", None, None, None), ServedModel("n", None, None, None))
    assert read_version('{"version": 5, "simulated": "yes"}') == Version()
    assert read_version('{"simulated": true}') == Version(None, simulated=True)
