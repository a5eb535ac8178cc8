"""Stamps in their order, and against the server's own on the same monotonic clock. No test asserts on speed."""

from __future__ import annotations

import socket
import struct
import time
from itertools import pairwise
from typing import Any

import pytest
from load_bytes import END, MODEL, TEXT, WORDS, chunked_head, completion, delta, events, head, piece, plain
from load_wire import Played, Server, Wire, play, run, send

from runner.engine.verdict import Verdict
from runner.load import dial, exchange
from runner.load.capture import Captured
from runner.load.exchange import Exchange, read_exchange
from runner.load.reading import judge_exchange
from runner.load.stamps import ROOM, enable_stamps, keep_stamping, wall_offset
from runner.record.clock import RunClock


def one(pieces: list[bytes], count: int = 1, concurrency: int = 1) -> tuple[Server, list[Exchange]]:
    """Each piece is sent after the client has taken the one before; the stamps are in `wires`."""

    async def answer(wire: Wire, _: bytes) -> None:
        for data in pieces:
            await wire.taken()
            await wire.send(data)

    async def main() -> tuple[Server, list[Exchange]]:
        async with Server(answer) as server:
            return server, await send(server, [b"{}"] * count, concurrency=concurrency)

    return run(main())


def in_order(*stamps: int | None) -> None:
    known = [stamp for stamp in stamps if stamp is not None]
    assert len(known) == len(stamps), stamps
    assert known == sorted(known), stamps


def test_a_stream_is_stamped_after_the_server_sent_it() -> None:
    pieces = [chunked_head(), *(piece(part) for part in events()), END]
    server, [done] = one(pieces)
    found = judge_exchange(done, model=MODEL, stream=True)
    assert found.verdict is Verdict.OK
    assert found.reply is not None
    assert found.reply.text == TEXT
    [arrived], sends = server.arrived, server.wires[0].sends
    sent_head, sent_role, sent_words, sent_end = sends[0], sends[1], sends[2 : 2 + len(WORDS)], sends[-1]
    first, last = found.reply.first_token_ns, found.reply.last_token_ns
    assert first is not None
    assert last is not None
    in_order(done.planned_ns, done.sent_ns, done.first_byte_ns, first, last, done.last_byte_ns)
    in_order(done.sent_ns, arrived, sent_head, done.first_byte_ns)
    # each byte after its sending; and before the next one's, for the server waited in between
    in_order(sent_head, done.first_byte_ns, sent_role)
    assert len(found.reply.event_ns) == len(WORDS)
    for seen, sent, following in zip(found.reply.event_ns, sent_words, sends[3:], strict=False):
        in_order(sent, seen, following)
    in_order(sent_end, done.last_byte_ns)
    assert found.reply.event_ns == (first, found.reply.event_ns[1], last)
    # the role chunk came before, and is no token
    assert done.chunks[0][0] < sent_words[0] < first


def test_a_plain_reply_is_stamped_after_the_server_sent_it() -> None:
    body = completion()
    server, [done] = one([head(content_length=len(body)), body[:50], body[50:]])
    found = judge_exchange(done, model=MODEL, stream=False)
    assert found.verdict is Verdict.OK
    assert found.reply is not None
    assert (found.reply.first_token_ns, found.reply.last_token_ns) == (None, None)  # nobody saw a token come
    sends = server.wires[0].sends
    in_order(done.planned_ns, done.sent_ns, server.arrived[0], sends[0], done.first_byte_ns, sends[1])
    assert [data for _, data in done.chunks] == [b"", body[:50], body[50:]]
    in_order(sends[1], done.chunks[1][0], sends[2], done.chunks[2][0], done.last_byte_ns)


def test_the_first_byte_is_not_the_first_token() -> None:
    """The head and the role come at once and the first word after a pause: only the token waits for it."""
    pieces = [chunked_head() + piece(events()[0]), b"".join(piece(part) for part in events()[1:]) + END]
    server, [done] = one(pieces)
    reply = judge_exchange(done, model=MODEL, stream=True).reply
    assert reply is not None
    sends = server.wires[0].sends
    in_order(sends[0], done.first_byte_ns, sends[1], reply.first_token_ns, done.last_byte_ns)


