"""HTTP/1.1 framing, as servers and the proxies before them write it: where an answer ends, and what follows it."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Callable

import pytest
from load_bytes import (
    DONE,
    END,
    MODEL,
    TEXT,
    chunked_head,
    completion,
    delta,
    error_json,
    events,
    final_usage,
    head,
    piece,
    plain,
    role,
    sse,
)
from load_wire import PATIENCE, Answer, Played, Server, Wire, in_turn, nothing_more, numbered, play, run, says

from runner.engine.verdict import Verdict
from runner.load.connection import Connection
from runner.load.exchange import Exchange
from runner.load.reading import Judged, judge_exchange

BODY = completion()
CHUNKED = head(transfer_encoding="chunked")


def judge(done: Exchange, *, stream: bool = False) -> Judged:
    return judge_exchange(done, model=MODEL, stream=stream)


def ok(done: Exchange, *, stream: bool = False, text: str = TEXT) -> Exchange:
    found = judge(done, stream=stream)
    assert (found.verdict, found.detail) == (Verdict.OK, "")
    assert found.reply is not None
    assert found.reply.text == text
    assert found.exchange.last_byte_ns is not None
    return done


def answered(answer: Answer, count: int = 2) -> tuple[Server, Played]:
    """So many requests, one after the other."""

    async def main() -> tuple[Server, Played]:
        async with Server(answer) as server:
            played = await play(server, numbered(count))
            await nothing_more(server)
            return server, played

    server, played = run(main())
    assert server.bodies == numbered(count)
    return server, played


# Where an answer ends ---------------------------------------------------------------------------------

LASTING: dict[str, bytes] = {
    "content-length": head(content_length=len(BODY)) + BODY,
    "chunked": CHUNKED + piece(BODY) + END,
    "one-byte-chunks": CHUNKED + b"".join(piece(bytes([byte])) for byte in BODY) + END,
    "upper-case-sizes": CHUNKED + f"{len(BODY):X}\r\n".encode() + BODY + b"\r\n" + END,
    "leading-zeros": CHUNKED + f"000{len(BODY):x}\r\n".encode() + BODY + b"\r\n" + b"000\r\n\r\n",
    "extensions": CHUNKED + f'{len(BODY):x};a=1;b="x"\r\n'.encode() + BODY + b"\r\n0;last=yes\r\n\r\n",
    "trailers": CHUNKED + piece(BODY) + b"0\r\nx-checksum: 1\r\netag: 2\r\n\r\n",
    "100-before": b"HTTP/1.1 100 Continue\r\n\r\n" + plain(BODY),
    "103-before": b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\ncontent-length: 9\r\n\r\n" + plain(BODY),
    "two-interim": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n" + CHUNKED + piece(BODY) + END,
    "http-1.0-keep-alive": b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: %d\r\n\r\n%b"
    % (len(BODY), BODY),
    "folded-head": b"HTTP/1.1 200\r\nContent-LENGTH:%d\r\nx: \r\n\r\n%b" % (len(BODY), BODY),
}


@pytest.mark.parametrize("case", LASTING)
def test_an_answer_ends_where_its_framing_says_and_the_connection_stays(case: str) -> None:
    """A client that missed the end would wait for its time-out; one that saw it too early would have less text."""
    server, played = answered(says(LASTING[case]), 3)
    for done in played.exchanges:
        ok(done)
        assert done.body == BODY
        assert done.status == 200
    assert server.connections == 2  # the round's one, and that of `nothing_more`
    assert [one.outcome for one in played.captured] == ["complete"] * 3


CLOSING: dict[str, tuple[bytes, str]] = {
    "connection-close": (head(content_length=len(BODY), connection="close") + BODY, "complete"),
    "connection-close-chunked": (head(transfer_encoding="chunked", connection="close") + piece(BODY) + END, "complete"),
    "until-close": (head() + BODY, "closed"),
    "103-with-a-length": (b"HTTP/1.1 103 X\r\ncontent-length: 9999\r\n\r\n" + head() + BODY, "closed"),
    "http-1.0": (b"HTTP/1.0 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(BODY), BODY), "complete"),
    "http-1.0-until-close": (b"HTTP/1.0 200 OK\r\n\r\n" + BODY, "closed"),
}


@pytest.mark.parametrize("closes", [False, True])
@pytest.mark.parametrize("case", CLOSING)
def test_an_answer_that_ends_its_connection_costs_a_new_one(case: str, closes: bool) -> None:
    """Whether the server closes, or waits for the client to do it: its word is kept."""
    data, outcome = CLOSING[case]
    if outcome == "closed" and not closes:
        return  # nothing else ends such an answer
    server, played = answered(says(data, then="close" if closes else "hang"), 3)
    for done in played.exchanges:
        ok(done)
    assert server.connections == 4
    assert [one.outcome for one in played.captured] == [outcome] * 3
    assert [one.connect_ns is None for one in played.captured] == [True, False, False]
    assert played.troubles == []


@pytest.mark.parametrize("status", [204, 304])
def test_a_status_without_a_body_ends_with_its_head(status: int) -> None:
    """Its length would say otherwise."""
    server, played = answered(says(head(status, content_length=5)), 3)
    for done in played.exchanges:
        assert judge(done).verdict is Verdict.HTTP_ERROR
        assert (done.status, done.body) == (status, b"")
        assert done.last_byte_ns is not None
    assert server.connections == 2


def test_the_fields_are_those_of_the_answer_itself() -> None:
    """Neither an interim response's, nor a trailer's."""
    data = (
        b"HTTP/1.1 103 X\r\ncontent-type: text/html\r\n\r\n" + CHUNKED + piece(BODY) + b"0\r\ncontent-type: a/b\r\n\r\n"
    )
    _, played = answered(says(data))
    assert [done.content_type for done in played.exchanges] == ["application/json"] * 2


def test_only_interim_responses_are_no_answer() -> None:
    _, played = answered(says(b"HTTP/1.1 100 Continue\r\n\r\n", then="close"), 1)
    found = judge(played.exchanges[0])
    assert (found.verdict, found.reply) == (Verdict.RESET, None)
    assert found.exchange.first_byte_ns is not None  # of anything


@pytest.mark.parametrize("cut", ["whole", "bytes"])
def test_data_that_looks_like_the_end_of_chunks_is_data(cut: str) -> None:
    """`0`, an empty line: inside a chunk it is what the engine said, and it may end a read."""
    said = "0\r\n\r\n"
    parts = [role(), delta(said), b": 0\r\n\r\n", delta("", "stop"), final_usage(), DONE]

    async def answer(wire: Wire, _: bytes) -> None:
        if cut == "whole":
            for data in [chunked_head(), *map(piece, parts), END]:
                await wire.send(data)
                await wire.taken()
            return
        await wire.send(chunked_head())
        for part in parts:
            whole = piece(part)
            at = max(whole.find(b"0\r\n\r\n"), 0) + 5
            for data in (whole[:at], whole[at:]):
                await wire.send(data)
                await wire.taken()
        await wire.send(END)

    server, played = answered(answer)
    for done in played.exchanges:
        ok(done, stream=True, text=said)
    assert server.connections == 2


# What follows it --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "surplus",
    [b"x", plain(completion("of nobody")), plain(b"", 408), b"\x00" * 70_000],
    ids=["byte", "ok", "408", "much"],
)
@pytest.mark.parametrize("when", ["with-it", "after-it"])
def test_what_nobody_asked_for_is_nobodys_answer(surplus: bytes, when: str) -> None:
    """The connection is out of step: it is given up, and the next request has its own answer on a new one."""

    async def answer(wire: Wire, body: bytes) -> None:
        mine = plain(completion(body.decode()))
        if when == "with-it":
            await wire.send(mine + surplus)
        else:
            await wire.send(mine[:-1])
            await wire.taken()
            await wire.send(mine[-1:])
            await wire.send(surplus)
        await wire.gone()

    server, played = answered(answer, 3)
    for number, done in enumerate(played.exchanges):
        ok(done, text=numbered(3)[number].decode())
    assert server.connections == 4


def test_a_connection_that_the_server_closed_unsaid_is_not_used_again() -> None:
    """It ends right behind the answer: both lie there when the client reads."""

    async def answer(wire: Wire, body: bytes) -> None:
        with socket.socket(fileno=os.dup(wire.writer.get_extra_info("socket").fileno())) as sock:
            sock.sendall(plain(completion(body.decode())))
            sock.shutdown(socket.SHUT_WR)
        await wire.gone()

    server, played = answered(answer, 4)
    for number, done in enumerate(played.exchanges):
        ok(done, text=numbered(4)[number].decode())
    assert server.connections == 5
    assert played.troubles == []


def two_requests_after(first: Callable[[asyncio.trsock.TransportSocket], object]) -> Played:
    """Two requests, the first of them sent right after the server's end of its opened connection did `first`: before
    the event loop could tell. Both are answered, on one connection more."""
    there = asyncio.Event()

    async def greet(wire: Wire) -> None:
        if len(server.wires) == 1:
            there.set()
            await wire.gone()

    async def opened(_: object) -> None:
        await asyncio.wait_for(there.wait(), PATIENCE)
        first(server.wires[0].writer.get_extra_info("socket"))

    async def main() -> Played:
        nonlocal server
        async with Server(says(plain(BODY)), greet=greet) as server:
            return await play(server, numbered(2), opened=opened)

    server: Server
    played = run(main())
    for one in played.exchanges:
        ok(one)
    assert server.connections == 2
    return played


def test_an_idle_connection_that_the_server_closed_is_opened_again() -> None:
    """Between the opening and the first request: the round has lost no request by it."""
    played = two_requests_after(lambda ours: ours.shutdown(socket.SHUT_WR))
    assert [one.connect_ns is None for one in played.captured] == [False, True]


def test_a_connection_on_which_the_server_spoke_unasked_is_not_used() -> None:
    """A word of farewell to an idle client, say; what it said is no answer to what comes next."""
    farewell = plain(completion("of nobody"))
    two_requests_after(lambda ours: os.write(ours.fileno(), farewell))


# Size -------------------------------------------------------------------------------------------------


def test_a_request_larger_than_every_buffer_arrives_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel takes it in parts; the server reads none until the client had to wait."""
    body = bytes(range(256)) * 80_000  # 20 MB
    waits = asyncio.Event()
    push = Connection._push

    def watched(self: Connection, payload: bytes | memoryview) -> None:
        push(self, payload)
        if self._unsent:
            waits.set()

    monkeypatch.setattr(Connection, "_push", watched)

    async def greet(wire: Wire) -> None:
        wire.writer.transport.pause_reading()
        await asyncio.wait_for(waits.wait(), PATIENCE)
        wire.writer.transport.resume_reading()

    async def main() -> tuple[Server, Played]:
        async with Server(says(plain(BODY)), greet=greet) as server:
            return server, await play(server, [body], count=2, timeout=60)

    server, played = run(main())
    assert server.bodies == [body, body]
    assert server.connections == 1
    for done in played.exchanges:
        ok(done)
        assert done.sent_ns is not None
        assert done.first_byte_ns is not None
        assert done.sent_ns < server.arrived[done.index] < done.first_byte_ns


