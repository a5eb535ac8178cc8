"""One real exchange per way in which a request can end: what goes over the wire, and the verdict on it."""

from __future__ import annotations

import asyncio
import json
import socket
import time

import pytest
from load_bytes import (
    DONE,
    END,
    MODEL,
    TEXT,
    WORDS,
    chunked_head,
    completion,
    delta,
    error_json,
    event,
    events,
    final_usage,
    head,
    piece,
    plain,
    role,
    sse,
)
from load_wire import Played, Server, Wire, ask, numbered, play, run, says, send

from runner.engine.reply import Usage
from runner.engine.verdict import Verdict
from runner.load.reading import Judged, judge_exchange


def failed(found: Judged, verdict: Verdict, *words: str) -> Judged:
    """The failure, and what every failure has: words, and never the look of an answer."""
    assert found.verdict is verdict, (found.verdict, found.detail)
    assert found.verdict is not Verdict.OK
    assert found.detail
    for word in words:
        assert word in found.detail
    if found.reply is not None:
        assert found.reply.verdict is verdict
        assert found.reply.detail == found.detail
    return found


# ok ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("framing", ["content-length", "chunked", "until-close"])
def test_a_plain_reply_is_ok(framing: str) -> None:
    body = completion()
    answers = {
        "content-length": says(plain(body)),
        "chunked": says(chunked_head("application/json") + piece(body[:9]) + piece(body[9:]) + END),
        "until-close": says(head(connection="close") + body, then="close"),
    }
    found = ask(answers[framing])
    assert (found.verdict, found.detail) == (Verdict.OK, "")
    assert found.reply is not None
    assert found.reply.text == TEXT
    assert found.reply.usage == Usage(11, 3, None)
    assert found.reply.finish_reason == "stop"
    assert found.exchange.status == 200
    assert found.exchange.transport is None
    assert found.exchange.body == body


def test_a_stream_is_ok() -> None:
    found = ask(says(sse(events())), stream=True)
    assert (found.verdict, found.detail) == (Verdict.OK, "")
    assert found.reply is not None
    assert found.reply.text == TEXT
    assert found.reply.usage == Usage(11, 3, None)
    assert len(found.reply.event_ns) == len(WORDS)


# http-error -------------------------------------------------------------------------------------------

REFUSALS = [
    (429, "TooManyRequestsError", "the queue is full"),
    (500, "InternalServerError", "EngineCore encountered an issue"),
    (503, "ServiceUnavailableError", "the engine is paused"),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("status", "kind", "words"), REFUSALS)
def test_another_status_is_an_http_error(status: int, kind: str, words: str, stream: bool) -> None:
    found = ask(says(plain(error_json(status, kind, words), status)), stream=stream)
    failed(found, Verdict.HTTP_ERROR, f"HTTP {status}", kind, words)
    assert found.exchange.status == status


def test_another_status_stays_an_http_error_when_its_words_are_cut() -> None:
    body = error_json(500, "InternalServerError", "out of memory")
    found = ask(says(head(500, content_length=len(body) + 50) + body, then="close"))
    failed(found, Verdict.HTTP_ERROR, "HTTP 500", "out of memory")
    assert found.exchange.transport is Verdict.TRUNCATED


@pytest.mark.parametrize("status", [204, 307])
def test_no_status_but_200_is_an_answer(status: int) -> None:
    """A redirect is not followed: another server would answer than the one that is measured."""

    async def main() -> Judged:
        async with Server(says(completion_elsewhere(status))) as server:
            [done] = await send(server, [b"{}"])
            assert len(server.bodies) == 1
        return judge_exchange(done, model=MODEL, stream=False)

    failed(run(main()), Verdict.HTTP_ERROR, f"HTTP {status}")


def completion_elsewhere(status: int) -> bytes:
    if status == 204:
        return b"HTTP/1.1 204 No Content\r\n\r\n"
    return head(status, location="/v1/chat/completions", content_length=0)


# in-band-error ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_an_error_object_under_200_is_an_in_band_error(stream: bool) -> None:
    body = error_json(500, "InternalServerError", "CUDA out of memory")
    failed(ask(says(plain(body)), stream=stream), Verdict.IN_BAND_ERROR, "CUDA out of memory")


@pytest.mark.parametrize("last", [[DONE], []], ids=["with-DONE", "without-DONE"])
def test_an_error_event_in_a_stream_is_an_in_band_error(last: list[bytes]) -> None:
    error = event(error_json(500, "InternalServerError", "EngineCore died"))
    found = ask(says(sse([role(), delta(WORDS[0]), error, *last])), stream=True)
    failed(found, Verdict.IN_BAND_ERROR, "EngineCore died")
    assert found.reply is not None
    assert found.reply.text == WORDS[0]


