"""Each fault on demand: what it does, and that it does it only where it was asked to."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from simulator_process import REPEAT, SENTENCE, SPECULATION, EngineProcess

from runner.simulator import faults

Start = Callable[..., EngineProcess]


@pytest.mark.parametrize(
    ("form", "shown", "configured", "series"),
    [
        ("neither", False, False, False),
        ("parsed-only", True, False, False),
        ("flat-counters", True, True, True),
        (None, True, True, True),
    ],
)
def test_ignored_speculation(start: Start, form: str | None, shown: bool, configured: bool, series: bool) -> None:
    fault = [{"kind": "flag-ignored", "flag": "speculative", "form": form}] if form else []
    engine = start(*SPECULATION, faults=fault).ready()
    reply = engine.chat().json()
    assert reply["usage"]["completion_tokens"] == 68
    assert ("'spec_method': 'ngram', 'spec_tokens': 5" in engine.text) == shown
    assert ("method='ngram', model=None, num_spec_tokens=5" in engine.text) == configured
    assert ("speculative_config=None" in engine.text) != configured
    found = engine.series()
    drafts = [value for name, value in found.items() if "spec_decode_num_drafts_total" in name]
    assert len(drafts) == series
    if drafts:
        assert (drafts[0] > 0) == (form is None)
    decode_steps = engine.metric("inter_token_latency_seconds_count")
    assert (decode_steps < 67) == (form is None)


@pytest.mark.parametrize(("form", "shown"), [("neither", False), ("parsed-only", True)])
def test_ignored_ordinary_flag(start: Start, form: str, shown: bool) -> None:
    fault = [{"kind": "flag-ignored", "flag": "max-num-seqs", "form": form}]
    engine = start(faults=fault, VLLM_SERVER_DEV_MODE="1").ready()
    assert ("'max_num_seqs': 16" in engine.text) == shown
    info = engine.http.get("/server_info", params={"config_format": "json"}).json()
    assert info["vllm_config"]["scheduler_config"]["max_num_seqs"] == 256


def ids(reply: httpx.Response) -> list[int]:
    tokens: list[int] = reply.json()["choices"][0]["token_ids"]
    return tokens


def test_different_text(start: Start, off: EngineProcess) -> None:
    engine = start(faults=[{"kind": "different-text", "token": 20, "every": 2}]).ready()
    usual = ids(off.chat(return_token_ids=True))
    first, second = (ids(engine.chat(return_token_ids=True)) for _ in range(2))
    assert first == usual
    assert second[:20] == usual[:20]
    assert second[20] != usual[20]


def test_missing_series(start: Start) -> None:
    engine = start(faults=[{"kind": "missing-series", "name": "vllm:prompt_tokens"}]).ready()
    text = engine.http.get("/metrics").text
    assert "vllm:prompt_tokens_total" not in text
    assert "vllm:prompt_tokens_created" not in text
    assert "vllm:prompt_tokens_by_source_total" in text
    assert "vllm:request_prompt_tokens_bucket" in text


def test_lying_counter(start: Start) -> None:
    engine = start(faults=[{"kind": "counter-lies", "name": "vllm:generation_tokens_total", "by": 2}]).ready()
    assert engine.metric("generation_tokens_total") == 0
    for _ in range(3):
        engine.chat(max_tokens=10)
    assert engine.metric("generation_tokens_total") == 30 + 3 * 2
    assert engine.metric("request_generation_tokens_sum") == 30


def test_foreign_traffic(start: Start) -> None:
    engine = start(faults=[{"kind": "foreign-traffic", "after_requests": 2, "requests": 3}]).ready()
    engine.chat(max_tokens=5)
    assert engine.metric("e2e_request_latency_seconds_count") == 1
    engine.chat(max_tokens=5)
    deadline = time.monotonic() + 5
    while engine.metric("e2e_request_latency_seconds_count") < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert engine.metric("e2e_request_latency_seconds_count") == 5
    assert 'http_requests_total{handler="/v1/chat/completions",method="POST",status="2xx"} 5.0' in (
        engine.http.get("/metrics").text
    )


@pytest.mark.parametrize("stream", [True, False])
def test_death_mid_stream(start: Start, stream: bool) -> None:
    engine = start(faults=[{"kind": "death-mid-stream", "request": 2, "after_tokens": 10}], scale="0.05").ready()
    assert engine.chat(max_tokens=20).status_code == 200
    received = ""
    with pytest.raises(httpx.TransportError), engine.http.stream(
        "POST", "/v1/chat/completions",
        json={"messages": [{"role": "user", "content": REPEAT}], "stream": stream},
    ) as response:  # fmt: skip
        for text in response.iter_text():
            received += text
    assert engine.process.wait(5) == 1
    assert "[DONE]" not in received
    assert received.count('"content":') == (10 if stream else 0)  # the role and nine tokens
    assert "[shutdown]" not in engine.text


def test_in_band_error(start: Start) -> None:
    engine = start(faults=[{"kind": "in-band-error", "from": 2, "after_tokens": 10}]).ready()
    assert engine.chat(max_tokens=20).status_code == 200
    response = engine.chat(stream=True)
    assert response.status_code == 200
    *_, error, done = response.text.strip().split("\n\n")
    assert done == "data: [DONE]"
    fields = json.loads(error[6:])["error"]
    assert (fields["type"], fields["code"]) == ("InternalServerError", 500)
    plain = engine.chat()
    assert (plain.status_code, plain.json()["error"]["type"]) == (500, "InternalServerError")
    assert engine.metric("num_requests_running") == 0


def test_truncated_stream(start: Start) -> None:
    engine = start(faults=[{"kind": "truncated-stream", "from": 1, "after_tokens": 10}]).ready()
    response = engine.chat(stream=True, stream_options={"include_usage": True})
    assert response.status_code == 200
    events = [json.loads(line[6:]) for line in response.text.strip().split("\n\n")]
    assert len(events) == 10  # the role and nine tokens
    assert not any(event["choices"][0]["finish_reason"] for event in events)
    with pytest.raises(httpx.RemoteProtocolError):
        engine.chat()


def test_malformed_json(start: Start) -> None:
    engine = start(faults=[{"kind": "malformed-json", "from": 2}]).ready()
    engine.chat(max_tokens=3).json()
    broken = engine.chat(max_tokens=3)
    assert broken.status_code == 200
    with pytest.raises(json.JSONDecodeError):
        broken.json()
    events = engine.chat(max_tokens=3, stream=True).text.split("\n\n")
    with pytest.raises(json.JSONDecodeError):
        json.loads(events[0][6:])


@pytest.mark.parametrize("status", [429, 500, 503])
def test_http_error(start: Start, status: int) -> None:
    engine = start(faults=[{"kind": "http-error", "request": 1, "status": status}]).ready()
    refused = engine.chat()
    assert (refused.status_code, refused.json()["error"]["code"]) == (status, status)
    assert engine.metric("prompt_tokens_total") == 0
    assert engine.chat(max_tokens=1).status_code == 200


def test_wrong_model_and_empty(start: Start) -> None:
    engine = start(faults=[{"kind": "wrong-model", "request": 1}, {"kind": "empty", "from": 2}]).ready()
    assert engine.chat(max_tokens=3).json()["model"] == "another-model"
    empty = engine.chat(max_tokens=3).json()
    assert (empty["model"], empty["choices"][0]["message"]["content"]) == ("m", "")
    assert empty["usage"]["completion_tokens"] == 0
    events = engine.chunks(max_tokens=3, stream_options={"include_usage": True})
    assert "".join(event["choices"][0]["delta"]["content"] for event in events[:-1]) == ""
    assert events[-1]["usage"]["completion_tokens"] == 0


def test_stall(start: Start) -> None:
    engine = start(faults=[{"kind": "stall", "request": 1}]).ready()
    with pytest.raises(httpx.ReadTimeout):
        engine.http.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": "x"}]}, timeout=0.4)
    assert engine.chat(max_tokens=1).status_code == 200


def test_slow_drain(start: Start) -> None:
    engine = start(faults=[{"kind": "slow-drain", "seconds": 0.7}]).ready()
    engine.chat(max_tokens=5)
    assert engine.metric("request_success_total", finished_reason="length") == 0
    deadline = time.monotonic() + 5
    while engine.metric("generation_tokens_total") < 5 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert engine.metric("request_success_total", finished_reason="length") == 1


def test_slow_start_refuses_connections_until_ready(start: Start) -> None:
    engine = start("--port", "0", faults=[{"kind": "slow-start", "seconds": 1}])
    engine.wait_for("Initializing a V1 LLM engine")
    assert "Starting vLLM server" not in engine.text
    assert engine.ready().http.get("/health").status_code == 200
    engine.wait_for(r"took 1\.00 s")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("cuda-oom", r"torch\.OutOfMemoryError: CUDA out of memory"),
        ("bad-model", "is not a valid model identifier"),
        ("bad-flag", "ValueError: "),
    ],
)
def test_crash_at_start(start: Start, kind: str, words: str) -> None:
    engine = start(faults=[{"kind": "crash-at-start", "with": kind}])
    assert engine.process.wait(10) == 1
    engine.wait_for(words)
    assert "startup complete" not in engine.text


def test_hang(start: Start) -> None:
    engine = start(faults=[{"kind": "hang", "after_requests": 2}]).ready()
    engine.chat(max_tokens=2)
    with pytest.raises(httpx.ReadTimeout):
        engine.http.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": "x"}]}, timeout=0.4)
    assert engine.http.get("/health").status_code == 200


def test_restart(start: Start) -> None:
    engine = start(faults=[{"kind": "restart", "after_requests": 3}]).ready()
    for _ in range(2):
        engine.chat(max_tokens=5)
    before = engine.series()["process_start_time_seconds"]
    assert engine.metric("generation_tokens_total") == 10
    engine.chat(max_tokens=5)
    assert engine.metric("generation_tokens_total") == 5
    assert engine.series()["process_start_time_seconds"] > before


def test_ignored_sigterm(start: Start) -> None:
    engine = start(faults=[{"kind": "ignore-sigterm"}]).ready()
    engine.process.terminate()
    time.sleep(0.3)
    assert engine.process.poll() is None
    assert engine.http.get("/health").status_code == 200


def test_faults_of_one_request_leave_the_others_alone(start: Start) -> None:
    engine = start(faults=[{"kind": "truncated-stream", "request": 1, "after_tokens": 2}]).ready()
    engine.chat(stream=True)
    assert engine.chat().json()["choices"][0]["message"]["content"].startswith(SENTENCE)


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "nope",
        '[{"kind": "unheard-of"}]',
        '[{"kind": "http-error"}]',
        '[{"kind": "flag-ignored", "flag": "x", "form": "maybe"}]',
    ],
)
def test_bad_faults_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        faults.parse(text)


def test_bad_variables_end_the_process(start: Start) -> None:
    environment: dict[str, Any] = {"SIMULATOR_TIME_SCALE": "0"}
    engine = start(**environment)
    assert engine.process.wait(10) == 2
    engine.wait_for("SIMULATOR_TIME_SCALE")


def test_unknown_flag_cannot_be_ignored(start: Start) -> None:
    engine = start(faults=[{"kind": "flag-ignored", "flag": "max-num-seq", "form": "neither"}])
    assert engine.process.wait(10) == 2
    engine.wait_for("no such flag: max_num_seq")
