"""Replies, plain and streamed: every recorded one whole, cut at every byte, one test for each verdict."""

from __future__ import annotations

import dataclasses
import json
import re
from itertools import pairwise
from typing import Any

import pytest
from engine_recorded import (
    BODIES,
    FIXTURES,
    RAW_STREAMS,
    SOCKET_STREAMS,
    TIMED_STREAMS,
    chunk,
    read_json,
    served_model,
    sse,
    text,
    unchunk,
    usage,
)
from hypothesis import given
from hypothesis import strategies as st

from runner.engine.chat import read_reply
from runner.engine.reply import Reply, Usage
from runner.engine.stream import read_stream
from runner.engine.verdict import Verdict

SSE = "text/event-stream; charset=utf-8"
KOREAN = "Kubernetes에서 GPU를 사용하려면 RuntimeClass와 Device Plugin이 필요하다."
Q3B_TEXT = f"{KOREAN}\n{KOREAN}\n{KOREAN}\n확인 결과 세 번 반복은 모두 동일합니다!"


def stream(body: bytes, *cuts: int, ended: bool = True, model: str = "m", content_type: str | None = SSE) -> Reply:
    """Read ``body`` cut at ``cuts``; the n-th part arrives at n milliseconds."""
    edges = [0, *sorted(cuts), len(body)]
    parts = [(n * 1_000_000, body[a:b]) for n, (a, b) in enumerate(pairwise(edges), 1)]
    return read_stream(200, content_type, parts, ended=ended, model=model)


def plain(body: Any, status: int = 200, content_type: str = "application/json") -> Reply:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_reply(status, content_type, raw, model="m")