def test_a_late_last_chunk_moves_the_last_byte_and_not_the_last_token() -> None:
    server, [done] = one([chunked_head() + b"".join(map(piece, events())), END])
    reply = judge_exchange(done, model=MODEL, stream=True).reply
    assert reply is not None
    in_order(reply.last_token_ns, server.wires[0].sends[1], done.last_byte_ns)


@pytest.mark.parametrize("concurrency", [1, 3])
def test_stamps_of_many_requests_are_in_order(concurrency: int) -> None:
    pieces = [chunked_head(), *(piece(part) for part in events()), END]
    server, done = one(pieces, 6, concurrency)
    assert len(server.arrived) == 6
    for each in done:
        reply = judge_exchange(each, model=MODEL, stream=True).reply
        assert reply is not None
        in_order(
            each.planned_ns,
            each.sent_ns,
            each.first_byte_ns,
            reply.first_token_ns,
            reply.last_token_ns,
            each.last_byte_ns,
        )
        in_order(*(stamp for stamp, _ in each.chunks))
    for before, after in pairwise(done):
        in_order(before.planned_ns, after.planned_ns)


# Whose clock ------------------------------------------------------------------------------------------


def held(pieces: list[bytes], **more: Any) -> tuple[list[tuple[int, int, int]], Played]:
    """Each piece is sent while the client, which shares our loop, cannot read: (before, after, when it could)."""
    times: list[tuple[int, int, int]] = []

    async def answer(wire: Wire, _: bytes) -> None:
        for data in pieces:
            await wire.taken()
            before = wire.clock.now()
            await wire.send(data)
            after = wire.clock.now()
            time.sleep(0.01)  # noqa: ASYNC251 - the client is to be late
            times.append((before, after, wire.clock.now()))
        await wire.taken()

    async def main() -> Played:
        async with Server(answer) as server:
            return await play(server, [b"{}"], **more)

    return times, run(main())


PIECES = [chunked_head(), *(piece(part) for part in events()), END]


def test_a_client_that_reads_late_stamps_no_later() -> None:
    """The kernel stamped each piece when it came in, before the client could have looked at it."""
    times, played = held(PIECES)
    [done] = played.exchanges
    assert done.clock == "kernel"
    assert len(done.chunks) == len(times)
    for (before, _, readable), (stamp, _) in zip(times, done.chunks, strict=True):
        in_order(before, stamp, readable)
    for (_, _, readable), (at, seen, _) in zip(times, played.captured[0].reads, strict=True):
        in_order(at, readable, seen)
    assert min(played.captured[0].lags) > 5_000_000