@pytest.mark.parametrize("then", ["close", "reset"])
def test_an_error_that_the_engine_stated_wins_over_the_broken_connection(then: str) -> None:
    error = event(error_json(500, "InternalServerError", "EngineCore died"))
    found = ask(says(chunked_head() + piece(role()) + piece(error), then=then), stream=True)
    failed(found, Verdict.IN_BAND_ERROR, "EngineCore died")
    assert found.exchange.transport is not None


# truncated --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [1, 40, len(completion())])
def test_fewer_bytes_than_promised_are_truncated(missing: int) -> None:
    body = completion()
    found = ask(says(head(content_length=len(body)) + body[: len(body) - missing], then="close"))
    failed(found, Verdict.TRUNCATED, f"after {len(body) - missing} of the {len(body)} bytes")
    assert found.exchange.last_byte_ns is None
    assert found.exchange.body == body[: len(body) - missing]


def test_a_whole_reply_of_which_more_was_promised_is_truncated() -> None:
    """The JSON is complete; the server promised more. The text is kept, the verdict is a failure."""
    body = completion()
    found = ask(says(head(content_length=len(body) + 1) + body, then="close"))
    failed(found, Verdict.TRUNCATED)
    assert found.reply is not None
    assert found.reply.text == TEXT


@pytest.mark.parametrize("stream", [False, True])
def test_chunks_without_the_last_one_are_truncated(stream: bool) -> None:
    parts = events() if stream else [completion()]
    kind = "text/event-stream" if stream else "application/json"
    found = ask(says(chunked_head(kind) + b"".join(piece(part) for part in parts), then="close"), stream=stream)
    failed(found, Verdict.TRUNCATED, "before the last chunk")
    assert found.reply is not None
    assert found.reply.text == TEXT
    assert found.exchange.last_byte_ns is None


UNFINISHED = {
    "nothing": ([], "before its first event"),
    "role-only": ([role()], "no finish reason"),
    "no-finish-reason": ([role(), *map(delta, WORDS), DONE], "no finish reason"),
    "no-done": ([role(), *map(delta, WORDS), delta("", "stop"), final_usage()], "no [DONE]"),
    "inside-an-event": ([role(), delta(WORDS[0])[:-20]], "cut inside an event"),
    "aborted": ([role(), delta(WORDS[0]), delta("", "abort"), DONE], "abort"),
}


@pytest.mark.parametrize("framing", ["chunked", "until-close"])
@pytest.mark.parametrize("case", UNFINISHED)
def test_a_stream_that_closes_in_order_before_its_end_is_truncated(case: str, framing: str) -> None:
    parts, words = UNFINISHED[case]
    if framing == "chunked":
        answer = says(sse(parts))
    else:
        answer = says(head(kind="text/event-stream", connection="close") + b"".join(parts), then="close")
    found = ask(answer, stream=True)
    failed(found, Verdict.TRUNCATED, words)
    assert found.exchange.transport is None
    assert found.reply is not None
    assert TEXT.startswith(found.reply.text)


# empty ------------------------------------------------------------------------------------------------


def test_a_reply_without_text_is_empty() -> None:
    failed(ask(says(plain(completion("")))), Verdict.EMPTY)
    failed(ask(says(sse([role(), delta("", "stop"), DONE])), stream=True), Verdict.EMPTY)


def test_a_reply_of_zero_tokens_is_empty() -> None:
    usage = {"prompt_tokens": 11, "completion_tokens": 0, "total_tokens": 11}
    failed(ask(says(plain(completion(usage=usage)))), Verdict.EMPTY, "0 completion tokens")


# timed-out --------------------------------------------------------------------------------------------


async def _drip_plain(wire: Wire, _: bytes) -> None:
    await wire.send(head(content_length=len(completion())))
    for byte in completion():
        await wire.send(bytes([byte]))
        await asyncio.sleep(0.03)


async def _drip_stream(wire: Wire, _: bytes) -> None:
    await wire.send(chunked_head() + piece(role()))
    while True:
        await wire.send(piece(delta("x")))
        await asyncio.sleep(0.03)


async def _drip_heads(wire: Wire, _: bytes) -> None:
    for byte in head(content_length=1) * 9:
        await wire.send(bytes([byte]))
        await asyncio.sleep(0.03)


