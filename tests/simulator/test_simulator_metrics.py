"""GET /metrics: its surface against a scrape of vLLM 0.26.0, and what the values must add up to."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable

import pytest
from prometheus_client.parser import text_string_to_metric_families
from simulator_process import FIXTURES, REPEAT, SPECULATION, EngineProcess

# Differences that are allowed, each with its reason.
ALLOWED = {
    # Names of the process, not of the engine: interpreter version and the model's name are values of labels.
    "python_info",
}
Surface = dict[str, tuple[str, str, frozenset[tuple[tuple[str, str], ...]]]]


def surface(text: str) -> Surface:
    """Per metric: type, help, and the set of its samples' names and labels (without values)."""
    found: Surface = {}
    for family in text_string_to_metric_families(text):
        samples = frozenset((("", sample.name), *sorted(sample.labels.items())) for sample in family.samples)
        found[family.name] = (family.type, family.documentation, samples)
    return found


@pytest.mark.parametrize("arm", ["on", "off"])
def test_surface_equals_the_recording(start: Callable[..., EngineProcess], arm: str) -> None:
    engine = start("--max-num-batched-tokens", "2048", *(SPECULATION if arm == "on" else ())).ready()
    engine.chat()
    engine.http.get("/v1/models")
    mine = surface(engine.http.get("/metrics").text)
    theirs = surface((FIXTURES / f"{arm}.prom").read_text("utf-8").replace('"qwen2.5-3b"', '"m"'))
    assert list(mine) == list(theirs)  # the same metrics in the same order
    for name in theirs.keys() - ALLOWED:
        if name == "vllm:cache_config_info":  # label values are this engine's own cache
            (one,), (other,) = mine[name][2], theirs[name][2]
            assert [label for label, _ in one] == [label for label, _ in other]
        else:
            assert mine[name] == theirs[name], name


def test_raw_lines_are_written_as_recorded(on: EngineProcess) -> None:
    response = on.http.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=1.0.0")
    kinds = {line.split("{")[0] for line in response.text.splitlines() if line.startswith("vllm:")}
    recorded = (FIXTURES / "on.prom").read_text("utf-8")
    assert kinds == {line.split("{")[0] for line in recorded.splitlines() if line.startswith("vllm:")}


def test_everything_starts_at_zero(start: Callable[..., EngineProcess]) -> None:
    engine = start(*SPECULATION).ready()
    for name, value in engine.series().items():
        if name.startswith("vllm:") and "_created" not in name:
            awake = 'sleep_state="awake"' in name or name.startswith("vllm:cache_config_info")
            assert value == awake, name
    assert not [name for name in engine.series() if name.startswith("http_requests")]


def test_no_draft_series_without_speculation(off: EngineProcess) -> None:
    assert "spec_decode" not in off.http.get("/metrics").text


def test_no_engine_series_without_log_stats(start: Callable[..., EngineProcess]) -> None:
    engine = start("--disable-log-stats").ready()
    engine.chat(max_tokens=1)
    text = engine.http.get("/metrics").text
    assert "vllm:" not in text
    assert "http_requests_total" in text


def delta(engine: EngineProcess, work: Callable[[], object]) -> Callable[..., float]:
    before = engine.series()
    work()
    after = engine.series()

    def moved(name: str, **labels: str) -> float:
        given = {"engine": "0", "model_name": "m", **labels}
        key = f"vllm:{name}{{" + ",".join(f'{label}="{given[label]}"' for label in sorted(given)) + "}"
        return after[key] - before[key]

    return moved


