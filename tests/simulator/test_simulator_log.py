"""What the log says of arguments, releases and refusals, and how the process ends; its form is tests/fidelity's."""

from __future__ import annotations

import ast
import re
import socket
from collections.abc import Callable
from typing import Any

import pytest
from simulator_process import SPECULATION, EngineProcess


def arguments(engine: EngineProcess) -> dict[str, Any]:
    found = engine.wait_for(r"non-default args: (\{.*\})")
    parsed = ast.literal_eval(found.group(1))
    assert isinstance(parsed, dict)
    return parsed


def test_default_limits_and_chunked_prefill_line(start: Callable[..., EngineProcess]) -> None:
    engine = start("--max_num_batched_tokens=4k", "--no-enable-prefix-caching", "--dtype", "half").ready()
    engine.wait_for(r"Chunked prefill is enabled with max_num_batched_tokens=4000\.")
    assert arguments(engine)["enable_prefix_caching"] is False
    engine.wait_for(r"dtype=torch\.float16.*enable_prefix_caching=False")
    assert 'enable_prefix_caching="False"' in engine.http.get("/metrics").text


def test_dotted_words_are_shown_as_one_dictionary(start: Callable[..., EngineProcess]) -> None:
    engine = start(
        "--speculative-config.method", "ngram", "--speculative_config.num-speculative-tokens", "3",
        "--served-model-name", "a", "b",
    )  # fmt: skip
    engine.ready()
    shown = arguments(engine)
    assert shown["speculative_config"] == {"method": "ngram", "num-speculative-tokens": 3}
    assert shown["served_model_name"] == ["a", "b"]
    names = [item["id"] for item in engine.http.get("/v1/models").json()["data"]]
    assert names == ["a", "b"]
    assert 'model_name="a"' in engine.http.get("/metrics").text


@pytest.mark.parametrize(
    ("flags", "environment", "lines"),
    [
        ((), {"VLLM_USE_V2_MODEL_RUNNER": "0"}, ("Starting to load model", "scheduling is enabled")),
        (("--no-async-scheduling",), {}, ("Using V2 Model Runner", "scheduling is disabled")),
        (
            ("--spec-method", "ngram_gpu", "--spec-tokens", "2"),
            {},
            ("scheduling is enabled", "Disabling cascade attention", r"method='ngram_gpu', model='some/model'"),
        ),
    ],
)
def test_runner_and_scheduling_lines(
    start: Callable[..., EngineProcess],
    flags: tuple[str, ...],
    environment: dict[str, str],
    lines: tuple[str, ...],
) -> None:
    engine = start(*flags, **environment).ready()
    for line in lines:
        assert re.search(line, engine.text), line
    assert ("Using V2 Model Runner" in engine.text) == ("Starting to load model" not in engine.text)


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (("--foo",), 2, r"(?m)^vllm: error: unrecognized arguments: --foo$"),
        (("--max-num-seqs", "many"), 2, "argument --max-num-seqs: invalid int value: 'many'"),
        (("--spec-method", "magic"), 2, "argument --spec-method: invalid choice: 'magic'"),
        (("--spec-tokens", "5"), 1, "Value error, num_speculative_tokens was provided but without speculative model."),
        (("--spec-method", "ngram"), 1, "Value error, num_speculative_tokens must be provided with"),
        (
            (*SPECULATION, "-sc", '{"num_speculative_tokens": 4}'),
            1,
            r"--spec-tokens and --speculative-config\['num_speculative_tokens'\] are mutually exclusive",
        ),
        ((*SPECULATION, "--async-scheduling"), 1, "ValueError: .*async scheduling is only supported"),
        ((*SPECULATION, "-sc.prompt_lookup_min=6", "-sc.prompt_lookup_max=2"), 1, "must be <= prompt_lookup_max=2"),
        (("--max-num-batched-tokens", "8"), 1, r"max_num_batched_tokens \(8\) must be greater than"),
        (("--gpu-memory-utilization", "0.05"), 1, "No available memory for the cache blocks"),
        (("--num-gpu-blocks-override", "9"), 1, "To serve at least one request"),
        (("--spec-method", "eagle", "--spec-tokens", "2", "--spec-model", "x"), 1, "does not simulate"),
    ],
)
def test_refused_arguments(
    start: Callable[..., EngineProcess], flags: tuple[str, ...], code: int, message: str
) -> None:
    engine = start(*flags)
    assert engine.process.wait(10) == code
    engine.wait_for(message)
    assert "Starting vLLM server" not in engine.text