@pytest.mark.parametrize("framing", ["content-length", "chunked"])
def test_an_answer_of_many_megabytes_is_captured_whole(framing: str) -> None:
    text = "가나다라" * 250_000
    body = completion(text)
    if framing == "content-length":
        data = plain(body)
    else:
        parts = [body[at : at + 50_000] for at in range(0, len(body), 50_000)]
        data = CHUNKED + b"".join(map(piece, parts)) + END
    _, played = answered(says(data))
    for done, captured in zip(played.exchanges, played.captured, strict=True):
        assert done.body == body
        ok(done, text=text)
        assert len(captured.reads) > 1
        assert b"".join(read for _, _, read in captured.reads) == data


# Early answers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 80_000])
@pytest.mark.parametrize("then", ["stay", "close", "reset"])
def test_an_answer_that_comes_before_the_request_was_sent_is_the_answer(then: str, size: int) -> None:
    """The server reads the head, answers, and takes no more; what it said is the reason, not that sending failed."""
    body = b"x" * 20_000_000
    words = plain(error_json(413, "BadRequestError", "the body is too large" + "!" * size), 413)
    done = asyncio.Event()

    class Early(Server):
        async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            wire = Wire(reader, writer, self.clock)
            try:
                await reader.readuntil(b"\r\n\r\n")
                writer.transport.pause_reading()
                await wire.send(words)
                if then == "stay":
                    await done.wait()
                elif then == "reset":
                    await wire.reset()
            finally:
                await wire.close()

    async def main() -> tuple[Server, Played]:
        async with Early(says(b"")) as server:
            played = await play(server, [body], count=2, timeout=30)
            done.set()
            return server, played

    server, played = run(main())
    assert server.connections == 2  # a request that was not sent whole cannot be followed by another
    for one in played.exchanges:
        found = judge(one)
        assert found.verdict is Verdict.HTTP_ERROR, found
        assert "the body is too large" in found.detail
        assert len(found.exchange.body) > size
    assert {one.kind for one in played.troubles} == {"http-error"}