def test_reads_that_are_cut_by_their_size_claim_nothing_that_is_not_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits is joined by the kernel under the latest stamp, which a read that is cut within it has, too."""
    size = 4096
    monkeypatch.setattr(exchange, "READ", size)
    sends: list[tuple[int, int]] = []
    clock = RunClock()
    parts = [delta(f"{number} " + "x" * 700) for number in range(60)]
    with keep_stamping(), socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as ours:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        assert enable_stamps(ours) is None
        ours.connect(server.getsockname())
        offset = wall_offset()
        with server.accept()[0] as theirs:
            theirs.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for data in [chunked_head(), *map(piece, parts)]:
                before = clock.now()
                theirs.sendall(data)
                sends.append((before, clock.now()))
            theirs.sendall(END)
        reads: list[tuple[int | None, int, bytes]] = []
        while True:
            data, [note, *_], _, _ = ours.recvmsg(size, ROOM)
            if not data:
                break
            seconds, nanoseconds = struct.unpack("@qq", note[2])
            reads.append((seconds * 10**9 + nanoseconds - offset - clock.origin_ns, clock.now(), data))
            if data.endswith(END):
                break
    assert sum(len(data) == size for _, _, data in reads) > 5
    captured = Captured(0, 0, None, 0, clock.now(), "complete", "", reads)
    reply = judge_exchange(read_exchange(captured, kernel=True), model=MODEL, stream=True).reply
    assert reply is not None and len(reply.event_ns) == len(parts)
    lowest = dict(reply.event_bounds)
    near = 20_000  # the wall clock is brought to ours from outside; all sends together take some hundred µs
    # Not the last: the end of the stream came behind it, in the same read.
    for place, (at, (before, after)) in enumerate(zip(reply.event_ns[:-1], sends[1:-1], strict=True)):
        assert at > before - near
        assert (lowest.get(place, at) or 0) < after + near


def test_where_stamps_are_kept_the_first_read_of_all_has_one() -> None:
    """The kernel begins some time after it was asked, for the first socket of the machine."""
    with keep_stamping(), socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as ours:
        assert enable_stamps(ours) is None
        ours.connect(server.getsockname())
        with server.accept()[0] as theirs:
            theirs.send(b"x")
            data, notes, _, _ = ours.recvmsg(9, ROOM)
    assert (data, len(notes)) == (b"x", 1)


def test_by_the_users_clock_a_late_read_is_a_late_stamp_and_says_so() -> None:
    times, played = held(PIECES, kernel=False)
    [done] = played.exchanges
    assert done.clock == "user"
    for (_, _, readable), (stamp, _) in zip(times, done.chunks, strict=True):
        in_order(readable, stamp)


def test_two_events_that_one_read_brought_have_the_stamp_of_the_later_one() -> None:
    """The first of them came after the read before, and before that: an upper bound, and its lower one."""
    sent: list[int] = []

    async def answer(wire: Wire, _: bytes) -> None:
        await wire.send(chunked_head() + piece(events()[0]))
        await wire.taken()
        for part in events()[1:3]:
            sent.append(wire.clock.now())
            await wire.send(piece(part))
            time.sleep(0.01)  # noqa: ASYNC251 - two segments, and the client reads neither
        await wire.taken()
        await wire.send(piece(events()[3]))
        await wire.taken()
        await wire.send(b"".join(map(piece, events()[4:])) + END)

    async def main() -> Exchange:
        async with Server(answer) as server:
            [done] = await send(server, [b"{}"])
            return done

    done = run(main())
    reply = judge_exchange(done, model=MODEL, stream=True).reply
    assert reply is not None
    assert (reply.verdict, reply.text) == (Verdict.OK, TEXT)
    assert len(done.chunks) == 4
    before, both, third, _ = (stamp for stamp, _ in done.chunks)
    assert reply.event_ns == (both, both, third)
    assert reply.event_bounds == ((0, before),)
    in_order(before, sent[0], sent[1], both)  # the earlier one came in between


def test_the_chunks_are_the_reads() -> None:
    """Nothing gathers what comes before it is stamped, and nothing cuts it."""
    times, played = held(PIECES)
    assert [data for _, _, data in played.captured[0].reads] == PIECES
    assert len(times) == len(PIECES)


def test_a_read_that_the_kernel_did_not_stamp_gives_its_request_the_users_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a socket that was not asked for stamps: the other requests of the round keep theirs."""
    asked: list[socket.socket] = []

    def enable(sock: socket.socket) -> str | None:
        asked.append(sock)
        return enable_stamps(sock) if len(asked) != 2 else "not this one"

    monkeypatch.setattr(dial, "enable_stamps", enable)

    async def answer(wire: Wire, _: bytes) -> None:
        await wire.send(plain(completion()))

    async def main() -> Played:
        async with Server(answer) as server:
            return await play(server, [b"{}"], count=3, keep_alive=False)

    played = run(main())
    assert len(asked) == 3
    assert [one.clock for one in played.exchanges] == ["kernel", "user", "kernel"]
    assert [[at is None for at, _, _ in one.reads] for one in played.captured] == [[False], [True], [False]]
    for one in played.exchanges:
        in_order(one.sent_ns, one.first_byte_ns, one.ended_ns)
