"""The closed loop, as the server counts it: how many at once, which bodies, in which order, and when it ends."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise

import pytest
from load_bytes import MODEL, completion, error_json, head, plain
from load_wire import PATIENCE, Server, Wire, nothing_more, numbered, play, run, send

from runner.engine.verdict import Verdict
from runner.load.arrival import Arrival
from runner.load.capture import CaptureWriter
from runner.load.closed_loop import ClosedLoop
from runner.load.exchange import Exchange
from runner.load.reading import judge_exchange

OK = plain(completion())


async def at_once(wire: Wire, _: bytes) -> None:
    await wire.send(OK)


def verdict(done: Exchange) -> Verdict:
    return judge_exchange(done, model=MODEL, stream=False).verdict


@pytest.mark.parametrize("concurrency", [1, 2, 5])
def test_no_more_than_c_are_in_flight_and_c_are(concurrency: int) -> None:
    """No answer is given before C requests are there: a loop that fills fewer slots would never end."""
    count = concurrency * 4
    full = asyncio.Event()

    async def main() -> Server:
        async def answer(wire: Wire, _: bytes) -> None:
            if server.in_flight == concurrency:
                full.set()
            await full.wait()
            await asyncio.sleep(0.003 * (len(server.bodies) % 3))
            await wire.send(OK)

        async with Server(answer) as server:
            done = await send(server, numbered(count), concurrency=concurrency)
            assert {verdict(one) for one in done} == {Verdict.OK}
            assert len(done) == count
        return server

    server = run(main())
    assert server.most_in_flight == concurrency
    assert server.connections == concurrency  # kept alive, one for each slot


def test_one_slot_sends_one_after_the_other() -> None:
    """Each is sent after the one before has ended: the next is planned no earlier than the last byte."""

    async def main() -> tuple[Server, list[Exchange]]:
        async with Server(at_once) as server:
            return server, await send(server, numbered(12), concurrency=1)

    server, done = run(main())
    assert server.most_in_flight == 1
    for before, after in pairwise(done):
        assert before.last_byte_ns is not None
        assert before.last_byte_ns <= after.planned_ns


@pytest.mark.parametrize("concurrency", [1, 3, 8, 50])
@pytest.mark.parametrize("first_index", [0, 7])
def test_every_body_is_sent_once_in_order_and_comes_back_by_index(concurrency: int, first_index: int) -> None:
    """The answers come back in another order than the requests were sent."""
    given = numbered(20)
    bodies = [given[(first_index + number) % 20] for number in range(20)]  # in turn by number

    async def answer(wire: Wire, body: bytes) -> None:
        await asyncio.sleep(0.001 * ((int(body[6:-1]) * 7) % 11))
        await wire.send(plain(completion(body.decode())))

    async def main() -> tuple[Server, list[Exchange]]:
        async with Server(answer) as server:
            return server, await send(server, given, concurrency=concurrency, first_index=first_index)

    server, done = run(main())
    assert sorted(server.bodies) == sorted(bodies)
    assert server.most_in_flight <= min(concurrency, len(bodies))
    assert [one.index for one in done] == list(range(first_index, first_index + 20))
    by_sending = sorted(done, key=lambda one: (one.planned_ns, one.index))
    assert [one.index for one in by_sending] == [one.index for one in done]
    if concurrency == 1:
        assert server.bodies == bodies
    for one, body in zip(done, bodies, strict=True):
        reply = judge_exchange(one, model=MODEL, stream=False).reply
        assert reply is not None
        assert reply.text == body.decode()  # the answer that this exchange holds is the answer to this body


def test_more_slots_than_requests_send_each_once() -> None:
    async def main() -> Server:
        async with Server(at_once) as server:
            done = await send(server, numbered(3), concurrency=64)
            assert [one.index for one in done] == [0, 1, 2]
        return server

    assert sorted(run(main()).bodies) == numbered(3)


def test_no_bodies_send_nothing() -> None:
    async def main() -> tuple[Server, list[Exchange]]:
        async with Server(at_once) as server:
            return server, await send(server, [], concurrency=4)

    server, done = run(main())
    assert (done, server.bodies) == ([], [])


@pytest.mark.parametrize("concurrency", [1, 4])
def test_requests_that_fail_do_not_stop_the_loop(concurrency: int) -> None:
    """Every third is answered; between them 503, RST, cut bodies and a request that never ends."""
    expected = {
        1: Verdict.HTTP_ERROR,
        2: Verdict.RESET,
        4: Verdict.TRUNCATED,
        5: Verdict.TIMED_OUT,
    }

    async def answer(wire: Wire, body: bytes) -> None:
        kind = int(body[6:-1]) % 6
        if kind % 3 == 0:
            await wire.send(OK)
        elif kind == 1:
            await wire.send(plain(error_json(503, "ServiceUnavailableError", "paused"), 503))
        elif kind == 2:
            await wire.reset()
        elif kind == 4:
            await wire.send(OK[:-3])
            await wire.close()
        else:
            await wire.gone()

    async def main() -> tuple[Server, list[Exchange]]:
        async with Server(answer) as server:
            return server, await send(server, numbered(24), concurrency=concurrency, timeout=0.3)

    server, done = run(main())
    assert sorted(server.bodies) == sorted(numbered(24))
    assert [one.index for one in done] == list(range(24))
    assert [verdict(one) for one in done] == [expected.get(number % 6, Verdict.OK) for number in range(24)]


def test_a_dead_engine_fails_every_request() -> None:
    async def main() -> list[Exchange]:
        async with Server(at_once) as server:
            endpoint = server.endpoint
        return await send(endpoint, numbered(9), concurrency=3)

    done = run(main())
    assert [verdict(one) for one in done] == [Verdict.REFUSED] * 9


# Stop -------------------------------------------------------------------------------------------------


def test_stop_ends_the_loop_at_once_and_nothing_is_sent_after_it() -> None:
    stop = asyncio.Event()
    stopped_at: list[int] = []

    async def main() -> tuple[Server, list[Exchange]]:
        async def answer(wire: Wire, body: bytes) -> None:
            number = int(body[6:-1])
            if number < 5:
                await wire.send(OK)
                return
            if server.in_flight == 3:
                stopped_at.append(server.clock.now())
                stop.set()
            await wire.gone()

        async with Server(answer) as server:
            began = time.monotonic()
            done = await send(server, numbered(100), concurrency=3, stop=stop, timeout=60)
            assert time.monotonic() - began < 30
            await nothing_more(server)
            return server, done

    server, done = run(main())
    assert len(server.bodies) == 8
    assert max(server.arrived) <= stopped_at[0]
    assert [one.index for one in done] == list(range(8))
    assert [verdict(one) for one in done] == [Verdict.OK] * 5 + [Verdict.INTERRUPTED] * 3
    assert all(one.sent_ns is not None and one.sent_ns <= stopped_at[0] for one in done)
    assert all(one.last_byte_ns is None for one in done[5:])


def test_a_stop_that_was_set_before_sends_nothing() -> None:
    async def main() -> tuple[Server, list[Exchange]]:
        stop = asyncio.Event()
        stop.set()
        async with Server(at_once) as server:
            done = await send(server, numbered(5), concurrency=2, stop=stop)
            await nothing_more(server)
            return server, done

    server, done = run(main())
    assert (server.bodies, done) == ([], [])


def test_a_cancelled_loop_leaves_nothing_behind() -> None:
    """`run` sees that no task is left; the server sees that its clients have gone."""
    gone: list[bytes] = []
    full, left = asyncio.Event(), asyncio.Event()

    async def main() -> Server:
        async def answer(wire: Wire, body: bytes) -> None:
            if server.in_flight == 3:
                full.set()
            await wire.gone()
            gone.append(body)
            if len(gone) == 3:
                left.set()

        async with Server(answer) as server:
            loop = asyncio.ensure_future(send(server, numbered(9), concurrency=3, timeout=60))
            await asyncio.wait_for(full.wait(), PATIENCE)
            loop.cancel()
            with pytest.raises(asyncio.CancelledError):
                await loop
            await asyncio.wait_for(left.wait(), PATIENCE)
        return server

    assert len(run(main()).bodies) == len(gone) == 3


def test_what_cannot_be_kept_ends_the_loop_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk, say. The other slots' requests are given up, and nothing is sent any more."""
    full, left = asyncio.Event(), asyncio.Event()
    gone: list[bytes] = []

    def keep(self: CaptureWriter, arrival: Arrival) -> None:
        raise OSError("no space is left")

    monkeypatch.setattr(CaptureWriter, "__call__", keep)

    async def main() -> Server:
        async def answer(wire: Wire, body: bytes) -> None:
            if server.in_flight == 3:
                full.set()
            if body == numbered(1)[0]:
                await full.wait()
                await wire.send(OK)
                return
            await wire.gone()
            gone.append(body)
            if len(gone) >= 2:
                left.set()

        async with Server(answer) as server:
            with pytest.raises(OSError, match="no space is left"):
                await send(server, numbered(9), concurrency=3, timeout=60)
            await asyncio.wait_for(left.wait(), PATIENCE)
            await nothing_more(server)
        return server

    assert len(run(main()).bodies) <= 4  # three, and the one whose sending was before the keeping


