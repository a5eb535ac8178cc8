"""Start-up logs: every recorded one whole, against a table written by hand from the READMEs and the logs."""

from __future__ import annotations

import random
from typing import Any

import pytest
from engine_recorded import CRASHES, LOGS, text

from runner.engine.failure import cause
from runner.engine.log import LogEvidence, Speculative, read_log
from runner.engine.log_line import MAX_LINE
from runner.engine.printed import Repr, read_value

NGRAM = Speculative(method="ngram", model=None, tokens=5)
ASYNC_OFF = "Async scheduling not supported with ngram-based speculative decoding and will be disabled."
V1_NGRAM = "Model Runner V2 does not yet support ngram/ngram_gpu speculative decoding"
V1_TRITON = "Model Runner V2 requires Triton"
OPTIONS = ("min_p", "logit_bias")


def on(**more: Any) -> dict[str, Any]:
    return {
        "speculative": NGRAM,
        "speculative_off": False,
        "async_scheduling": "disabled",
        "async_reason": ASYNC_OFF,
        "model_runner": "V1",
        "model_runner_reason": V1_NGRAM,
        "unsupported_sampling": OPTIONS,
    } | more


def off(**more: Any) -> dict[str, Any]:
    return {
        "speculative": None,
        "speculative_off": True,
        "async_scheduling": "enabled",
        "async_reason": None,
        "model_runner": "V2",
        "model_runner_reason": None,
        "unsupported_sampling": (),
        "max_num_scheduled_tokens": None,
    } | more


def cpu(arm: dict[str, Any], version: str, **more: Any) -> dict[str, Any]:
    """What a CPU build cannot print is absent. Its off arm runs the V1 runner too, for want of Triton."""
    return arm | {
        "version": version,
        "model_runner": "V1",
        "model_runner_reason": V1_TRITON,
        "max_num_batched_tokens": None,
        "model_memory_gib": None,
        "kv_cache_tokens": 65536,
        "max_concurrency": 32.0,
        **more,
    }


Q3B = {"version": "0.26.0", "kv_cache_tokens": 701344, "max_concurrency": 171.23, "model_memory_gib": 5.79}
GEMMA = {"version": "0.26.0", "kv_cache_tokens": 1730997, "max_concurrency": 422.61, "model_memory_gib": 0.53}
DEFAULT = {"max_num_batched_tokens": 8192, "max_num_scheduled_tokens": None}
B2048 = Q3B | {"max_num_batched_tokens": None, "kv_cache_tokens": 715056, "max_concurrency": 174.57}

EXPECTED: dict[str, dict[str, Any]] = {
    # the API server says "enabled", then the engine's own process "disabled"
    "cpu/0.26.0-cpu-tiny/off/server.log": cpu(off(async_scheduling="disabled"), "0.26.0"),
    "cpu/0.26.0-cpu-tiny/on/server.log": cpu(on(max_num_scheduled_tokens=2048), "0.26.0"),
    # this version says nothing where async scheduling is on
    "cpu/0.32.0-cpu-tiny/off/server.log": cpu(off(async_scheduling=None), "0.32.0"),
    "cpu/0.32.0-cpu-tiny/on/server.log": cpu(on(max_num_scheduled_tokens=2048), "0.32.0"),
    "h200/q3b-off/startup.log": off(**Q3B, max_num_batched_tokens=8192),
    "h200/q3b-on/startup.log": on(**Q3B, **DEFAULT),
    "h200/q3b-on-b16384/startup.log": on(
        **Q3B | {"kv_cache_tokens": 683024, "max_concurrency": 166.75},
        max_num_batched_tokens=16384,
        max_num_scheduled_tokens=None,
    ),
    "h200/q3b-off-noasync/startup.log": off(**Q3B, max_num_batched_tokens=8192, async_scheduling="disabled"),
    "h200/gemma-off/startup.log": off(**GEMMA, max_num_batched_tokens=8192),
    "h200/gemma-off-2/startup.log": off(**GEMMA, max_num_batched_tokens=8192),
    "h200/gemma-on/startup.log": on(**GEMMA, **DEFAULT),
    "h200-b2048/off-a/startup.log": off(**B2048),
    "h200-b2048/on-a/startup.log": on(**B2048, max_num_scheduled_tokens=2048),
    # an environment variable chose the runner: no line gives a reason
    "h200-b2048/off-v1-async/startup.log": off(**B2048, model_runner="V1"),
    "h200-b2048/off-v1-noasync/startup.log": off(
        **B2048 | {"kv_cache_tokens": 717040, "max_concurrency": 175.06},
        model_runner="V1",
        async_scheduling="disabled",
    ),
    # stopped before it had a device
    "h200/config-stage-b2048-no-gpu.log": on(
        version="0.26.0",
        max_num_batched_tokens=None,
        max_num_scheduled_tokens=2048,
        unsupported_sampling=(),
        kv_cache_tokens=None,
        max_concurrency=None,
        model_memory_gib=None,
        startup_complete=False,
    ),
}