def completion(**message: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return {"object": "chat.completion", "model": "m", "choices": [choice], "usage": usage(3)}


def timeless(reply: Reply) -> Reply:
    return dataclasses.replace(reply, first_token_ns=None, last_token_ns=None, event_ns=(), event_bounds=())


# ------------------------------------------------------------------------------------------------------
# What was recorded


@pytest.mark.parametrize("name", BODIES)
def test_every_recorded_body(name: str) -> None:
    for line in text(name).splitlines():
        body = json.loads(line)
        reply = read_reply(200, "application/json", line.encode(), model=served_model(name))
        assert (reply.verdict, reply.detail) == (Verdict.OK, "")
        assert reply.text == body["choices"][0]["message"]["content"]
        assert reply.usage is not None
        assert reply.usage.completion == body["usage"]["completion_tokens"]
        with_ids = "bodies" in name
        assert (reply.token_ids is not None) is with_ids
        if reply.token_ids is not None and reply.prompt_token_ids is not None:
            assert len(reply.token_ids) == reply.usage.completion
            assert len(reply.prompt_token_ids) == reply.usage.prompt
        if "q3b" in name:
            assert (reply.text, reply.finish_reason, reply.usage.completion) == (Q3B_TEXT, "stop", 68)
        if "gemma" in name:
            assert (reply.finish_reason, reply.usage.completion) == ("length", 256)


@pytest.mark.parametrize("name", sorted(p.relative_to(FIXTURES).as_posix() for p in FIXTURES.rglob("chat.json")))
def test_every_recorded_chat(name: str) -> None:
    recorded = read_json(name)
    body = json.dumps(recorded["body"]).encode()
    reply = read_reply(recorded["status"], recorded["headers"]["content-type"], body, model="m")
    assert (reply.verdict, reply.finish_reason, reply.usage) == (Verdict.OK, "length", Usage(28, 96, None))


ERRORS = sorted(
    path.relative_to(FIXTURES).as_posix()
    for pattern in ("errors.json", "invalid.json")
    for path in FIXTURES.rglob(pattern)
)


@pytest.mark.parametrize("name", ERRORS)
def test_every_recorded_error(name: str) -> None:
    for recorded in read_json(name).values():
        body = recorded["body"]
        raw = (body if isinstance(body, str) else json.dumps(body)).encode()
        for reply in (
            read_reply(recorded["status"], "application/json", raw, model="m"),
            read_stream(recorded["status"], "application/json", [(1, raw)], ended=True, model="m"),
        ):
            assert reply.verdict == Verdict.HTTP_ERROR
            assert reply.detail.startswith(f"HTTP {recorded['status']}: ")
            words = "Not Found" if isinstance(body, str) else body["error"]["message"]
            assert " ".join(words.split()) in reply.detail
            assert "\n" not in reply.detail


@pytest.mark.parametrize("name", RAW_STREAMS)
def test_every_recorded_stream(name: str) -> None:
    body = (FIXTURES / name).read_bytes()
    reply = stream(body, model=served_model(name))
    assert (reply.verdict, reply.detail) == (Verdict.OK, "")
    # the h200 report: content deltas and tokens; the cpu README: 96 tokens
    expected = {
        "h200/q3b-off/sse/sse-kr.raw": (66, "stop", Usage(73, 68, None)),
        "h200/q3b-on/sse/sse-kr.raw": (32, "stop", Usage(73, 68, None)),
        "h200/gemma-on/sse/sse-kr.raw": (58, "length", Usage(44, 256, None)),
    }.get(name, (body.count(b'"content":') - body.count(b'"content":""'), "length", Usage(11, 96, None)))
    assert (len(reply.event_ns), reply.finish_reason, reply.usage) == expected
    if "q3b" in name:
        assert reply.text == Q3B_TEXT
    assert reply.token_ids is None
    assert reply.events_tokens is None  # nothing tells how many tokens an event held


@pytest.mark.parametrize("name", SOCKET_STREAMS)
def test_every_recorded_socket_stream(name: str) -> None:
    bodies = {
        tuple(json.loads(line)["choices"][0]["token_ids"])
        for line in text(re.sub(r"stream-(c\d+)", r"bodies-\1-r1", name)).splitlines()
    }
    for line in text(name).splitlines():
        chunks = unchunk(json.loads(line)["reads"])
        reply = read_stream(200, SSE, chunks, ended=True, model="qwen2.5-3b")
        assert (reply.verdict, reply.detail, reply.finish_reason) == (Verdict.OK, "", "stop")
        assert reply.usage == Usage(92, 68, None)
        assert reply.token_ids in bodies
        assert reply.prompt_token_ids is not None and len(reply.prompt_token_ids) == 92
        assert reply.events_tokens is not None
        assert sum(reply.events_tokens) == 68
        assert len(reply.events_tokens) == len(reply.event_ns)
        assert max(reply.events_tokens) == (6 if "/on" in name else 1)
        # the role chunk comes in a read of its own or in the first token's; the text begins with a K
        assert reply.first_token_ns == next(at for at, data in chunks if b'"content":"K"' in data)
        assert list(reply.event_ns) == sorted(reply.event_ns)
        assert chunks[0][0] < (reply.last_token_ns or 0) <= chunks[-1][0]


@pytest.mark.parametrize("name", TIMED_STREAMS)
def test_every_recorded_timed_stream_is_the_raw_one_with_stamps(name: str) -> None:
    pieces = [json.loads(line) for line in text(name).splitlines()]
    chunks = [(round(piece["t"] * 1e9), piece["data"].encode()) for piece in pieces]
    assert all(len(data) == piece["bytes"] for (_, data), piece in zip(chunks, pieces, strict=True))
    raw = name.replace(".jsonl", ".raw")
    assert b"".join(data for _, data in chunks) == (FIXTURES / raw).read_bytes()
    reply = read_stream(
        200, SSE, chunks, ended=True, model=json.loads(text(name.replace(".jsonl", ".head.json")))["request"]["model"]
    )
    assert timeless(reply) == timeless(stream((FIXTURES / raw).read_bytes(), model=reply.model or ""))
    assert reply.verdict == Verdict.OK
    assert (reply.first_token_ns, reply.last_token_ns) == (reply.event_ns[0], reply.event_ns[-1])
    # the role comes with the first token, usage and the marker after the last one
    assert chunks[0][0] == reply.event_ns[0] and reply.event_ns[-1] <= chunks[-1][0]


@pytest.mark.parametrize("name", RAW_STREAMS)
def test_a_recorded_stream_cut_at_every_offset_is_the_same_reply(name: str) -> None:
    body = (FIXTURES / name).read_bytes()
    head = body.index(b"\n\n", 2500) + 2
    # every offset of a short stream of the same bytes: its first events and its last ones
    short = body[:head] + body[body.rindex(b"data: {", 0, body.rindex(b"data: {")) :]
    whole = timeless(stream(short, model=served_model(name)))
    assert whole.verdict == Verdict.OK
    for cut in range(1, len(short)):
        assert timeless(stream(short, cut, model=served_model(name))) == whole


@pytest.mark.parametrize("name", RAW_STREAMS)
def test_a_recorded_stream_that_ends_anywhere_before_its_marker_is_truncated(name: str) -> None:
    body = (FIXTURES / name).read_bytes()
    done = body.index(b"[DONE]") + len(b"[DONE]")
    for end in (*range(700), *range(700, done, 97), *range(done - 700, done)):
        assert stream(body[:end], model=served_model(name)).verdict == Verdict.TRUNCATED, end
    for end in range(done, len(body)):
        assert stream(body[:end], model=served_model(name)).verdict == Verdict.OK


# ------------------------------------------------------------------------------------------------------
# Inputs that break a naive reader

EMOJI = "Hello world \U0001f600 "
EVENTS = (chunk("", delta={"role": "assistant", "content": ""}), chunk("Hello"), chunk(" world "))


def test_text_may_hold_other_line_breaks() -> None:
    """Input 1."""
    spoken = "a\u2028b\u0085c\x0bd"
    event = json.dumps(chunk(spoken, "stop"), ensure_ascii=False).encode()
    assert stream(b"data: " + event + b"\n\ndata: [DONE]\n\n").text == spoken


def test_unlucky_packets() -> None:
    """Input 2: white space kept, an emoji cut inside, and the stamp of the last byte."""
    event = json.dumps(chunk(EMOJI), ensure_ascii=False).encode()
    body = b"data: " + event + b"\n\n" + sse(chunk("!", "stop"))
    start = body.index("\U0001f600".encode())
    for cut in range(1, len(body)):
        reply = stream(body, cut)
        assert reply.text == EMOJI + "!"
        first_ends = body.index(b"\n\n") + 1  # the byte that ends the first event
        assert reply.event_ns[0] == (1_000_000 if cut > first_ends else 2_000_000)
    assert stream(body, start, start + 1, start + 3).first_token_ns == 4_000_000


@pytest.mark.parametrize("newline", [b"\n", b"\r", b"\r\n"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("blank", [b"", b" "])
@pytest.mark.parametrize("closed", [True, False])
def test_other_framing(newline: bytes, bom: bytes, blank: bytes, closed: bool) -> None:
    """Input 3: comments, CR and CRLF, no blank after the colon, no empty line at the end; cut everywhere."""
    lines = [b":ping", b"", b"event: message", b"id: 7", b"retry: 5"]
    for event in (*EVENTS, chunk("", "stop", usage=usage(2))):
        lines += [b"data:" + blank + json.dumps(event).encode(), b"", b":ping", b""]
    lines += [b"data:" + blank + b"[DONE]"]
    body = bom + newline.join(lines) + (newline * 2 if closed else b"")
    expected = stream(body)
    assert (expected.verdict, expected.text) == (Verdict.OK, "Hello world ")
    assert expected.usage == Usage(5, 2, None)
    for cut in range(1, len(body)):
        assert timeless(stream(body, cut)) == timeless(expected)


def test_an_event_of_several_data_lines() -> None:
    event = json.dumps(chunk("x", "stop"), indent=1).encode()
    body = b"".join(b"data: " + line + b"\n" for line in event.split(b"\n")) + b"\ndata\n\ndata: [DONE]\n\n"
    assert stream(body.replace(b"data\n\n", b"")).text == "x"


def test_an_error_inside_a_200() -> None:
    """Input 4."""
    error = {"error": {"message": "engine\n dead", "type": "InternalServerError", "code": 500}}
    reply = stream(sse(chunk("a"), chunk("b"), chunk("c"), error))
    assert (reply.verdict, reply.detail) == (Verdict.IN_BAND_ERROR, "InternalServerError: engine dead")
    assert reply.text == "abc"
    assert stream(sse(error)).verdict == Verdict.IN_BAND_ERROR
    assert stream(sse(chunk("a"), chunk("", "error"))).verdict == Verdict.IN_BAND_ERROR
    assert stream(b"event: error\ndata: engine dead\n\n").detail == "engine dead"
    assert plain(error).verdict == Verdict.IN_BAND_ERROR
    assert plain({"object": "error", "message": "no"}).detail == "no"
    assert stream(json.dumps(error).encode(), content_type="application/json").verdict == Verdict.IN_BAND_ERROR


def test_a_clean_cut() -> None:
    """Input 5."""
    five = [chunk(word) for word in "abcde"]
    reply = stream(sse(*five, end=b""))
    assert (reply.verdict, reply.text) == (Verdict.TRUNCATED, "abcde")
    assert reply.detail == "no finish reason; no [DONE]; the stream closed after 5 events with tokens"
    assert "the connection broke" in stream(sse(*five, end=b""), ended=False).detail
    assert stream(sse(*five)).detail.startswith("no finish reason")
    assert stream(sse(chunk("a", "stop"), end=b"")).detail.startswith("no [DONE]")
    assert stream(sse(*five, end=b"")[:-9]).detail.startswith("cut inside an event")
    assert stream(b"").verdict == Verdict.TRUNCATED
    assert stream(sse(chunk("a", "stop")), ended=False).verdict == Verdict.OK  # complete to its marker
    unfinished = completion(content="a")
    unfinished["choices"][0]["finish_reason"] = None
    assert plain(unfinished).verdict == Verdict.TRUNCATED
    assert stream(sse(chunk("a", "abort"))).verdict == Verdict.TRUNCATED


def test_a_page_instead_of_a_completion() -> None:
    page = b"<!doctype html><html><body>502</body></html>"
    for reply in (
        plain(page, content_type="text/html"),
        plain(page),
        stream(page, content_type="text/html"),
        stream(page),
    ):
        assert reply.verdict == Verdict.MALFORMED
        assert "HTML" in reply.detail


def test_usage_oddities() -> None:
    """Input 6."""
    role = chunk("", delta={"role": "assistant", "content": ""}, usage=None)
    final = {"object": "chat.completion.chunk", "model": "m", "choices": [], "usage": usage(3)}
    body = sse(role, chunk("a", usage=None), chunk("bc", "stop", usage=None), final)
    first = body.index(b"\n\n") + 2
    reply = stream(body, first)
    assert reply.first_token_ns == 2_000_000  # not the role chunk's
    assert (reply.usage, reply.events_tokens) == (Usage(5, 3, None), None)

    running = stream(sse(chunk("a", usage=usage(1)), chunk("bc", usage=usage(3)), chunk("", "stop", usage=usage(3))))
    assert (running.usage, running.events_tokens) == (Usage(5, 3, None), (1, 2))

    none = stream(sse(chunk("a"), chunk("b", "stop")))
    assert (none.verdict, none.usage, none.events_tokens) == (Verdict.OK, None, None)

    last_only = stream(sse(chunk("a"), chunk("b"), chunk("", "stop", usage=usage(2))))
    assert (len(last_only.event_ns), last_only.events_tokens) == (2, None)

    for field in ("reasoning", "reasoning_content"):
        thought = chunk(delta={field: "hm "})
        reply = stream(sse(role, thought, chunk("a", "stop")), len(sse(role, thought, end=b"")))
        assert (reply.reasoning, reply.text, reply.first_token_ns) == ("hm ", "a", 1_000_000)
    assert stream(sse(chunk("a", "stop", usage=usage(1) | {"prompt_tokens_details": {"cached_tokens": 4}}))).usage == (
        Usage(5, 1, 4)
    )


def test_a_burst_of_tokens() -> None:
    """Input 7: events of 1, 4, 3 and 4 tokens every 30 ms."""
    sizes = (1, 4, 3, 4)
    by_ids = [chunk("x" * n, token_ids=list(range(n))) for n in sizes] + [chunk("", "stop", token_ids=[])]
    by_usage = [chunk("x" * n, usage=usage(sum(sizes[: i + 1]))) for i, n in enumerate(sizes)]
    by_usage.append(chunk("", "stop", usage=usage(12)))
    for events in (by_ids, by_usage):
        parts = [(n * 30_000_000, sse(event, end=b"")) for n, event in enumerate(events, 1)]
        parts.append((200_000_000, b"data: [DONE]\n\n"))
        reply = read_stream(200, SSE, parts, ended=True, model="m")
        assert reply.verdict == Verdict.OK
        assert reply.events_tokens == sizes
        assert reply.event_ns == (30_000_000, 60_000_000, 90_000_000, 120_000_000)
        assert reply.last_token_ns == 120_000_000


def test_ids_without_text_are_tokens() -> None:
    """Half a UTF-8 character: the delta is empty, the token is there."""
    parts = [chunk("", token_ids=[9]), chunk("é", token_ids=[8]), chunk("", "stop", token_ids=[2])]
    reply = stream(sse(*parts), len(sse(parts[0], end=b"")))
    assert (reply.first_token_ns, reply.events_tokens, reply.token_ids) == (1_000_000, (1, 1, 1), (9, 8, 2))


# ------------------------------------------------------------------------------------------------------
# One test for each verdict that is not shown above


def test_ok_by_any_channel() -> None:
    call = [{"id": "1", "function": {"name": "f", "arguments": ""}}]
    for message in (
        {"content": "a"},
        {"content": None, "reasoning": "b"},
        {"content": None, "tool_calls": call},
    ):
        assert plain(completion(**message)).verdict == Verdict.OK
        assert stream(sse(chunk(delta=message), chunk("", "stop"))).verdict == Verdict.OK


def test_white_space_is_text() -> None:
    assert plain(completion(content=" \n")).text == " \n"
    assert stream(sse(chunk(" "), chunk("\n", "stop"))).text == " \n"


def test_empty() -> None:
    assert plain(completion(content="")).verdict == Verdict.EMPTY
    assert plain(completion(content=None, tool_calls=[])).verdict == Verdict.EMPTY
    assert plain(completion(content="a") | {"usage": usage(0)}).verdict == Verdict.EMPTY
    assert stream(sse(chunk("", "stop"))).verdict == Verdict.EMPTY
    assert stream(sse(chunk("a", "stop", usage=usage(0)))).verdict == Verdict.EMPTY


def test_wrong_model() -> None:
    other = plain(completion(content="a") | {"model": "n"})
    assert (other.verdict, other.detail) == (Verdict.WRONG_MODEL, "asked 'm', the reply names 'n'")
    nameless = completion(content="a")
    del nameless["model"]
    assert plain(nameless).verdict == Verdict.WRONG_MODEL
    assert stream(sse(chunk("a"), chunk("b", "stop", model="n"))).verdict == Verdict.WRONG_MODEL


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"1", b"null", b"\xff", b"{}", b'{"choices":[]}', b'{"choices":[1]}', b"[" * 100_000,
     b'{"choices":[{"message":{"content":5}}]}'],
)  # fmt: skip
def test_malformed(body: bytes) -> None:
    assert plain(body).verdict == Verdict.MALFORMED
    if body:
        streamed = stream(b"data: " + body + b"\n\n" + sse(chunk("a", "stop")))
        assert streamed.verdict == (Verdict.OK if body == b'{"choices":[]}' else Verdict.MALFORMED)


def test_http_error() -> None:
    assert plain({"error": "Unauthorized"}, 401).detail == "HTTP 401: Unauthorized"
    assert plain(b"", 503).detail == "HTTP 503"
    assert plain(completion(content="a"), 500).verdict == Verdict.HTTP_ERROR
    assert len(plain(b"x" * 9000, 500).detail) < 600


def test_several_choices_need_each_their_finish_reason() -> None:
    def second(content: str, finish: str | None) -> dict[str, Any]:
        event = chunk(content, finish)
        event["choices"][0]["index"] = 1
        return event

    assert stream(sse(chunk("a", "stop"), second("b", None))).verdict == Verdict.TRUNCATED
    reply = stream(sse(chunk("a", "stop"), second("b", None), second("", "length")))
    assert (reply.verdict, reply.text, reply.finish_reason) == (Verdict.OK, "a", "stop")


TEXTS = st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=4)