LIMIT = 0.4
SLOW = {
    "nothing-comes": (says(b"", then="hang"), False, None),
    "heads-and-nothing": (says(head(content_length=9), then="hang"), False, 200),
    "stream-heads-and-nothing": (says(chunked_head(), then="hang"), True, 200),
    "stream-stalls": (says(chunked_head() + piece(role()) + piece(delta(WORDS[0])), then="hang"), True, 200),
    "whole-stream-without-its-end": (says(sse(events())[: -len(END)], then="hang"), True, 200),
    "drip-heads": (_drip_heads, False, None),
    "drip-plain": (_drip_plain, False, 200),
    "drip-stream": (_drip_stream, True, 200),
}


@pytest.mark.parametrize("case", SLOW)
def test_no_complete_answer_within_the_limit_is_timed_out(case: str) -> None:
    """However busy the server looks: the limit is for the whole exchange, not from byte to byte."""
    answer, stream, status = SLOW[case]
    found = ask(answer, stream=stream, timeout=LIMIT)
    failed(found, Verdict.TIMED_OUT, "0.4 s")
    assert found.exchange.status == status
    assert (found.reply is None) == (status is None)
    assert (found.exchange.first_byte_ns is None) == (case == "nothing-comes")
    assert found.exchange.last_byte_ns is None


def test_a_timed_out_stream_keeps_what_came() -> None:
    answer, stream, _ = SLOW["stream-stalls"]
    reply = ask(answer, stream=stream, timeout=LIMIT).reply
    assert reply is not None
    assert reply.text == WORDS[0]
    assert reply.first_token_ns is not None


@pytest.mark.parametrize("concurrency", [1, 2, 3])
def test_each_request_has_its_own_time(concurrency: int) -> None:
    """Those that answer in time are well, however many before them did not; of those that hang, the one that was sent
    first is given up first."""
    pattern = [False, True, False, False, True, True, False, True]

    async def answer(wire: Wire, body: bytes) -> None:
        if pattern[json.loads(body)["n"]]:
            await wire.send(plain(completion()))
        else:
            await wire.gone()

    async def main() -> Played:
        async with Server(answer) as server:
            return await play(server, numbered(len(pattern)), concurrency=concurrency, timeout=LIMIT)

    played = run(main())
    assert [one.transport is None for one in played.exchanges] == pattern
    for one in played.captured:
        assert one.outcome == "complete" or one.ended_ns - one.planned_ns >= LIMIT * 1e9
    late = [one.planned_ns for one in played.captured if one.outcome == "timed-out"]
    assert late == sorted(late)


def test_an_error_status_whose_words_never_end_is_an_http_error() -> None:
    found = ask(says(head(503, content_length=99) + b'{"error"', then="hang"), timeout=LIMIT)
    failed(found, Verdict.HTTP_ERROR, "HTTP 503")
    assert found.exchange.transport is Verdict.TIMED_OUT


# refused, reset ---------------------------------------------------------------------------------------


def test_a_closed_port_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    [done] = run(send(f"http://127.0.0.1:{port}", [b"{}"]))
    found = failed(judge_exchange(done, model=MODEL, stream=False), Verdict.REFUSED)
    assert found.reply is None
    assert (done.first_byte_ns, done.last_byte_ns, done.status) == (None, None, None)


@pytest.mark.parametrize("stream", [False, True])
def test_a_reset_after_accept_is_reset(stream: bool) -> None:
    async def greet(wire: Wire) -> None:
        await wire.reader.readexactly(1)
        await wire.reset()

    async def main() -> Judged:
        async with Server(says(b""), greet=greet) as server:
            [done] = await send(server, [b"{}"])
        return judge_exchange(done, model=MODEL, stream=stream)

    assert failed(run(main()), Verdict.RESET).reply is None


def test_a_reset_that_comes_at_once_is_no_answer() -> None:
    """The race of RST and connect: whichever the client sees, nothing was answered."""

    async def main() -> list[Judged]:
        async with Server(says(b""), greet=Wire.reset) as server:
            done = await send(server, [b"{}"] * 20)
            assert server.connections in (20, 21)  # one was opened before the round
        return [judge_exchange(one, model=MODEL, stream=False) for one in done]

    for found in run(main()):
        assert found.verdict in (Verdict.RESET, Verdict.REFUSED)
        assert found.reply is None


def test_a_connection_that_closes_without_an_answer_is_reset() -> None:
    assert failed(ask(says(b"", then="close")), Verdict.RESET).reply is None
    assert failed(ask(says(head()[:20], then="close")), Verdict.RESET).reply is None


def test_a_reset_inside_a_plain_body_is_reset() -> None:
    body = completion()
    found = ask(says(head(content_length=len(body)) + body[:-1], then="reset"))
    failed(found, Verdict.RESET)
    assert found.exchange.status == 200
    assert found.exchange.body == body[:-1]
    assert found.exchange.last_byte_ns is None


