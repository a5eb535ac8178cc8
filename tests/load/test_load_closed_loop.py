"""The closed loop, as the server counts it: how many at once, which bodies, in which order, and when it ends."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise

import pytest
from load_wire import MODEL, Server, Wire, completion, error_json, head, plain, run, send

from runner.engine.verdict import Verdict
from runner.load.closed_loop import InFlight
from runner.load.exchange import Exchange
from runner.load.reading import judge_exchange
from runner.record.clock import RunClock

OK = plain(completion())


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b'{"n": %d}' % number for number in range(start, start + count)]


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
    bodies = numbered(20, first_index)

    async def answer(wire: Wire, body: bytes) -> None:
        await asyncio.sleep(0.001 * ((int(body[6:-1]) * 7) % 11))
        await wire.send(plain(completion(body.decode())))

    async def main() -> tuple[Server, list[Exchange]]:
        async with Server(answer) as server:
            return server, await send(server, bodies, concurrency=concurrency, first_index=first_index)

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
    assert (done, server.connections) == ([], 0)


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
            await asyncio.sleep(0.1)
            return server, done

    server, done = run(main())
    assert len(server.bodies) == 8
    assert max(server.arrived) <= stopped_at[0]
    assert [one.index for one in done] == list(range(8))
    assert [verdict(one) for one in done] == [Verdict.OK] * 5 + [Verdict.INTERRUPTED] * 3
    assert all(one.sent_ns is not None and one.sent_ns <= stopped_at[0] for one in done)
    assert all(one.last_byte_ns is None for one in done[5:])


def test_stop_between_two_answers_sends_no_more() -> None:
    """Set by whoever listens, at the moment when a slot is free: no request is under way."""
    stop = asyncio.Event()

    async def main() -> tuple[Server, list[Exchange]]:
        async with Server(at_once) as server:
            done = await send(
                server, numbered(10), stop=stop, listen=lambda seen: stop.set() if seen.done == 4 else None
            )
            await asyncio.sleep(0.05)
            return server, done

    server, done = run(main())
    assert server.bodies == numbered(4)
    assert [verdict(one) for one in done] == [Verdict.OK] * 4


def test_a_stop_that_was_set_before_sends_nothing() -> None:
    async def main() -> tuple[Server, list[Exchange]]:
        stop = asyncio.Event()
        stop.set()
        async with Server(at_once) as server:
            done = await send(server, numbered(5), concurrency=2, stop=stop)
            await asyncio.sleep(0.05)
            return server, done

    server, done = run(main())
    assert (server.connections, done) == (0, [])


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
            await asyncio.wait_for(full.wait(), 10)
            loop.cancel()
            with pytest.raises(asyncio.CancelledError):
                await loop
            await asyncio.wait_for(left.wait(), 10)
        return server

    assert len(run(main()).bodies) == len(gone) == 3


def test_a_listener_that_fails_ends_the_loop_with_its_error() -> None:
    """The other slots' requests are given up: nobody would read their answers, and nothing is sent any more."""
    full = asyncio.Event()

    def listen(_: InFlight) -> None:
        raise RuntimeError("the terminal is gone")

    async def main() -> Server:
        async def answer(wire: Wire, body: bytes) -> None:
            if server.in_flight == 3:
                full.set()
            await (full.wait() if body == numbered(1)[0] else wire.gone())
            await wire.send(OK)

        async with Server(answer) as server:
            with pytest.raises(RuntimeError, match="the terminal is gone"):
                await send(server, numbered(9), concurrency=3, timeout=60, listen=listen)
            assert len(asyncio.all_tasks()) <= 1 + server.connections  # the server's own
            await asyncio.sleep(0.05)
        return server

    assert len(run(main()).bodies) == 3


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


# What others watch ------------------------------------------------------------------------------------


def test_what_is_listened_to_counts_every_request() -> None:
    seen: list[tuple[int, int]] = []
    progress = InFlight()

    async def main() -> list[Exchange]:
        async with Server(at_once) as server:
            return await send(
                server,
                numbered(9),
                concurrency=3,
                progress=progress,
                listen=lambda now: seen.append((now.sent, now.done)),
            )

    run(main())
    assert [answered for _, answered in seen] == list(range(1, 10))
    assert all(answered <= sent <= answered + 2 for sent, answered in seen)
    assert (progress.sent, progress.done) == (9, 9)


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
def test_a_proxy_in_the_environment_is_ignored(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, "http://127.0.0.1:1")

    async def main() -> list[Exchange]:
        async with Server(at_once) as server:
            return await send(server, numbered(2))

    assert [verdict(one) for one in run(main())] == [Verdict.OK] * 2


def test_a_clock_that_started_earlier_gives_later_stamps() -> None:
    """Stamps are the run's, not the loop's own."""
    clock = RunClock()
    time.sleep(0.02)

    async def main() -> list[Exchange]:
        async with Server(at_once) as server:
            return await send(server, numbered(1), clock=clock)

    [done] = run(main())
    assert done.planned_ns >= 20_000_000
