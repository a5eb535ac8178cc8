"""Streams that break a naive client, over the wire: the inputs on which the tools of the field were seen to fail, and
server-sent events as the standard allows them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from load_bytes import DONE, END, MODEL, chunked_head, delta, error_json, event, final_usage, head, piece, plain, role
from load_wire import Server, Wire, ask, play, run, says

from runner.engine.reply import Reply, Usage
from runner.engine.verdict import Verdict
from runner.load.reading import Judged, judge_exchange

STOP = delta("", "stop")


def streamed(parts: Sequence[bytes]) -> tuple[Judged, list[int]]:
    """Each part in an HTTP chunk of its own, sent once the client has read the one before; and when that was."""

    async def answer(wire: Wire, _: bytes) -> None:
        for data in (chunked_head(), *map(piece, parts), END):
            await wire.send(data)
            await wire.taken()

    async def main() -> tuple[Judged, list[int]]:
        async with Server(answer) as server:
            [done] = (await play(server, [b"{}"])).exchanges
            return judge_exchange(done, model=MODEL, stream=True), server.wires[0].sends[1:]

    return run(main())


def replied(found: Judged) -> Reply:
    assert found.reply is not None, found
    return found.reply


def ok(parts: Sequence[bytes]) -> Reply:
    found, _ = streamed(parts)
    assert (found.verdict, found.detail) == (Verdict.OK, "")
    return replied(found)


def cuts(whole: bytes) -> list[Reply]:
    """The same stream in one piece, and cut at each of its bytes into two that arrive apart."""

    async def answer(wire: Wire, body: bytes) -> None:
        cut = int(body)
        await wire.send(chunked_head())
        for data in (whole[:cut], whole[cut:]) if cut else (whole,):
            await wire.taken()
            await wire.send(piece(data))
        await wire.send(END)

    async def main() -> list[Reply]:
        async with Server(answer) as server:
            bodies = [str(cut).encode() for cut in range(len(whole))]
            done = (await play(server, bodies, concurrency=4)).exchanges
        assert all(sum(bool(data) for _, data in one.chunks) == 2 for one in done[1:])
        return [replied(judge_exchange(one, model=MODEL, stream=True)) for one in done]

    found = run(main())
    assert len(found) == len(whole)
    return found


def said(reply: Reply) -> tuple[Any, ...]:
    return reply.verdict, reply.detail, reply.text, reply.reasoning, reply.usage, reply.finish_reason


# The seven inputs -------------------------------------------------------------------------------------


def test_input_1_text_that_holds_other_line_breaks() -> None:
    """One event and its text whole: only LF, CR and CRLF end a line."""
    spoken = "a\u2028b\u0085c\u2029d"
    whole = json.dumps({"model": MODEL, "choices": [{"index": 0, "delta": {"content": spoken}}]}, ensure_ascii=False)
    assert len(whole.splitlines()) == 4  # what a naive client reads
    reply = ok([role(), event(whole.encode()), STOP, DONE])
    assert reply.text == spoken
    assert len(reply.event_ns) == 1


def test_input_2_unlucky_packets() -> None:
    """White space at a cut is text, a character may be cut inside, and half an event has the stamp of its last byte."""
    for spoken, at in (("Hello world", b" world"), ("so \U0001f642 it is", "\U0001f642".encode()), (" \n ", b" ")):
        whole = delta(spoken)
        first = whole.index(at if at != b" " else b'" ') + 1
        for cut in (first - 1, first, first + 1, first + 2, len(whole) - 1):
            found, sends = streamed([role(), whole[:cut], whole[cut:], STOP, DONE])
            reply = replied(found)
            assert (found.verdict, reply.text) == (Verdict.OK, spoken)
            [stamp] = reply.event_ns
            assert sends[2] <= stamp <= sends[3]


LINES = [
    b":ping",
    b"",
    b"event: message",
    b"id: 7",
    b"retry: 5",
    b"data:" + role()[6:].strip(),
    b"",
    b": ping",
    b"",
    b"data:" + delta("가")[6:].strip(),
    b"",
    b"data: " + STOP[6:].strip(),
    b"",
    b"data:[DONE]",
]


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"], ids=["no-bom", "bom"])
@pytest.mark.parametrize("newline", [b"\n", b"\r", b"\r\n"], ids=["lf", "cr", "crlf"])
def test_input_3_other_framing_cut_at_every_byte(newline: bytes, bom: bytes) -> None:
    """Comments, every line end, no blank after the colon, no empty line at the end."""
    expected = (Verdict.OK, "", "가", "", None, "stop")
    replies = cuts(bom + newline.join(LINES))
    assert {said(reply) for reply in replies} == {expected}
    assert {len(reply.event_ns) for reply in replies} == {1}


@pytest.mark.parametrize("newline", [b"\n", b"\r", b"\r\n"], ids=["lf", "cr", "crlf"])
def test_input_3_a_ping_is_no_token_and_the_first_one_has_its_own_stamp(newline: bytes) -> None:
    parts = [b":ping" + newline * 2, delta("a").replace(b"\n", newline), b":ping" + newline * 2]
    found, sends = streamed([*parts, STOP.replace(b"\n", newline), DONE])
    assert found.verdict is Verdict.OK
    first = replied(found).first_token_ns
    assert first is not None
    assert sends[1] <= first <= sends[2]
    assert found.exchange.first_byte_ns is not None
    assert found.exchange.first_byte_ns <= sends[0]


@pytest.mark.parametrize("last", [[DONE], []], ids=["with-DONE", "without"])
def test_input_4_an_error_inside_a_200(last: list[bytes]) -> None:
    """Three tokens came; it is a failure all the same, and its words are the engine's."""
    tokens = [delta(word) for word in "abc"]
    found, _ = streamed([*tokens, event({"error": {"message": "engine\n dead"}}), *last])
    assert (found.verdict, found.detail) == (Verdict.IN_BAND_ERROR, "engine dead")
    assert replied(found).text == "abc"
    found, _ = streamed([*tokens, b"event: error\ndata: engine dead\n\n", *last])
    assert (found.verdict, found.detail) == (Verdict.IN_BAND_ERROR, "engine dead")
    found, _ = streamed([event(error_json(500, "InternalServerError", "engine dead")), *last])
    assert (found.verdict, found.detail) == (Verdict.IN_BAND_ERROR, "InternalServerError: engine dead")