def test_sums_of_requests(on: EngineProcess) -> None:
    replies = []

    def work() -> None:
        for prompt in (REPEAT, REPEAT, "Hello", "Good morning"):
            replies.append(on.chat(prompt, max_tokens=100).json())

    moved = delta(on, work)
    generated = sum(reply["usage"]["completion_tokens"] for reply in replies)
    prompts = sum(reply["usage"]["prompt_tokens"] for reply in replies)
    stopped = sum(reply["choices"][0]["finish_reason"] == "stop" for reply in replies)
    assert 0 < stopped < 4
    assert moved("request_success_total", finished_reason="stop") == stopped
    assert moved("request_success_total", finished_reason="length") == 4 - stopped
    for name in (
        "time_to_first_token_seconds", "e2e_request_latency_seconds", "request_queue_time_seconds",
        "request_prefill_time_seconds", "request_decode_time_seconds", "request_inference_time_seconds",
        "request_params_n", "request_time_per_output_token_seconds", "request_prompt_tokens",
    ):  # fmt: skip
        assert moved(f"{name}_count") == 4, name
    assert moved("prompt_tokens_total") == moved("request_prompt_tokens_sum") == prompts
    assert moved("prefix_cache_queries_total") == prompts
    local = moved("prompt_tokens_by_source_total", source="local_compute")
    cached = moved("prompt_tokens_by_source_total", source="local_cache_hit")
    assert local + cached == prompts
    assert local == moved("request_prefill_kv_computed_tokens_sum")
    assert cached == moved("prefix_cache_hits_total") == moved("prompt_tokens_cached_total") > 0
    assert moved("generation_tokens_total") == moved("request_generation_tokens_sum") == generated
    assert moved("request_params_max_tokens_sum") == 400
    assert moved("iteration_tokens_total_sum") == local + generated
    # Steps: one first token each, then one interval a decode step; accepted drafts make up the rest.
    accepted = moved("spec_decode_num_accepted_tokens_total")
    steps = moved("inter_token_latency_seconds_count")
    assert generated <= 4 + steps + accepted
    assert generated >= 4 + steps + accepted - 4 * 5  # at most K trimmed a request
    whole = moved("e2e_request_latency_seconds_sum")
    parts = moved("request_queue_time_seconds_sum") + moved("request_inference_time_seconds_sum")
    assert parts == pytest.approx(whole, abs=1e-6)


def test_tokens_per_decode_step_follow_from_the_text(on: EngineProcess) -> None:
    moved = delta(on, on.chat)
    per_step = (moved("generation_tokens_total") - 1) / moved("inter_token_latency_seconds_count")
    assert 1.8 <= per_step <= 2.3
    moved = delta(on, lambda: on.chat("Tell me about the sea.", max_tokens=100))
    assert moved("inter_token_latency_seconds_count") == moved("generation_tokens_total") - 1
    assert moved("spec_decode_num_drafts_total") == 0


def test_queue_beyond_max_num_seqs(start: Callable[..., EngineProcess]) -> None:
    engine = start("--max-num-seqs", "2", scale="0.5").ready()
    clients = [threading.Thread(target=engine.chat, kwargs={"max_tokens": 20}) for _ in range(5)]
    for client in clients:
        client.start()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and engine.metric("num_requests_waiting") != 3:
        time.sleep(0.01)
    assert engine.metric("num_requests_running") == 2
    assert engine.metric("num_requests_waiting_by_reason", reason="capacity") == 3
    assert engine.metric("num_requests_waiting_by_reason", reason="deferred") == 0
    assert engine.metric("kv_cache_usage_perc") > 0
    for client in clients:
        client.join()
    assert engine.metric("num_requests_running") == engine.metric("num_requests_waiting") == 0
    assert engine.metric("request_queue_time_seconds_sum") > 0


def test_http_metrics_exclude_probes(start: Callable[..., EngineProcess]) -> None:
    engine = start().ready()
    for path in ("/health", "/metrics", "/version", "/ping", "/load", "/nope"):
        engine.http.get(path)
    engine.chat(max_tokens=1)
    engine.chat(max_tokens=-1)
    text = engine.http.get("/metrics").text
    counted = dict(re.findall(r"^http_requests_total\{(.*)\} (\S+)$", text, re.MULTILINE))
    assert counted == {
        'handler="none",method="GET",status="4xx"': "1.0",
        'handler="/v1/chat/completions",method="POST",status="2xx"': "1.0",
        'handler="/v1/chat/completions",method="POST",status="4xx"': "1.0",
    }