@given(TEXTS, st.data(), st.sampled_from(["\n", "\r", "\r\n"]))
def test_any_text_in_any_packets(words: list[str], data: st.DataObject, newline: str) -> None:
    events = [*(chunk(word, token_ids=[1]) for word in words), chunk("", "stop")]
    written = [json.dumps(event, ensure_ascii=False) for event in events]
    body = "".join(f"data: {event}{newline}{newline}" for event in [*written, "[DONE]"]).encode()
    cuts = data.draw(st.lists(st.integers(0, len(body)), max_size=6))
    reply = stream(body, *cuts)
    assert (reply.verdict, reply.text) == (Verdict.OK, "".join(words))
    assert reply.events_tokens == (1,) * len(words)
    assert list(reply.event_ns) == sorted(reply.event_ns)


@given(st.binary(max_size=200), st.sampled_from([200, 404]))
def test_no_bytes_raise(body: bytes, status: int) -> None:
    read_reply(status, None, body, model="m")
    read_stream(status, None, [(1, body)], ended=True, model="m")
    read_stream(status, None, [(1, b"data: " + body)], ended=False, model="m")


# ------------------------------------------------------------------------------------------------------
# Whatever JSON comes, a reader judges it and never raises

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
SHAPED = st.fixed_dictionaries(
    {},
    optional={
        "object": JSON,
        "model": JSON,
        "usage": JSON | st.fixed_dictionaries({}, optional={"completion_tokens": JSON, "prompt_tokens_details": JSON}),
        "prompt_token_ids": JSON,
        "error": JSON,
        "choices": st.lists(
            st.fixed_dictionaries(
                {},
                optional=dict.fromkeys(["index", "delta", "message", "finish_reason", "token_ids"], JSON)
                | {"delta": st.fixed_dictionaries({}, optional=dict.fromkeys(["content", "tool_calls", "role"], JSON))},
            ),
            max_size=2,
        ),
    },
)