def test_no_recorded_log_is_left_out() -> None:
    assert sorted(EXPECTED) == LOGS
    assert sorted(DEATHS) == CRASHES


DEATHS = {
    # What a person would quote of each: its last error, and the one that caused it where that is another.
    "crashes/unknown-flag.log": ["vllm: error: unrecognized arguments: --max-num-seq-s 8"],
    "crashes/bad-value.log": ["vllm serve: error: argument --max-num-seqs: invalid int value: 'many'"],
    "crashes/model-not-found.log": ["huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an"],
    "crashes/model-path-missing.log": ["huggingface_hub.errors.HFValidationError: Repo id must be in the form"],
    "crashes/spec-tokens-alone.log": [
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for SpeculativeConfig: "
        "Value error, num_speculative_tokens was provided but without speculative model."
    ],
    "crashes/broken-weights.log": [
        "safetensors._safetensors_rust.SafetensorError: Error while deserializing header",
        "RuntimeError: Engine core initialization failed. See root cause above.",
    ],
    "crashes/cuda-out-of-memory.log": [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 5.56 GiB.",
        "RuntimeError: Engine core initialization failed. See root cause above.",
    ],
    "crashes/gpu-memory-taken.log": [
        "ValueError: Free memory on device cuda:0 (17.91/139.8 GiB) on startup is less than desired GPU memory "
        "utilization (0.92, 128.62 GiB).",
        "RuntimeError: Engine core initialization failed. See root cause above.",
    ],
    "crashes/engine-core-killed.log": [
        "AsyncLLM output_handler failed.",
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
    ],
}
CAUSES = {
    "crashes/unknown-flag.log": "its command line was refused",
    "crashes/bad-value.log": "its command line was refused",
    "crashes/cuda-out-of-memory.log": "it ran out of GPU memory",
    "crashes/gpu-memory-taken.log": "too little GPU memory was free, so others hold it",
    "crashes/engine-core-killed.log": "its core process died",
}


@pytest.mark.parametrize("name", CRASHES)
def test_the_words_of_every_recorded_death_are_found(name: str) -> None:
    evidence = read_log(text(name).splitlines())
    assert evidence.startup_complete is (name == "crashes/engine-core-killed.log")
    for words in DEATHS[name]:
        assert any(error.startswith(words) for error in evidence.errors), evidence.errors
    assert evidence.errors[-1].startswith(DEATHS[name][-1])


@pytest.mark.parametrize("name", CRASHES)
def test_a_known_cause_of_a_recorded_death_is_named_and_no_other(name: str) -> None:
    assert cause(read_log(text(name).splitlines()).errors) == CAUSES.get(name)


@pytest.mark.parametrize("name", LOGS)
def test_every_recorded_log_is_read_whole(name: str) -> None:
    evidence = read_log(text(name).splitlines())
    for field, value in ({"startup_complete": True, "errors": ()} | EXPECTED[name]).items():
        assert getattr(evidence, field) == value, field
        if value not in (None, (), False) and field not in ("speculative_off", "errors"):
            assert evidence.quotes[field]
    assert evidence.engine_config is not None
    assert evidence.non_default_args is not None
    assert evidence.engine_config["served_model_name"] in evidence.non_default_args["served_model_name"]
    assert evidence.engine_config["enforce_eager"] == "True"
    assert evidence.engine_config["enable_chunked_prefill"] == "True"
    assert list(evidence.engine_config)[-1] == "kernel_config"
    assert evidence.non_default_args["max_num_seqs"] == (4 if name.startswith("cpu/") else 16)
    assert evidence.non_default_args.get("spec_tokens") == (5 if evidence.speculative else None)


