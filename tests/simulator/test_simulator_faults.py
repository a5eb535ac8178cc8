"""Each fault on demand: what it does, and that it does it only where it was asked to."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from simulator_process import REPEAT, SENTENCE, SPECULATION, EngineProcess

from runner.simulator import faults
from runner.simulator.fault_page import page

ROOT = Path(__file__).parents[2]
RECORDINGS = ROOT / "tests" / "recordings"
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


@pytest.mark.parametrize(
    ("fault", "excess"),
    [
        ({}, [0, 1, 2, 3, 3]),
        ({"by": 2}, [0, 2, 4, 6, 6]),
        ({"request": 2}, [0, 0, 1, 1, 1]),
        ({"from": 2}, [0, 0, 1, 2, 2]),
        ({"per": "scrape"}, [0, 1, 2, 3, 4]),
        ({"per": "scrape", "request": 3, "by": -1}, [0, 0, 0, -1, -2]),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("name", "each"),
    [("generation_tokens_total", 10), ("request_generation_tokens_sum", 10), ("request_generation_tokens_count", 1)],
)
def test_a_counter_lies(start: Start, name: str, each: int, fault: dict[str, Any], excess: list[int]) -> None:
    engine = start(faults=[{"kind": "counter-lies", "name": f"vllm:{name}", **fault}]).ready()
    found = [engine.metric(name)]
    for _ in range(3):
        engine.chat(max_tokens=10)
        found.append(engine.metric(name))
    found.append(engine.metric(name))
    assert found == [true + lie for true, lie in zip([0, each, 2 * each, 3 * each, 3 * each], excess, strict=True)]
    others = {"generation_tokens_total", "request_generation_tokens_sum", "request_generation_tokens_count"} - {name}
    assert all(engine.metric(other) == (3 if other.endswith("count") else 30) for other in others)


def test_a_lie_touches_one_series_and_keeps_a_histogram_whole(start: Start) -> None:
    lies = ["vllm:request_success_total", "vllm:e2e_request_latency_seconds_count"]
    engine = start(faults=[{"kind": "counter-lies", "name": name} for name in lies]).ready()
    engine.chat(max_tokens=10)
    engine.chat(max_tokens=10)
    reasons = {reason: engine.metric("request_success_total", finished_reason=reason) for reason in ("length", "stop")}
    assert reasons == {"length": 4, "stop": 0}
    assert engine.metric("e2e_request_latency_seconds_count") == 4
    assert engine.metric("e2e_request_latency_seconds_bucket", le="+Inf") == 4
    assert engine.metric("e2e_request_latency_seconds_bucket", le="7680.0") == 2


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


def chunks_on_the_wire(engine: EngineProcess) -> list[bytes]:
    """The chunks of the transfer coding of one streamed reply, as the server cut them."""
    body = json.dumps({"messages": [{"role": "user", "content": REPEAT}], "max_tokens": 40, "stream": True}).encode()
    url = engine.http.base_url
    with socket.create_connection((url.host, url.port or 80), timeout=20) as connection:
        connection.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
            + body
        )
        wire = b"".join(iter(lambda: connection.recv(65536), b""))
    rest = wire.partition(b"\r\n\r\n")[2]
    chunks = []
    while (size := int(rest.partition(b"\r\n")[0], 16)) > 0:
        rest = rest.partition(b"\r\n")[2]
        chunks.append(rest[:size])
        rest = rest[size + 2 :]
    return chunks


def splits_a_character(chunk: bytes) -> bool:
    try:
        chunk.decode()
    except UnicodeDecodeError:
        return True
    return False


def test_slow_drip(start: Start, off: EngineProcess) -> None:
    engine = start(faults=[{"kind": "slow-drip", "request": 1, "bytes": 7, "seconds": 0.001},
                           {"kind": "slow-drip", "request": 2, "bytes": 100, "seconds": 0.1}]).ready()  # fmt: skip
    dripping, usual = chunks_on_the_wire(engine), chunks_on_the_wire(off)
    assert max(map(len, dripping)) == 7
    assert any(map(splits_a_character, dripping))
    assert b"".join(dripping).endswith(b"data: [DONE]\n\n")
    assert b"".join(dripping).count(b"data: ") > 20
    assert not any(map(splits_a_character, usual))
    assert all(chunk.endswith(b"\n\n") for chunk in usual)
    began = time.monotonic()
    plain = engine.chat()
    assert time.monotonic() - began >= 0.1 * (len(plain.content) // 100)
    assert plain.json()["choices"] == off.chat().json()["choices"]
    assert engine.metric("request_success_total", finished_reason="stop") >= 1


@pytest.mark.parametrize("status", [429, 500, 503])
def test_http_error(start: Start, status: int) -> None:
    engine = start(faults=[{"kind": "http-error", "request": 1, "status": status}]).ready()
    refused = engine.chat()
    assert (refused.status_code, refused.json()["error"]["code"]) == (status, status)
    assert engine.metric("prompt_tokens_total") == 0
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
    ("kind", "code", "last"),
    [
        (
            "cuda-oom",
            1,
            "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
        ),
        ("bad-model", 1, "or by passing `token=<your_token>`"),
        ("bad-flag", 2, "vllm: error: unrecognized arguments: --no-such-flag"),
        ("bad-config", 1, "For further information visit https://errors.pydantic.dev/2.14/v/value_error"),
    ],
)
def test_crash_at_start(start: Start, kind: str, code: int, last: str) -> None:
    engine = start(faults=[{"kind": "crash-at-start", "with": kind}])
    assert engine.process.wait(10) == code
    engine.wait_for(re.escape(last))
    assert engine.log[-1].endswith(last)
    assert "startup complete" not in engine.text


def crash_lines(text: str) -> list[str]:
    """The lines that open and end each complaint, with the process in front where one is, without pid, time and the
    words of what went wrong: those differ."""
    kept = []
    for line in text.splitlines():
        bare = re.sub(r"pid=\d+|\d\d-\d\d \d\d:\d\d:\d\d", "", line)
        opens = r"Traceback|Process |EngineCore failed|usage:|\w+: error: |\S*(Error|Exception): |    For further"
        if "(Worker " not in bare and re.match(rf"(\(\w+ \) )?(ERROR  \[\S+\] )?({opens})", bare):
            kept.append(re.sub(r"(?<!\S)(?!RuntimeError)\S*(Error|Exception): .*|(?<=arguments: ).*", "…", bare))
    return kept


@pytest.mark.parametrize(
    ("kind", "recording"),
    [
        ("bad-flag", "unknown-flag"),
        ("bad-config", "spec-tokens-alone"),
        ("cuda-oom", "broken-weights"),
        ("bad-model", "model-not-found"),
    ],
)
def test_crashes_have_the_form_of_recorded_ones(start: Start, kind: str, recording: str) -> None:
    engine = start(faults=[{"kind": "crash-at-start", "with": kind}])
    engine.process.wait(10)
    engine.close()
    found = crash_lines(engine.text)
    recorded = crash_lines((RECORDINGS / "crashes" / f"{recording}.log").read_text("utf-8"))
    assert len(recorded) >= 2
    assert found == recorded


def test_a_later_release_prints_what_nobody_caught_without_the_process(start: Start) -> None:
    engine = start(faults=[{"kind": "crash-at-start", "with": "bad-model"}], SIMULATOR_VERSION="0.33.0")
    assert engine.process.wait(10) == 1
    engine.wait_for(r"(?m)^OSError: some/model is not")


def test_nothing_crashes_without_the_switch(off: EngineProcess) -> None:
    assert not re.search(r"Traceback|ERROR|vllm: error", off.text)
    assert off.process.poll() is None


def unanswered(engine: EngineProcess, seconds: float = 0.4) -> bool:
    """Whether a request gets no answer in time; it is then given up."""
    body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 2}
    try:
        return engine.http.post("/v1/chat/completions", json=body, timeout=seconds).status_code != 200
    except httpx.ReadTimeout:
        return True


def left_open(engine: EngineProcess, count: int) -> list[threading.Thread]:
    """So many long requests, sent and waited for in threads."""

    def send() -> None:
        with contextlib.suppress(httpx.TransportError):
            engine.chat(max_tokens=2000, ignore_eos=True)

    threads = [threading.Thread(target=send, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads


def queue(engine: EngineProcess) -> tuple[float, float, float]:
    """Running, waiting, and waiting for capacity."""
    return (
        engine.metric("num_requests_running"),
        engine.metric("num_requests_waiting"),
        engine.metric("num_requests_waiting_by_reason", reason="capacity"),
    )


def until(condition: Callable[[], bool], seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while not (held := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return held


def test_a_stall_while_requests_wait_shows_the_queue_and_gives_no_token(start: Start) -> None:
    engine = start(faults=[{"kind": "stall-while-waiting", "after_requests": 4}], scale="0.05").ready()
    assert not unanswered(engine, 20)
    left_open(engine, 2)
    assert until(lambda: queue(engine) == (2, 0, 0))
    assert unanswered(engine)  # the fourth: given up by its client, and gone from the queue
    left_open(engine, 3)
    assert until(lambda: queue(engine) == (2, 3, 3))
    before = engine.metric("generation_tokens_total")
    time.sleep(0.5)
    assert queue(engine) == (2, 3, 3)
    assert engine.metric("generation_tokens_total") == before
    assert engine.http.get("/health").status_code == 200


def test_a_stall_that_ends_loses_nothing(start: Start) -> None:
    engine = start(faults=[{"kind": "stall-while-waiting", "after_requests": 1, "seconds": 0.7}]).ready()
    began = time.monotonic()
    assert engine.chat(max_tokens=5).json()["usage"]["completion_tokens"] == 5
    assert time.monotonic() - began >= 0.7
    assert queue(engine) == (0, 0, 0)
    assert engine.metric("request_queue_time_seconds_sum") >= 0.6
    assert engine.metric("request_inference_time_seconds_sum") < 0.6


def test_hang(start: Start) -> None:
    engine = start(faults=[{"kind": "hang", "after_requests": 2}]).ready()
    engine.chat(max_tokens=2)
    assert unanswered(engine)
    left_open(engine, 1)
    time.sleep(0.3)
    assert queue(engine) == (0, 0, 0)  # the last values: unlike a stall, a hang does not show who waits
    assert engine.http.get("/health").status_code == 200


def test_without_the_switch_nothing_stalls_or_hangs(off: EngineProcess) -> None:
    assert not any(unanswered(off, 20) for _ in range(5))
    assert until(lambda: queue(off) == (0, 0, 0))


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
    ("text", "words"),
    [
        ("{}", "must be a JSON list"),
        ("nope", "is no JSON"),
        ('["hang"]', 'no fault "hang": an object whose kind is one of slow-start,'),
        ('[{"kind": "unheard-of"}]', 'no fault {"kind": "unheard-of"}: an object whose kind is one of slow-start,'),
        ('[{"kind": ["hang"]}]', "no fault"),
        ('[{"kind": "http-error"}]', "'http-error' needs status"),
        ('[{"kind": "flag-ignored", "flag": "x", "form": "maybe"}]', "form must be one of neither, parsed-only"),
        ('[{"kind": "hang", "after_request": 3}]', "'hang' has no after_request: it takes after_requests"),
        ('[{"kind": "hang", "after_requests": 3, "request": 2}]', "'hang' has no request"),
        ('[{"kind": "ignore-sigterm", "seconds": 1}]', "'ignore-sigterm' has no seconds: it takes nothing"),
        ('[{"kind": "hang", "after_requests": "3"}]', 'must be a whole number, 1 or more, not "3"'),
        ('[{"kind": "hang", "after_requests": true}]', "must be a whole number, 1 or more, not true"),
        ('[{"kind": "hang", "after_requests": 1.5}]', "must be a whole number, 1 or more, not 1.5"),
        ('[{"kind": "stall", "request": 0}]', "request must be a whole number, 1 or more, not 0"),
        ('[{"kind": "stall", "request": 1, "from": 2}]', "request stands alone"),
        ('[{"kind": "slow-drain", "seconds": "1"}]', 'seconds must be a number, 0 or more, not "1"'),
        ('[{"kind": "slow-drain", "seconds": NaN}]', "seconds must be a number, 0 or more"),
        ('[{"kind": "http-error", "status": 600}]', "400 or more, 599 at most, not 600"),
        ('[{"kind": "missing-series", "name": 3}]', "name must be text, not 3"),
        ('[{"kind": "nvidia-smi", "at_sample": 1, "how": "somehow"}]', "how must be one of exit, device-lost"),
    ],
)
def test_bad_faults_are_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)) as error:
        faults.parse(text)
    assert "\n" not in str(error.value)


def test_a_bad_fault_ends_the_process_with_one_line(start: Start) -> None:
    engine = start(faults=[{"kind": "hang", "after": 3}])
    assert engine.process.wait(10) == 2
    engine.wait_for("bad SIMULATOR_ variable: fault 'hang' has no after: it takes after_requests")
    assert len(engine.log) == 1


def test_the_page_is_the_table() -> None:
    assert (ROOT / "docs" / "faults.md").read_text("utf-8") == page()


def test_bad_variables_end_the_process(start: Start) -> None:
    environment: dict[str, Any] = {"SIMULATOR_TIME_SCALE": "0"}
    engine = start(**environment)
    assert engine.process.wait(10) == 2
    engine.wait_for("SIMULATOR_TIME_SCALE")


def test_unknown_flag_cannot_be_ignored(start: Start) -> None:
    engine = start(faults=[{"kind": "flag-ignored", "flag": "max-num-seq", "form": "neither"}])
    assert engine.process.wait(10) == 2
    engine.wait_for("no such flag: max_num_seq")
