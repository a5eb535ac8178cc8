"""GET /metrics: what the values must add up to; names, types, labels and buckets are tests/fidelity's."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable

import pytest
from simulator_process import REPEAT, SPECULATION, EngineProcess


def test_content_type(on: EngineProcess) -> None:
    assert on.http.get("/metrics").headers["content-type"].startswith("text/plain; version=1.0.0")


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


def test_what_later_releases_count(start: Callable[..., EngineProcess]) -> None:
    # Six blocks of 128: five requests of three blocks each push one another out.
    flags = ("--num-gpu-blocks-override", "6", "--max-model-len", "400", "--max-num-seqs", "5")
    engine = start(*flags, SIMULATOR_VERSION="0.32.0", SIMULATOR_PROFILE="cpu").ready()
    clients = [
        threading.Thread(target=engine.chat, args=(REPEAT,), kwargs={"max_tokens": 250, "ignore_eos": True})
        for _ in range(5)
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    engine.chat("x " * 200, max_tokens=1)
    engine.chat("x " * 200, max_tokens=1)
    preempted = engine.metric("num_preemptions_total")
    assert preempted > 0
    assert engine.metric("request_num_preemptions_count") == 7
    assert engine.metric("request_num_preemptions_sum") == preempted
    hits = engine.metric("prefix_cache_hits_total")
    assert engine.metric("prompt_tokens_cached_by_source_total", source="device") == hits > 0
    assert engine.metric("prompt_tokens_cached_by_source_total", source="disk") == 0


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