def test_a_server_that_closes_after_every_answer_is_connected_anew() -> None:
    body = completion()

    async def answer(wire: Wire, _: bytes) -> None:
        await wire.send(head(content_length=len(body), connection="close") + body)
        await wire.close()

    async def main() -> tuple[Server, list[Exchange]]:
        async with Server(answer) as server:
            return server, await send(server, numbered(8), concurrency=2)

    server, done = run(main())
    assert [verdict(one) for one in done] == [Verdict.OK] * 8
    assert server.connections == 8


@pytest.mark.parametrize("concurrency", [2, 5])
def test_no_more_than_one_slot_is_idle_while_work_remains(concurrency: int) -> None:
    """The server holds every answer until C - 1 requests are there: a loop that has two slots idle, because the next
    request waits for something other than its own slot's answer, would never end."""
    count = concurrency * 10

    async def main() -> tuple[Server, list[int]]:
        enough = asyncio.Event()
        counts: list[int] = []

        async def answer(wire: Wire, _: bytes) -> None:
            enough.set()
            while server.in_flight < concurrency - 1 and len(server.bodies) < count:
                enough.clear()
                await asyncio.wait_for(enough.wait(), PATIENCE)
            counts.append(server.in_flight)
            await wire.send(OK)

        async with Server(answer) as server:
            done = await send(server, numbered(count), concurrency=concurrency, timeout=60)
            assert [verdict(one) for one in done] == [Verdict.OK] * count
        return server, counts

    server, counts = run(main())
    assert server.most_in_flight <= concurrency
    assert min(counts[: count - concurrency]) >= concurrency - 1


def test_the_next_request_goes_out_before_the_last_one_is_put_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writing what came must not keep the slot idle."""
    sent_when_kept: list[int] = []
    loops: list[ClosedLoop] = []
    kept = CaptureWriter.__call__

    def keep(self: CaptureWriter, arrival: Arrival) -> None:
        sent_when_kept.append(loops[0].seen.sent)
        kept(self, arrival)

    async def opened(loop: ClosedLoop) -> None:
        loops.append(loop)

    monkeypatch.setattr(CaptureWriter, "__call__", keep)

    async def main() -> None:
        async with Server(at_once) as server:
            await play(server, numbered(4), opened=opened)

    run(main())
    assert sent_when_kept == [2, 3, 4, 4]