@pytest.mark.parametrize(
    ("version", "profile", "device"),
    [("0.26.0", "article", "GPU"), ("0.26.0", "cpu", "GPU"), ("0.32.0", "cpu", "CPU"), ("0.33.0", "article", "GPU")],
)
def test_words_of_a_release(start: Callable[..., EngineProcess], version: str, profile: str, device: str) -> None:
    """0.33.0 was never recorded: this is what a reading of its source says."""
    switches = {"SIMULATOR_VERSION": version, "SIMULATOR_PROFILE": profile, "VLLM_LOG_STATS_INTERVAL": "0.1"}
    engine = start(*SPECULATION, "--max-model-len", "2048", **switches).ready()
    engine.chat(max_tokens=8)
    engine.wait_for(rf"{device} KV cache usage: [\d.]+%, Prefix cache hit rate: 0.0%")
    first = version == "0.26.0"
    size = rf"\] {device} KV cache size: [\d,]+ tokens"
    concurrency = r"Maximum concurrency for 2,048 tokens per request: [\d.]+x"
    assert re.search(rf"{size}\n.*\] {concurrency}\n" if first else rf"{size}, {concurrency}\n", engine.text)
    assert bool(re.search(r"(?m)^INFO:     Started server process", engine.text)) != first
    assert ("Asynchronous scheduling is" in engine.text) == first
    assert ("num_speculative_tokens or max_num_seqs." in engine.text) == first
    assert f"version {version}" in engine.text
    assert f"V1 LLM engine (v{version})" in engine.text
    assert ("aux_output_config=AuxOutputConfig(" in engine.text) != first
    assert bool(re.search(r"Model loading took 1\.95 GiB memory and", engine.text)) == (profile == "article")


def test_v2_runner_cannot_be_forced_on_ngram(start: Callable[..., EngineProcess]) -> None:
    engine = start(*SPECULATION, VLLM_USE_V2_MODEL_RUNNER="1")
    assert engine.process.wait(10) == 1
    engine.wait_for("ValueError: Model Runner V2 does not yet support")


def test_sigterm_ends_quietly_even_with_a_request_in_flight(start: Callable[..., EngineProcess]) -> None:
    engine = start(scale="20").ready()
    with engine.http.stream("POST", "/v1/chat/completions", json={
        "messages": [{"role": "user", "content": "x"}], "stream": True,
    }):  # fmt: skip
        assert engine.stop() == 0
    tail = [line.partition(") ")[2] for line in engine.log if "INFO:     " in line][-3:]
    assert tail[0] == "INFO:     Shutting down"
    assert "INFO:     Application shutdown complete." in tail


def test_port_in_use_is_an_error(start: Callable[..., EngineProcess]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        engine = start("--port", str(taken.getsockname()[1]))
        assert engine.process.wait(10) == 1
        engine.wait_for("Address already in use")


def test_access_lines_and_their_switch(start: Callable[..., EngineProcess]) -> None:
    engine = start("--disable-access-log-for-endpoints", "/health,/metrics").ready()
    engine.http.get("/health")
    engine.http.get("/metrics?x=1")
    engine.http.get("/version")
    engine.wait_for(r'\(APIServer pid=\d+\) INFO:     127\.0\.0\.1:\d+ - "GET /version HTTP/1\.1" 200 OK')
    assert "/health HTTP" not in engine.text
    assert "/metrics" not in engine.text.partition("Application startup complete")[2]
