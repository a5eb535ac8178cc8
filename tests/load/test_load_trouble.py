"""What is seen of a round while it runs, without reading any answer: trouble by name, silence, and its time."""

from __future__ import annotations

import asyncio
import time

import pytest
from load_bytes import MODEL, chunked_head, completion, head, piece, plain, role
from load_wire import PATIENCE, Played, Server, Wire, nothing_more, numbered, play, run, says, until

from runner.engine.verdict import Verdict
from runner.load import closed_loop
from runner.load.closed_loop import ClosedLoop
from runner.load.reading import judge_exchange
from runner.record.clock import RunClock

OK = plain(completion())


async def at_once(wire: Wire, _: bytes) -> None:
    await wire.send(OK)


def verdicts(played: Played) -> list[Verdict]:
    return [judge_exchange(one, model=MODEL, stream=False).verdict for one in played.exchanges]


def test_after_its_seconds_a_round_sends_nothing_more_and_what_is_under_way_ends() -> None:
    """The first three are held until the time is over, and are answered then."""

    async def main() -> tuple[Server, Played]:
        loops: list[ClosedLoop] = []

        async def opened(loop: ClosedLoop) -> None:
            loops.append(loop)

        async def answer(wire: Wire, _: bytes) -> None:
            await until(lambda: loops[0].over)
            await wire.send(OK)

        async with Server(answer) as server:
            played = await play(server, numbered(50), concurrency=3, seconds=0.2, timeout=60, opened=opened)
            await nothing_more(server)
            return server, played

    server, played = run(main())
    assert sorted(server.bodies) == numbered(3)
    assert verdicts(played) == [Verdict.OK] * 3
    assert played.counted == (3, 3)
    assert played.troubles == []


def test_trouble_is_told_while_the_round_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer waits until its trouble was told: a loop that tells at the end would never get there."""
    monkeypatch.setattr(closed_loop, "STALLED_SECONDS", 0.05)
    monkeypatch.setattr(closed_loop, "_BEAT_SECONDS", 0.01)
    whole = completion()

    async def main() -> Played:
        told = {number: asyncio.Event() for number in range(5)}

        async def answer(wire: Wire, body: bytes) -> None:
            number = int(body[6:-1])
            if number == 0:
                await wire.send(head(503, content_length=9) + b'{"error"')
                await asyncio.wait_for(told[0].wait(), PATIENCE)
                await wire.send(b"}")
            elif number == 1:
                await wire.send(head(content_length=len(whole)))
                await wire.taken()
                await wire.send(whole[:5])
                await asyncio.wait_for(told[1].wait(), PATIENCE)
                await wire.send(whole[5:])
            elif number == 2:
                await wire.reset()
            elif number == 3:
                await wire.send(head(content_length=len(whole)) + whole[:-1])
                await wire.close()
            else:
                await asyncio.wait_for(asyncio.gather(told[2].wait(), told[3].wait()), PATIENCE)
                await wire.send(OK)

        async with Server(answer) as server:
            return await play(
                server, numbered(5), concurrency=5, timeout=60, trouble=lambda _, seen: told[seen.index].set()
            )

    played = run(main())
    assert {(one.index, one.kind) for one in played.troubles} == {
        (0, "http-error"),
        (1, "stalled"),
        (2, "reset"),
        (3, "truncated"),
    }
    words = {one.kind: one.detail for one in played.troubles}
    assert words["http-error"] == "HTTP 503"
    assert words["stalled"] == "no byte for 0.05 s"
    assert "closed the connection" in words["truncated"]
    assert words["reset"]
    assert verdicts(played) == [Verdict.HTTP_ERROR, Verdict.OK, Verdict.RESET, Verdict.TRUNCATED, Verdict.OK]


def test_a_long_silence_before_the_first_word_is_no_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM sends its head at once and computes the prompt then; the slot that waits is seen all the same."""
    monkeypatch.setattr(closed_loop, "STALLED_SECONDS", 0.01)
    silences: list[int] = []

    async def main() -> Played:
        loops: list[ClosedLoop] = []

        async def opened(loop: ClosedLoop) -> None:
            loops.append(loop)

        async def answer(wire: Wire, _: bytes) -> None:
            await wire.send(head(content_length=len(completion())))
            await wire.taken()
            since = time.monotonic_ns()
            await until(lambda: time.monotonic_ns() - since >= 30_000_000)
            loops[0].look()
            assert loops[0].seen.silent_ns is not None
            silences.append(time.monotonic_ns() - loops[0].seen.silent_ns)
            await wire.send(completion())

        async with Server(answer) as server:
            played = await play(server, numbered(1), opened=opened)
            loops[0].look()
            assert loops[0].seen.silent_ns is None
            return played

    played = run(main())
    assert played.troubles == []
    assert silences[0] >= 30_000_000