def test_a_reset_inside_a_stream_is_reset() -> None:
    found = ask(says(chunked_head() + piece(role()) + piece(delta(WORDS[0])), then="reset"), stream=True)
    failed(found, Verdict.RESET)
    assert found.reply is not None
    assert found.reply.text == WORDS[0]


def test_a_reset_after_done_is_reset() -> None:
    """The engine said everything and the transport broke: still no answer that ended in order."""
    failed(ask(says(sse(events())[: -len(END)], then="reset"), stream=True), Verdict.RESET)


def test_something_that_is_no_http_is_malformed() -> None:
    found = failed(ask(says(b"SSH-2.0-OpenSSH_9.6\r\n\r\n", then="hang")), Verdict.MALFORMED, "no HTTP")
    assert found.reply is None
    cut = chunked_head() + piece(role()) + piece(delta(WORDS[0])) + b"zz\r\n"
    found = failed(ask(says(cut, then="hang"), stream=True), Verdict.MALFORMED, "no HTTP")
    assert found.reply is not None
    assert found.reply.text == WORDS[0]


def test_another_protocol_is_malformed() -> None:
    upgrade = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n\x81\x00"
    failed(ask(says(upgrade, then="hang")), Verdict.MALFORMED, "no HTTP")


# wrong-model, malformed -------------------------------------------------------------------------------


def test_another_model_is_wrong_model() -> None:
    failed(ask(says(plain(completion(model="other")))), Verdict.WRONG_MODEL, "'other'")
    failed(ask(says(sse(events(model="other"))), stream=True), Verdict.WRONG_MODEL, "'other'")


PAGE = b"<!DOCTYPE html><html><body>502 Bad Gateway</body></html>"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (PAGE, "text/html"),
        (completion()[:-5], "application/json"),
        (b'{"hello": "world"}', "application/json"),
        (b"null", "application/json"),
        (b"\xff\xfe\x00", "application/octet-stream"),
    ],
    ids=["html", "broken-json", "another-shape", "null", "binary"],
)
def test_something_else_under_200_is_malformed(body: bytes, kind: str, stream: bool) -> None:
    failed(ask(says(plain(body, 200, kind)), stream=stream), Verdict.MALFORMED)


def test_a_stream_with_an_event_that_is_no_json_is_malformed() -> None:
    found = ask(says(sse([role(), delta(WORDS[0]), event(b'{"choices": ['), DONE])), stream=True)
    failed(found, Verdict.MALFORMED, "no JSON")


def test_an_empty_body_under_200_is_no_answer() -> None:
    failed(ask(says(plain(b""))), Verdict.MALFORMED)
    failed(ask(says(plain(b"", 200, "text/event-stream")), stream=True), Verdict.TRUNCATED)


def test_a_compressed_reply_was_not_asked_for() -> None:
    """Bytes are read as they come, so the request must say that it takes no compression."""

    async def main() -> bytes:
        async with Server(says(plain(completion()))) as server:
            await send(server, [json.dumps({"model": MODEL}).encode()])
            return server.heads[0]

    sent = run(main()).lower()
    assert b"\r\naccept-encoding: identity\r\n" in sent
    assert b"\r\ncontent-type: application/json\r\n" in sent
    assert sent.startswith(b"post /v1/chat/completions http/1.1\r\n")


# interrupted ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "before", [b"", chunked_head(), chunked_head() + piece(role()) + piece(delta(WORDS[0]))], ids=len
)
def test_a_request_under_way_when_the_run_is_stopped_is_interrupted(before: bytes) -> None:
    stop = asyncio.Event()
    left = asyncio.Event()

    async def answer(wire: Wire, _: bytes) -> None:
        if before:
            await wire.send(before)
        await wire.taken()
        stop.set()
        await wire.gone()
        left.set()

    async def main() -> Judged:
        async with Server(answer) as server:
            began = time.monotonic()
            [done] = await send(server, [b"{}"], stop=stop, timeout=60)
            assert time.monotonic() - began < 30
            await asyncio.wait_for(left.wait(), 10)  # the engine sees that nobody waits any more
        return judge_exchange(done, model=MODEL, stream=True)

    found = failed(run(main()), Verdict.INTERRUPTED)
    assert found.exchange.last_byte_ns is None
    assert (found.reply is None) == (not before)
    if found.reply is not None:
        assert found.reply.text == (WORDS[0] if delta(WORDS[0]) in before else "")  # what had come is kept