def test_input_5_a_clean_cut() -> None:
    """Five tokens, then the socket closes in order: nothing of HTTP is missing, and yet no short success."""
    tokens = b"".join(delta(word) for word in "abcde")
    found = ask(says(head(kind="text/event-stream") + tokens, then="close"), stream=True)
    assert (found.verdict, found.exchange.transport) == (Verdict.TRUNCATED, None)
    assert "no finish reason; no [DONE]" in found.detail
    assert "5 events" in found.detail
    assert replied(found).text == "abcde"


@pytest.mark.parametrize("kind", ["text/html", "text/event-stream", "application/json"])
@pytest.mark.parametrize("stream", [True, False])
def test_input_5_a_page_under_200(kind: str, stream: bool) -> None:
    page = b"<!doctype html><html><body>502</body></html>"
    found = ask(says(plain(page, 200, kind)), stream=stream)
    assert found.verdict is Verdict.MALFORMED
    assert "HTML" in found.detail


def test_input_6_usage_in_a_chunk_of_its_own() -> None:
    """`usage: null` everywhere else; the first token is not the role's."""
    null = [part.replace(b'"choices"', b'"usage": null, "choices"') for part in (role(), delta("a"), delta("bc"), STOP)]
    found, sends = streamed([*null, final_usage(), DONE])
    reply = replied(found)
    assert (reply.verdict, reply.usage, reply.events_tokens) == (Verdict.OK, Usage(11, 3, None), None)
    assert reply.first_token_ns is not None
    assert sends[1] <= reply.first_token_ns <= sends[2]


def counted(part: bytes, tokens: int) -> bytes:
    """A chunk with the running usage."""
    usage = json.dumps({"prompt_tokens": 5, "completion_tokens": tokens}).encode()
    return part.replace(b'"choices"', b'"usage": ' + usage + b', "choices"')


def test_input_6_running_usage_is_never_summed() -> None:
    reply = ok([counted(role(), 0), counted(delta("a"), 1), counted(delta("bc"), 3), counted(STOP, 3), DONE])
    assert (reply.usage, reply.events_tokens) == (Usage(5, 3, None), (1, 2))


