"""What the embedded engine refuses: in vLLM's words what vLLM refuses, in its own what it cannot be."""

from __future__ import annotations

import json

import pytest
from simulator_process import EngineProcess

from runner.simulator import arguments, configuration, profile, release
from runner.simulator.refusal import NotSimulated


def build(*flags: str, **environment: str) -> configuration.Configuration:
    values = arguments.parse(["serve", "m", *flags], "0.26.0", print).values
    return configuration.build(values, environment, release.named("0.26.0"), profile.load("article"))


OUT_OF_RANGE = [
    ("--max-model-len=0", "max_model_len", "-1"),
    ("--max-num-batched-tokens=-8", "max_num_batched_tokens", "1"),
    ("--max-num-scheduled-tokens=-5", "max_num_scheduled_tokens", "1"),
    ("--block-size=-16", "block_size", "1"),
    ("--stream-interval=0", "stream_interval", "1"),
    ("--long-prefill-token-threshold=-4", "long_prefill_token_threshold", "0"),
    ("--gpu-memory-utilization=5", "gpu_memory_utilization", "1"),
    ("--gpu-memory-utilization=nan", "gpu_memory_utilization", "0"),
]


@pytest.mark.parametrize(("flag", "name", "bound"), OUT_OF_RANGE)
def test_a_value_that_no_engine_could_run_with_is_refused(flag: str, name: str, bound: str) -> None:
    with pytest.raises(ValueError, match=rf"1 validation error for \w+\n{name}\n  Input should be .* {bound} \["):
        build(flag)


def test_a_step_without_chunks_must_hold_a_whole_prompt() -> None:
    with pytest.raises(ValueError, match="smaller than max_model_len"):
        build("--no-enable-chunked-prefill", "--max-num-batched-tokens", "256", "--max-model-len", "4096")
    build("--no-enable-chunked-prefill", "--max-num-batched-tokens", "4096", "--max-model-len", "4096")


def test_the_way_out_that_an_error_names_is_one() -> None:
    with pytest.raises(ValueError, match="VLLM_ALLOW_LONG_MAX_MODEL_LEN=1"):
        build("--max-model-len", "40000")
    assert build("--max-model-len", "40000", VLLM_ALLOW_LONG_MAX_MODEL_LEN="1").max_model_len == 40000


NGRAM = {"method": "ngram", "num_speculative_tokens": 5}
SPECULATION = [
    ({**NGRAM, "prompt_lookup_mx": 2}, ValueError, "prompt_lookup_mx\n  Unexpected keyword argument"),
    ({**NGRAM, "prompt_lookup_max": "x"}, ValueError, "Input should be a valid integer"),
    ({**NGRAM, "rejection_sample_method": "synthetic"}, NotSimulated, "rejection_sample_method"),
    ({**NGRAM, "disable_padded_drafter_batch": True}, NotSimulated, "disable_padded_drafter_batch"),
    ({"prompt_lookup_max": 4}, ValueError, "num_speculative_tokens must be provided with"),
    ({"num_speculative_tokens": 4}, ValueError, "num_speculative_tokens was provided but without"),
    (5, ValueError, "Input should be a dictionary"),
    ([1], ValueError, "Input should be a dictionary"),
]


@pytest.mark.parametrize(("given", "kind", "words"), SPECULATION, ids=[json.dumps(one[0]) for one in SPECULATION])
def test_no_field_of_a_speculative_configuration_is_passed_over(
    given: object, kind: type[ValueError], words: str
) -> None:
    with pytest.raises(kind, match=words) as caught:
        build("--speculative-config", json.dumps(given))
    assert type(caught.value) is kind


def test_fields_with_the_value_that_changes_nothing_are_taken() -> None:
    same = {**NGRAM, "rejection_sample_method": "standard", "disable_padded_drafter_batch": False, "revision": None}
    assert build("--speculative-config", json.dumps(same)).speculation is not None


FIELDS = [
    {"temperature": 0.7},
    {"frequency_penalty": 0.5},
    {"repetition_penalty": 1.1},
    {"bad_words": ["x"]},
    {"response_format": {"type": "json_object"}},
    {"tools": [{"type": "function"}]},
]


@pytest.mark.parametrize("fields", FIELDS, ids=[next(iter(one)) for one in FIELDS])
def test_a_field_that_would_change_the_text_is_refused_and_not_ignored(
    off: EngineProcess, fields: dict[str, object]
) -> None:
    reply = off.chat(**fields)
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == next(iter(fields))
    assert reply.json()["error"]["message"].startswith("The embedded engine")


def test_values_that_change_nothing_and_unknown_fields_are_taken(off: EngineProcess) -> None:
    same = {"frequency_penalty": 0.0, "repetition_penalty": 1.0, "tools": None, "response_format": {"type": "text"}}
    assert off.chat(max_tokens=2, nobody_knows=1, **same).status_code == 200