def test_an_interim_response_is_no_status() -> None:
    async def main() -> Played:
        loops: list[ClosedLoop] = []

        async def opened(loop: ClosedLoop) -> None:
            loops.append(loop)

        async def answer(wire: Wire, _: bytes) -> None:
            await wire.send(b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n")
            await wire.taken()
            loops[0].look()
            await wire.send(OK)

        async with Server(answer) as server:
            return await play(server, numbered(1), opened=opened)

    played = run(main())
    assert verdicts(played) == [Verdict.OK]
    assert played.troubles == []


def test_what_ends_in_order_is_no_trouble() -> None:
    """An answer without a length ends with its connection."""
    until_close = head(connection="close") + completion()

    async def main() -> Played:
        async with Server(says(until_close, then="close")) as server:
            return await play(server, numbered(2))

    played = run(main())
    assert verdicts(played) == [Verdict.OK] * 2
    assert [one.outcome for one in played.captured] == ["closed"] * 2
    assert played.troubles == []


def test_what_is_given_up_by_us_is_no_trouble() -> None:
    async def main() -> Played:
        stop = asyncio.Event()

        async def answer(wire: Wire, _: bytes) -> None:
            await wire.send(chunked_head() + piece(role()))
            await wire.taken()
            stop.set()
            await wire.gone()

        async with Server(answer) as server:
            return await play(server, numbered(2), stop=stop, timeout=60)

    played = run(main())
    assert verdicts(played) == [Verdict.INTERRUPTED]
    assert played.troubles == []


def test_every_trouble_of_a_dead_engine_has_its_words() -> None:
    async def main() -> Played:
        async with Server(at_once) as server:
            endpoint = server.endpoint
        return await play(endpoint, numbered(2))

    played = run(main())
    told = [(one.kind, one.index, one.detail) for one in played.troubles]
    assert told == [("refused", 0, "Connection refused"), ("refused", 1, "Connection refused")]
    assert {one.detail for one in played.exchanges} == {"Connection refused"}


def test_a_clock_that_started_earlier_gives_later_stamps() -> None:
    """Stamps are the run's, not the loop's own."""
    clock = RunClock()
    clock.origin_ns -= 20_000_000

    async def main() -> Played:
        async with Server(at_once) as server:
            return await play(server, numbered(1), clock=clock)

    [done] = run(main()).exchanges
    assert done.planned_ns >= 20_000_000
    assert done.first_byte_ns is not None
    assert 20_000_000 <= done.first_byte_ns <= clock.now()


def test_an_answer_that_stops_after_its_first_read_is_stalled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The head and the first token may come in one segment; a head alone is an answer that has not begun."""
    monkeypatch.setattr(closed_loop, "STALLED_SECONDS", 0.05)
    monkeypatch.setattr(closed_loop, "_BEAT_SECONDS", 0.01)

    def stops_after(first: bytes) -> Played:
        async def answer(wire: Wire, _: bytes) -> None:
            await wire.send(first)
            await wire.gone()

        async def main() -> Played:
            async with Server(answer) as server:
                return await play(server, numbered(1), timeout=0.5)

        return run(main())

    assert [one.kind for one in stops_after(chunked_head() + piece(role())).troubles] == ["stalled", "timed-out"]
    assert [one.kind for one in stops_after(chunked_head()).troubles] == ["timed-out"]