def test_what_came_before_a_reset_is_read_before_the_reset_is_heard_of() -> None:
    """Both lie there when the client gets round to it, and sending is what it would do first."""
    words = plain(error_json(413, "BadRequestError", "the body is too large" + "!" * 80_000), 413)
    ended: list[tuple[str, str]] = []

    async def main() -> bytes:
        over = asyncio.Event()
        with socket.create_server(("127.0.0.1", 0)) as listening:
            ours = socket.create_connection(listening.getsockname())
            theirs = listening.accept()[0]
        ours.setblocking(False)
        connection = Connection(ours, lambda *how: (ended.append(how), over.set()))
        connection.send(b"x" * 20_000_000)
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        theirs.sendall(words)
        theirs.close()
        await asyncio.wait_for(over.wait(), PATIENCE)
        assert not connection.open
        return b"".join(connection.data)

    assert run(main()) == words
    assert ended == [("complete", "")]


def test_a_short_early_answer_keeps_the_connection() -> None:
    """In turn: streamed, plain, streamed; each is the answer to its own request."""
    answers = [says(sse(events())), says(plain(BODY)), says(sse([role(), delta("x"), delta("", "stop"), DONE]))]
    server, played = answered(in_turn(answers), 3)
    ok(played.exchanges[0], stream=True)
    ok(played.exchanges[1])
    ok(played.exchanges[2], stream=True, text="x")
    assert server.connections == 2