def test_a_quote_has_no_time_and_no_process() -> None:
    quotes = read_log(text("h200/q3b-on/startup.log").splitlines()).quotes
    assert quotes["async_reason"] == f"WARNING [vllm.py] {ASYNC_OFF}"
    assert quotes["kv_cache_tokens"] == "INFO [kv_cache_utils.py] GPU KV cache size: 701,344 tokens"
    assert quotes["startup_complete"] == "INFO Application startup complete."
    assert quotes["speculative"] == (
        "speculative_config=SpeculativeConfig(method='ngram', model=None, num_spec_tokens=5)"
    )
    assert quotes["non_default_args"].endswith("'spec_tokens': 5}")


def test_an_empty_log_says_nothing() -> None:
    assert read_log([]) == LogEvidence()


def test_the_words_of_0_33() -> None:
    evidence = read_log(
        [
            "(APIServer pid=1) INFO 11-30 00:00:00 [startup.py:96] non-default args: {'api_key': '***'}",
            "(EngineCore pid=2) WARNING 11-30 00:00:00 [vllm.py:1] Async scheduling is disabled because the "
            "V1 model runner does not support it with ngram-based speculative decoding.",
            "(MainProcess pid=3) INFO 11-30 00:00:00 [gpu_worker.py:513] Using V2 Model Runner",
            "(MainProcess pid=3) INFO 11-30 00:00:00 [model_runner.py:428] Model loading took 1.5 GiB memory "
            "and 2.000000 seconds",
            "(EngineCore pid=2) INFO 11-30 00:00:00 [kv_cache_utils.py:1] GPU + host KV cache size: 1,024 "
            "tokens, Maximum concurrency for 512 tokens per request: 2.00x",
            "INFO:     Application startup complete.",
        ]
    )
    assert evidence.async_scheduling == "disabled"
    assert evidence.async_reason is not None and "V1 model runner does not support it" in evidence.async_reason
    assert (evidence.model_runner, evidence.model_memory_gib) == ("V2", 1.5)
    assert (evidence.kv_cache_tokens, evidence.max_concurrency) == (1024, 2.0)
    assert evidence.non_default_args == {"api_key": "***"}
    assert evidence.startup_complete


def test_the_runner_that_is_named_counts_more_than_the_file_that_loads() -> None:
    loads = "(EngineCore pid=2) INFO 11-30 00:00:00 [gpu_model_runner.py:1] Starting to load model /m..."
    names = "(EngineCore pid=2) INFO 11-30 00:00:00 [gpu_worker.py:1] Using V2 Model Runner"
    assert read_log([loads]).model_runner == "V1"
    assert read_log([names, loads]).model_runner == read_log([loads, names]).model_runner == "V2"


def test_a_json_formatter() -> None:
    line = '{"levelname": "INFO", "filename": "gpu_worker.py", "message": "Using V2 Model Runner"}'
    assert read_log([line]).model_runner == "V2"


def test_arguments_that_hold_what_is_no_literal() -> None:
    line = (
        "INFO 11-30 00:00:00 [a.py:1] non-default args: {'model': 'a,}b', 'x': Config(a=1, b='}'), "
        "'mode': <M.NONE: 0>, 'inner': {'p': D(q=[1]), 'r': 2}, 'l': [1, E(2)], 'spec_tokens': 5}"
    )
    args = read_log([line]).non_default_args
    assert args == {
        "model": "a,}b",
        "x": "Config(a=1, b='}')",
        "mode": "<M.NONE: 0>",
        "inner": {"p": "D(q=[1])", "r": 2},
        "l": [1, "E(2)"],
        "spec_tokens": 5,
    }
    assert isinstance(args["x"], Repr)
    assert isinstance(args["inner"]["p"], Repr)
    assert isinstance(read_value("((((("), Repr)


def test_a_line_that_is_cut_gives_no_arguments() -> None:
    line = "INFO 11-30 00:00:00 [a.py:1] non-default args: {'a': 1" + " " * MAX_LINE + "}"
    assert read_log([line]).non_default_args is None