@given(st.lists(SHAPED | JSON, max_size=3))
def test_any_json_is_judged(values: list[Any]) -> None:
    body = b"".join(f"data: {json.dumps(value)}\n\n".encode() for value in values)
    assert isinstance(stream(body + b"data: [DONE]\n\n").verdict, Verdict)
    for value in values:
        assert isinstance(plain(value).verdict, Verdict)


def test_a_choice_whose_index_is_no_number_is_malformed() -> None:
    body = b'data: {"choices":[{"index":[],"delta":{"content":"x"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    assert stream(body).verdict is Verdict.MALFORMED


# ------------------------------------------------------------------------------------------------------
# Stamps that are upper bounds


def reads_of(*reads: tuple[int, bytes]) -> Reply:
    return read_stream(200, SSE, list(reads), ended=True, model="m")


def test_the_last_token_came_at_most_a_moment_before_the_closing_events_of_its_read() -> None:
    """Finish reason, usage and [DONE] are written in one go behind the last token: they are no second step."""
    first, last = sse(chunk("a"))[:-14], sse(chunk("b"), chunk("", "stop"))
    second = 1_000_000_000
    early, late = (second, first), (2 * second, last)
    assert first.endswith(b"\n\n")
    reply = reads_of((0, b""), early, late)
    assert reply.event_ns == (second, 2 * second)
    assert reply.event_bounds == ((1, 2 * second - 1_000_000),)
    # a read that came shortly before bounds it more closely
    reply = reads_of((0, b""), early, (2 * second - 1_000, b""), late)
    assert reply.event_bounds == ((1, 2 * second - 1_000),)
    # one behind which another token stands may have waited for as long as the read before it was ago
    reply = reads_of((0, b""), (2 * second, first + last))
    assert reply.event_bounds == ((0, 0), (1, 2 * second - 1_000_000))
