"""What replies, chunks, errors and models say, and a client's options; their shapes are tests/fidelity's."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from simulator_process import REPEAT, SENTENCE, EngineProcess


def test_plain_reply(off: EngineProcess) -> None:
    mine = off.chat(max_tokens=5, model="m").json()
    assert mine["choices"][0]["finish_reason"] == "length"
    assert mine["usage"]["completion_tokens"] == 5


def test_plain_reply_with_token_ids(on: EngineProcess) -> None:
    mine = on.chat(return_token_ids=True).json()
    assert len(mine["prompt_token_ids"]) == mine["usage"]["prompt_tokens"]
    assert len(mine["choices"][0]["token_ids"]) == mine["usage"]["completion_tokens"]
    assert mine["choices"][0]["message"]["content"].startswith((SENTENCE + "\n") * 3)
    assert mine["choices"][0]["finish_reason"] == "stop"


def test_a_stream_and_a_plain_reply_say_the_same(on: EngineProcess) -> None:
    mine = on.chunks(return_token_ids=True, stream_options={"include_usage": True})
    plain = on.chat(return_token_ids=True).json()
    assert {chunk["id"] for chunk in mine} == {mine[0]["id"]}
    assert "".join(c["choices"][0]["delta"]["content"] for c in mine[:-1]) == plain["choices"][0]["message"]["content"]
    assert mine[-1]["usage"]["completion_tokens"] == plain["usage"]["completion_tokens"]
    steps = [chunk["choices"][0]["token_ids"] for chunk in mine[1:-1]]
    assert [token for step in steps for token in step] == plain["choices"][0]["token_ids"]
    assert max(map(len, steps)) == 6  # all of a step's tokens in one chunk
    assert len(steps[0]) == 1
    assert mine[0]["prompt_token_ids"] == plain["prompt_token_ids"]


def test_nothing_but_the_head_comes_before_the_first_token(start: Callable[..., EngineProcess]) -> None:
    engine = start(faults=[{"kind": "stall"}]).ready()
    body = {"messages": [{"role": "user", "content": REPEAT}], "stream": True}
    with (
        engine.http.stream("POST", "/v1/chat/completions", json=body, timeout=0.3) as response,
        pytest.raises(httpx.ReadTimeout),
    ):
        next(response.iter_raw())
    assert response.status_code == 200


def test_stream_usage_options(off: EngineProcess) -> None:
    without = off.chunks(max_tokens=4)
    assert not any("usage" in chunk for chunk in without)
    assert without[-1]["choices"][0]["finish_reason"] == "length"
    assert "system_fingerprint" in without[-1]
    options = {"include_usage": True, "continuous_usage_stats": True}
    counts = [chunk["usage"]["completion_tokens"] for chunk in off.chunks(max_tokens=4, stream_options=options)]
    assert counts == [0, 1, 2, 3, 4, 4]


def test_stream_interval_and_forced_usage(start: Callable[..., EngineProcess]) -> None:
    engine = start("--stream-interval", "3", "--enable-force-include-usage").ready()
    chunks = engine.chunks(max_tokens=8, return_token_ids=True)
    assert [len(chunk["choices"][0]["token_ids"]) for chunk in chunks[1:-1]] == [1, 3, 3, 1]
    assert chunks[-1]["usage"]["completion_tokens"] == 8


def test_cached_tokens_are_told_when_asked_for(off: EngineProcess) -> None:
    prompt = "A prompt of its own, long enough for a full block of sixteen tokens."
    first = off.chat(prompt, max_tokens=1).json()["usage"]["prompt_tokens_details"]
    usage = off.chat(prompt, max_tokens=1).json()["usage"]
    assert usage["prompt_tokens_details"] == {"cached_tokens": (usage["prompt_tokens"] - 1) // 16 * 16}
    assert first != usage["prompt_tokens_details"]


def test_models_version_health(on: EngineProcess) -> None:
    mine = on.http.get("/v1/models").json()
    assert (mine["data"][0]["id"], mine["data"][0]["root"]) == ("m", "some/model")
    assert on.http.get("/version").json() == {"version": "0.26.0", "simulated": True}
    for response in (on.http.get("/health"), on.http.get("/ping"), on.http.post("/ping")):
        assert (response.status_code, response.content) == (200, b"")
    assert on.http.get("/load").json() == {"server_load": 0}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"max_tokens": 4090},
            "maximum context length is 4096 tokens. However, you requested 4090 output",
        ),
        ({"prompt": "x " * 30000}, "characters (more than"),
        (
            {"stream_options": {"include_usage": True}},
            "Stream options can only be defined when",
        ),
        ({"n": 2}, "does not simulate"),
        ({"max_tokens": 3, "min_tokens": 4}, "min_tokens must be less than or equal to max_tokens=3, got 4."),
    ],
)
def test_refused_values(off: EngineProcess, fields: dict[str, Any], message: str) -> None:
    response = off.chat(**{"prompt": REPEAT, **fields})
    assert response.status_code == 400
    assert message in response.json()["error"]["message"]
    assert response.json()["error"]["type"] == "BadRequestError"


def test_content_type_must_be_json(off: EngineProcess) -> None:
    response = off.http.post("/v1/chat/completions", content=b"{}", headers={"content-type": "text/plain"})
    assert (response.status_code, response.json()["error"]["type"]) == (400, "Bad Request")


def test_min_p_and_logit_bias_only_without_speculation(on: EngineProcess, off: EngineProcess) -> None:
    assert off.chat(max_tokens=1, logit_bias={"1": 2}).status_code == 200
    for fields in ({"min_p": 0.1, "temperature": 1}, {"logit_bias": {"1": 2}}):
        refused = on.chat(max_tokens=1, **fields)
        assert refused.status_code == 400
        assert "not yet supported with speculative decoding" in refused.json()["error"]["message"]
    assert on.chat(max_tokens=1, min_p=0.1, temperature=0).status_code == 200


def test_same_words_in_both_arms(on: EngineProcess, off: EngineProcess) -> None:
    for prompt in (REPEAT, "What is a device plugin?"):
        texts = {
            engine.chat(prompt, **fields, return_token_ids=True).json()["choices"][0]["token_ids"].__str__()
            for engine in (on, off)
            for fields in ({}, {"seed": 1}, {"top_p": 0.5})
        }
        assert len(texts) == 1


def test_ignore_eos_runs_to_the_limit(off: EngineProcess) -> None:
    body = off.chat(ignore_eos=True, max_tokens=120).json()
    assert (body["usage"]["completion_tokens"], body["choices"][0]["finish_reason"]) == (120, "length")


def test_tokenize_and_back(off: EngineProcess) -> None:
    made = off.http.post("/tokenize", json={"prompt": SENTENCE, "return_token_strs": True}).json()
    assert made["count"] == len(made["tokens"]) == len(made["token_strs"])
    assert made["max_model_len"] == 4096
    assert off.http.post("/detokenize", json={"tokens": made["tokens"]}).json() == {"prompt": SENTENCE}
    chat = off.http.post("/tokenize", json={"messages": [{"role": "user", "content": REPEAT}]}).json()
    assert chat["tokens"] == off.chat(return_token_ids=True).json()["prompt_token_ids"]
    assert off.http.post("/detokenize", json={"tokens": [3]}).status_code == 400


def test_development_endpoints(on: EngineProcess, off: EngineProcess) -> None:
    info = on.http.get("/server_info", params={"config_format": "json"}).json()["vllm_config"]
    assert info["speculative_config"]["num_speculative_tokens"] == 5
    assert info["scheduler_config"]["async_scheduling"] is False
    assert info["scheduler_config"]["max_num_seqs"] == 16
    assert "num_spec_tokens=5" in on.http.get("/server_info").json()["vllm_config"]
    assert on.http.post("/reset_prefix_cache").json() == {"success": True}
    before = on.metric("prefix_cache_hits_total")
    on.chat(max_tokens=1)
    assert on.metric("prefix_cache_hits_total") == before
    assert off.http.get("/server_info").status_code == 404
    assert off.http.post("/reset_prefix_cache").status_code == 404


def test_api_key(start: Callable[..., EngineProcess]) -> None:
    engine = start("--api-key", "secret").ready()
    refused = engine.chat()
    assert (refused.status_code, refused.json()) == (401, {"error": "Unauthorized"})
    assert engine.http.get("/health").status_code == 200
    assert engine.http.get("/v1/models", headers={"authorization": "Bearer secret"}).status_code == 200
    assert engine.http.get("/v1/models", headers={"authorization": "bearer secret"}).status_code == 200
    for other in ("Bearer other", "Bearer", "Basic secret", "secret", "Bearer secret2", "Bearer  secret"):
        assert engine.http.get("/v1/models", headers={"authorization": other}).status_code == 401


def test_api_key_of_the_environment(start: Callable[..., EngineProcess]) -> None:
    """Where the command line has one, that alone counts; an empty variable asks for nothing."""

    def status(engine: EngineProcess, key: str) -> int:
        return engine.http.get("/v1/models", headers={"authorization": f"Bearer {key}"}).status_code

    engine = start(VLLM_API_KEY="other").ready()
    assert (status(engine, "other"), status(engine, "secret")) == (200, 401)
    engine = start("--api-key", "secret", VLLM_API_KEY="other").ready()
    assert (status(engine, "other"), status(engine, "secret")) == (401, 200)
    assert start(VLLM_API_KEY="").ready().http.get("/v1/models").status_code == 200


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_ends_its_request(start: Callable[..., EngineProcess], stream: bool) -> None:
    engine = start(scale="3").ready()
    body = {"messages": [{"role": "user", "content": REPEAT}], "stream": stream}
    if stream:
        with engine.http.stream("POST", "/v1/chat/completions", json=body) as response:
            assert next(response.iter_lines()).startswith("data: ")
    else:
        with pytest.raises(httpx.ReadTimeout):
            engine.http.post("/v1/chat/completions", json=body, timeout=0.3)
    deadline = time.monotonic() + 5
    while engine.metric("num_requests_running") and time.monotonic() < deadline:
        time.sleep(0.02)
    series = engine.series()
    assert engine.metric("num_requests_running") == 0
    assert engine.metric("kv_cache_usage_perc") == 0
    assert not any(value for name, value in series.items() if name.startswith("vllm:request_success_total"))