def test_input_6_without_usage_the_tokens_are_unknown() -> None:
    reply = ok([role(), delta("a"), delta("b"), STOP, DONE])
    assert (reply.usage, reply.events_tokens, len(reply.event_ns)) == (None, None, 2)


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_input_6_reasoning_is_a_channel_and_its_first_token_the_first(field: str) -> None:
    found, sends = streamed([role(), delta(None, **{field: "hm "}), delta("a"), STOP, DONE])
    reply = replied(found)
    assert (reply.verdict, reply.reasoning, reply.text) == (Verdict.OK, "hm ", "a")
    assert reply.first_token_ns is not None
    assert sends[1] <= reply.first_token_ns <= sends[2]


@pytest.mark.parametrize("newline", [b"\n", b"\r", b"\r\n"], ids=["lf", "cr", "crlf"])
def test_an_event_that_came_alone_has_a_stamp_that_is_no_upper_bound(newline: bytes) -> None:
    """The LF of a CRLF belongs to the event that its CR ended."""
    parts = [part.replace(b"\n", newline) for part in (role(), delta("a"), delta("b"), STOP, DONE)]
    reply = ok(parts)
    assert (reply.text, reply.event_bounds) == ("ab", ())
    reply = ok([parts[0], parts[1] + parts[2], *parts[3:]])
    assert [number for number, _ in reply.event_bounds] == [0]


def test_input_7_a_burst_of_tokens() -> None:
    """Four events, twelve tokens: how many each brought is known, and each event has its own time."""
    sizes = (1, 4, 3, 4)
    totals = [sum(sizes[: number + 1]) for number in range(4)]
    bursts = [counted(delta("x" * size), total) for size, total in zip(sizes, totals, strict=True)]
    found, sends = streamed([counted(role(), 0), *bursts, counted(STOP, 12), DONE])
    reply = replied(found)
    assert (reply.verdict, reply.events_tokens, reply.usage) == (Verdict.OK, sizes, Usage(5, 12, None))
    assert reply.event_bounds == ()
    for stamp, (sent, following) in zip(reply.event_ns, pairwise(sends[1:6]), strict=True):
        assert sent <= stamp <= following


# The standard -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("newline", [b"\n", b"\r", b"\r\n"], ids=["lf", "cr", "crlf"])
def test_data_over_several_lines_cut_at_every_byte(newline: bytes) -> None:
    value = {"model": MODEL, "choices": [{"index": 0, "delta": {"content": "é"}, "finish_reason": "stop"}]}
    lines = json.dumps(value, indent=1, ensure_ascii=False).encode().split(b"\n")
    whole = newline.join(b"data:" + line for line in lines) + newline * 2 + b"data: [DONE]" + newline * 2
    assert {said(reply) for reply in cuts(whole)} == {(Verdict.OK, "", "é", "", None, "stop")}


def test_fields_that_nobody_knows_and_events_without_data_are_passed_over() -> None:
    odd = b"foo: bar\n\nid\n\n:\n\nevent: x\n\nunknown\n\n"
    assert ok([odd, delta("a"), odd, STOP, odd, DONE, odd]).text == "a"


def test_several_events_in_one_read_are_several_events() -> None:
    reply = ok([role() + delta("a") + delta("b") + delta("c") + STOP + DONE])
    assert reply.text == "abc"
    assert len(reply.event_ns) == 3
    assert [number for number, _ in reply.event_bounds] == [0, 1, 2]


def test_a_stream_in_pieces_of_one_byte_is_the_same_stream() -> None:
    whole = role() + delta("\U0001f642") + STOP + DONE
    reply = ok([bytes([byte]) for byte in whole])
    assert reply.text == "\U0001f642"
    assert reply.event_bounds == ()


def test_what_follows_done_changes_nothing() -> None:
    assert ok([delta("a"), STOP, DONE, b": bye\n\n"]).text == "a"


def test_a_plain_completion_is_no_stream() -> None:
    """The engine was asked for events: a plain completion is none."""
    body = json.dumps({"model": MODEL, "choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}).encode()
    assert ask(says(plain(body)), stream=True).verdict is Verdict.MALFORMED