def test_the_last_start_of_a_log_counts() -> None:
    evidence = read_log(
        text("h200/q3b-on/startup.log").splitlines() + text("h200/config-stage-b2048-no-gpu.log").splitlines()
    )
    assert not evidence.startup_complete
    assert evidence.kv_cache_tokens is None
    assert evidence.unsupported_sampling == ()


def test_what_a_client_sent_is_no_evidence() -> None:
    lines = text("h200/q3b-off/startup.log").splitlines()
    echoed = "(APIServer pid=1) INFO 11-30 00:00:00 [logger.py:39] Asynchronous scheduling is disabled."
    assert read_log([*lines, echoed]).async_scheduling == "enabled"


# ------------------------------------------------------------------------------------------------------
# Failures


def logged(*messages: str, process: str = "EngineCore pid=2", level: str = "ERROR") -> list[str]:
    return [f"({process}) {level} 11-30 00:00:00 [core.py:1] {message}" for message in messages]


TRACEBACK = (
    "Traceback (most recent call last):",
    '  File "/site-packages/vllm/v1/engine/core.py", line 1, in f',
    "    raise ValueError(",
    "          ^^^^^^^^^^^",
)


def test_the_last_line_of_a_traceback_is_the_error() -> None:
    oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    lines = logged("EngineCore failed to start.", *TRACEBACK, oom)
    # another process fails in between, unlogged
    lines[3:3] = [f"(APIServer pid=1) {line}" for line in (*TRACEBACK, "RuntimeError: initialization failed")]
    found = read_log(lines).errors
    assert found == ("EngineCore failed to start.", "RuntimeError: initialization failed", oom)


@pytest.mark.parametrize(
    "line",
    [
        "vllm serve: error: unrecognized arguments: --disable-log-requests",
        "api_server.py: error: argument --spec-tokens: invalid int value: 'x'",
        "ValueError: max_num_batched_tokens (8) must be greater than max_num_seqs (16)",
        "vllm.exceptions.VLLMValidationError: no",
    ],
)
def test_errors_outside_a_traceback(line: str) -> None:
    assert read_log(["usage: vllm serve [model_tag] [options]", line]).errors == (line,)
    assert read_log([f"(APIServer pid=7) {line}"]).errors == (line,)


def test_pydantic_tells_on_the_line_after() -> None:
    lines = [
        *TRACEBACK,
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for SpeculativeConfig",
        "  Value error, num_speculative_tokens was provided but without speculative model. [type=value]",
        "    For further information visit https://errors.pydantic.dev",
    ]
    assert read_log(lines).errors == (
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for SpeculativeConfig: "
        "Value error, num_speculative_tokens was provided but without speculative model.",
    )


def test_after_the_start_a_refused_request_is_no_failure_and_a_dead_engine_is() -> None:
    start = text("h200/q3b-off/startup.log").split("(APIServer pid=1285) INFO 11-30 00:07:21 [launcher.py:100]")[0]
    assert "ValueError: Cannot apply chat template" in start
    assert read_log(start.splitlines()).errors == ()
    dead = "RuntimeError: CUDA error: an illegal memory access was encountered"
    died = logged("EngineCore encountered a fatal error.", *TRACEBACK, dead)
    assert read_log([*start.splitlines(), *died]).errors == ("EngineCore encountered a fatal error.", dead)


def test_after_a_stop_began_nothing_is_an_error() -> None:
    log = text("cpu/0.32.0-cpu-tiny/off/server.log")
    assert "EngineDeadError" in log.split("shutdown triggered")[1]
    assert read_log(log.splitlines()).errors == ()
    assert read_log(log.replace("[shutdown]", "[x]").splitlines()).errors != ()


def test_any_text_is_read_without_an_exception() -> None:
    rng = random.Random(7)
    pieces = [
        "non-default args: {",
        "'",
        "\\",
        "}",
        "(",
        "a pid=1) ",
        "INFO 11-30 00:00:00 [",
        "] ",
        "\x1b[",
        "=",
        ",",
    ]
    pieces += [
        "Initializing a V1 LLM engine (v1) with config: ",
        "Traceback (most recent call last)",
        "\n",
        " ",
        "{",
    ]
    for _ in range(2000):
        read_log(["".join(rng.choices(pieces, k=12))])
