"""The load generator as the runner uses it: rounds by processes of its own, that share the budget of requests."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from authority import AUTHORITY, signed
from load_bytes import TEXT, completion, error_json, events, head, plain, sse
from load_rounds import OK, generate, pair, verdicts
from load_tls import PEM
from load_wire import PATIENCE, Server, Wire, nothing_more, numbered, run, says, until

from runner.access import Access
from runner.engine.verdict import Verdict
from runner.load.budget import Budget
from runner.load.destination import Destination
from runner.load.generator import InFlight, LoadGenerator, Seen, _Ears
from runner.load.reading import Heard
from runner.record.clock import RunClock
from runner.spec.authorities import read_authorities

# Sharing ----------------------------------------------------------------------------------------------


def test_a_budget_gives_each_number_once_to_whoever_asks() -> None:
    """Five processes at once; all numbers are taken, in order by each, none twice."""
    count, holders = 20_000, 5
    program = textwrap.dedent("""
        import sys
        from runner.load.budget import Budget
        budget = Budget(int(sys.argv[1]))
        print("ready", flush=True)
        sys.stdin.readline()
        while (number := budget.take()) is not None:
            print(number)
    """)
    budget = Budget()
    budget.fill(range(3, 3 + count))
    started = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(budget.fd)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=[budget.fd],
        )
        for _ in range(holders)
    ]
    try:
        for one in started:
            assert one.stdout is not None
            assert one.stdout.readline() == "ready\n"
        for one in started:
            assert one.stdin is not None
            one.stdin.write("go\n")
            one.stdin.flush()
        taken = [[int(line) for line in one.communicate(timeout=PATIENCE)[0].split()] for one in started]
    finally:
        for one in started:
            one.kill()
            one.communicate()
    assert budget.take() is None
    assert all(numbers == sorted(numbers) for numbers in taken)
    assert sorted(number for numbers in taken for number in numbers) == list(range(3, 3 + count))
    budget.fill([7])
    assert (budget.take(), budget.take()) == (7, None)
    budget.close()


@pytest.mark.parametrize(("concurrency", "processes", "shares"), [(7, 3, [3, 2, 2]), (2, 3, [1, 1]), (5, 1, [5])])
def test_each_request_is_sent_once_and_the_slots_add_up(
    concurrency: int, processes: int, shares: list[int], tmp_path: Path
) -> None:
    """No answer before C requests are there: fewer slots would never end, more would be counted."""
    bodies = numbered(40)

    async def main() -> tuple[Server, Heard]:
        full = asyncio.Event()

        async def answer(wire: Wire, body: bytes) -> None:
            if server.in_flight == concurrency:
                full.set()
            await asyncio.wait_for(full.wait(), PATIENCE)
            await wire.send(plain(completion(body.decode())))

        async with pair(answer) as (server, generator):
            heard = await generate(
                generator, server, tmp_path, bodies=bodies, requests=40, concurrency=concurrency, processes=processes
            )
        return server, heard

    server, heard = run(main())
    assert sorted(server.bodies) == sorted(bodies)
    assert server.most_in_flight == server.connections == concurrency
    assert [one.exchange.index for one in heard.judged] == list(range(40))
    assert [one.reply.text.encode() for one in heard.judged if one.reply is not None] == bodies
    assert verdicts(heard) == [Verdict.OK] * 40
    assert [one.slots for one in heard.processes] == shares
    assert sum(one.requests for one in heard.processes) == 40
    assert len({one.capture for one in heard.processes}) == len(shares)


def test_a_process_says_what_it_saw_of_itself(tmp_path: Path) -> None:
    async def main() -> tuple[Server, Heard]:
        async with pair(says(sse(events()))) as (server, generator):
            return server, await generate(generator, server, tmp_path, processes=1, stream=True, clock=server.clock)

    server, heard = run(main())
    [one] = heard.processes
    assert verdicts(heard) == [Verdict.OK] * 12
    assert (one.clock, one.why_user, one.loop) == ("kernel", None, "uvloop")
    assert one.address == f"127.0.0.1:{server.port}"
    assert one.reads >= 12
    assert one.read_lag_p50_ns is not None
    assert one.read_lag_p99_ns is not None
    assert one.read_lag_max_ns is not None
    assert 0 < one.read_lag_p50_ns <= one.read_lag_p99_ns <= one.read_lag_max_ns
    assert 0 < one.cpu_seconds <= one.seconds * 1.5
    assert one.peak_memory_bytes > 1 << 20
    for done in heard.judged:  # the processes' clock is the run's
        assert done.exchange.sent_ns is not None
        assert done.exchange.first_byte_ns is not None
        assert done.exchange.sent_ns < done.exchange.first_byte_ns
    assert min(server.arrived) > min(one.exchange.sent_ns or 0 for one in heard.judged)
    assert max(server.arrived) < max(one.exchange.last_byte_ns or 0 for one in heard.judged)


def test_the_next_round_is_its_own(tmp_path: Path) -> None:
    """Other numbers, another engine, other bodies and headers, more processes; nothing of the round before."""

    async def main() -> tuple[Server, Server, Heard, Heard]:
        async with pair(OK) as (first, generator), Server(OK) as second:
            one = await generate(generator, first, tmp_path / "..", requests=5, processes=1, concurrency=2)
            two = await generate(
                generator,
                second,
                tmp_path,
                bodies=[b"a", b"b", b"c"],
                requests=6,
                processes=2,
                first_index=4,
                keep_alive=False,
                access=Access.made({"X-Round": "2"}, "token"),
            )
        return first, second, one, two

    first, second, one, two = run(main())
    assert sorted(first.bodies) == numbered(5)
    assert [done.exchange.index for done in one.judged] == list(range(5))
    assert [done.exchange.index for done in two.judged] == list(range(4, 10))
    assert sorted(second.bodies) == [b"a", b"a", b"b", b"b", b"c", b"c"]
    assert second.connections == 6
    assert all(
        b"\r\nX-Round: 2\r\n" in head and b"\r\nAuthorization: Bearer token\r\n" in head for head in second.heads
    )
    assert not any(b"X-Round" in head for head in first.heads)
    assert all(done.exchange.connect_ns is not None for done in two.judged)


def test_no_requests_need_no_process(tmp_path: Path) -> None:
    async def main() -> Heard:
        async with pair(OK) as (server, generator):
            heard = await generate(generator, server, tmp_path, bodies=[b"{}"], requests=0)
            assert server.connections == 0
        return heard

    heard = run(main())
    assert (heard.judged, heard.processes) == ([], [])


# Ending -----------------------------------------------------------------------------------------------


def test_stop_interrupts_every_process_and_nothing_is_sent_after_it(tmp_path: Path) -> None:
    stop = asyncio.Event()

    async def main() -> tuple[Server, Heard]:
        async def answer(wire: Wire, body: bytes) -> None:
            if len(server.bodies) <= 6:
                await wire.send(plain(completion()))
                return
            if server.in_flight == 4:
                stop.set()
            await wire.gone()

        async with pair(answer) as (server, generator):
            heard = await generate(generator, server, tmp_path, requests=1000, stop=stop)
            await nothing_more(server)
            sent = len(server.bodies)
            again = await generate(generator, server, tmp_path, requests=10, stop=stop)
            await nothing_more(server)
            assert len(server.bodies) == sent  # it was stopped before it began
            assert again.judged == []
        return server, heard

    server, heard = run(main())
    assert len(server.bodies) == 10
    assert sorted(verdicts(heard)) == sorted([Verdict.OK] * 6 + [Verdict.INTERRUPTED] * 4)
    assert [one.requests for one in heard.processes] != []
    assert sum(one.requests for one in heard.processes) == 10


def test_the_seconds_of_a_round_are_every_processes(tmp_path: Path) -> None:
    """Each slot's second request is held until progress says that none was sent for a while, and is answered then."""
    heard_of: list[InFlight] = []

    async def main() -> tuple[Server, Heard]:
        async def answer(wire: Wire, body: bytes) -> None:
            if len(server.bodies) > 4:
                await until(lambda: len(heard_of) > 8)
            await wire.send(plain(completion()))

        async with pair(answer) as (server, generator):
            heard = await generate(generator, server, tmp_path, requests=1000, seconds=0.3, listen=heard_of.append)
            await nothing_more(server)
        return server, heard

    server, heard = run(main())
    assert len(server.bodies) == 8
    assert verdicts(heard) == [Verdict.OK] * 8


def test_a_dead_engine_refuses_each_request_in_words(tmp_path: Path) -> None:
    troubles: list[Seen] = []

    async def main() -> Heard:
        async with Server(OK) as server:
            endpoint = server.endpoint
        async with LoadGenerator() as generator:
            return await generate(generator, endpoint, tmp_path, trouble=troubles.append)

    heard = run(main())
    assert verdicts(heard) == [Verdict.REFUSED] * 12
    assert {one.detail for one in heard.judged} == {"Connection refused"}
    assert [one.kind for one in troubles] == ["refused"]


def test_a_name_that_cannot_be_looked_up_is_refused_with_the_resolvers_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def addresses(self: Destination) -> list[Any]:
        raise OSError(-2, "Name or service not known")

    monkeypatch.setattr(Destination, "addresses", addresses)

    async def main() -> Heard:
        async with LoadGenerator() as generator:
            return await generate(generator, "http://engine.test:1", tmp_path, requests=2)

    heard = run(main())
    assert verdicts(heard) == [Verdict.REFUSED] * 2
    assert {one.detail for one in heard.judged} == {"Name or service not known"}


def test_a_process_believes_whom_the_runner_believes(tmp_path: Path) -> None:
    """The same process, round by round: the shipped certificates alone, the authority's too, and another's instead."""

    async def main() -> list[Heard]:
        async with pair(says(sse(events())), tls=signed()) as (server, generator):
            endpoint = f"https://localhost:{server.port}"
            return [
                await generate(
                    generator,
                    endpoint,
                    tmp_path,
                    requests=4,
                    concurrency=2,
                    processes=1,
                    stream=True,
                    access=Access(authorities=authorities),
                )
                for authorities in ("", read_authorities(AUTHORITY), read_authorities(PEM))
            ]

    alone, beside, another = run(main())
    for refused in (alone, another):
        assert verdicts(refused) == [Verdict.REFUSED] * 4
        assert all("unable to get local issuer certificate" in one.detail for one in refused.judged)
    assert verdicts(beside) == [Verdict.OK] * 4
    assert {one.exchange.clock for one in beside.judged} == {"kernel"}
    assert {one.reply.text for one in beside.judged if one.reply is not None} == {TEXT}


def test_a_process_takes_nothing_of_the_working_directory_for_pythons_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "asyncio.py").write_text('raise SystemExit("asyncio of the working directory")\n')
    monkeypatch.chdir(tmp_path)

    async def main() -> Heard:
        async with pair(OK) as (server, generator):
            return await generate(generator, server, tmp_path, requests=1, processes=1)

    assert verdicts(run(main())) == [Verdict.OK]


# Watching ---------------------------------------------------------------------------------------------


def test_trouble_comes_once_by_name_while_the_round_runs(tmp_path: Path) -> None:
    """The last answers wait for it; the next round tells anew."""
    rounds: list[list[Seen]] = []

    async def main() -> RunClock:
        async def answer(wire: Wire, body: bytes) -> None:
            number = int(body[6:-1])
            if number in (0, 1, 2):
                await wire.send(plain(error_json(503, "ServiceUnavailableError", "paused"), 503))
            elif number in (3, 4):
                await wire.reset()
            else:
                await until(lambda: {one.kind for one in rounds[-1]} == {"http-error", "reset"})
                await wire.send(plain(completion()))

        async with pair(answer) as (server, generator):
            for _ in range(2):
                rounds.append([])
                await generate(
                    generator, server, tmp_path, concurrency=8, trouble=rounds[-1].append, clock=server.clock
                )
        return server.clock

    clock = run(main())
    for troubles in rounds:
        assert sorted(one.kind for one in troubles) == ["http-error", "reset"]
        words = {one.kind: one for one in troubles}
        assert words["http-error"].detail == "HTTP 503"
        assert words["http-error"].index in (0, 1, 2)
        assert words["reset"].index in (3, 4)
        assert all(0 < one.at_ns < clock.now() for one in troubles)


def test_an_answer_under_way_with_another_status_is_told_before_it_ends(tmp_path: Path) -> None:
    troubles: list[Seen] = []

    async def answer(wire: Wire, _: bytes) -> None:
        await wire.send(head(500, content_length=9))
        await until(lambda: bool(troubles))
        await wire.send(b"x" * 9)

    async def main() -> Heard:
        async with pair(answer) as (server, generator):
            return await generate(generator, server, tmp_path, requests=2, trouble=troubles.append)

    assert verdicts(run(main())) == [Verdict.HTTP_ERROR] * 2
    assert [(one.kind, one.detail) for one in troubles] == [("http-error", "HTTP 500")]


def test_what_is_listened_to_adds_up_over_the_processes(tmp_path: Path) -> None:
    """All four wait for an answer until the listener has heard of all four, and that none has said anything."""
    heard_of: list[InFlight] = []

    async def answer(wire: Wire, _: bytes) -> None:
        await until(lambda: any(one.sent >= 4 and one.silent_seconds is not None for one in heard_of))
        await wire.send(plain(completion()))

    async def main() -> None:
        async with pair(answer) as (server, generator):
            await generate(generator, server, tmp_path, listen=heard_of.append)

    run(main())
    assert heard_of[-1] == InFlight(12, 12, None)
    assert all(0 <= one.sent - one.done <= 4 for one in heard_of)
    assert [one.done for one in heard_of] == sorted(one.done for one in heard_of)
    assert all(one.silent_seconds is None or one.silent_seconds >= 0 for one in heard_of)


def test_the_longest_silence_of_all_processes_is_told() -> None:
    heard_of: list[InFlight] = []
    ears = _Ears(3, heard_of.append, lambda _: None)
    ears.progress(0, 4, 1, 0.5)
    ears.progress(2, 3, 2, 2.0)
    ears.progress(1, 1, 1, None)
    ears.progress(2, 3, 3, None)
    assert heard_of == [InFlight(4, 1, 0.5), InFlight(7, 3, 2.0), InFlight(8, 4, 2.0), InFlight(8, 5, 0.5)]


def test_memory_does_not_grow_with_what_comes(tmp_path: Path) -> None:
    """What is over is written, not kept: 60 MB of answers cost the process a fraction of that."""
    large = plain(completion("x" * 1_000_000))

    async def answer(wire: Wire, body: bytes) -> None:
        await wire.send(plain(completion()) if body == b"small" else large)

    async def main() -> tuple[Heard, Heard, int]:
        async with pair(answer) as (server, generator):
            once = await generate(generator, server, tmp_path, bodies=[b"small"], requests=8, processes=1)
            often = await generate(generator, server, tmp_path, bodies=[b"large"], requests=60, processes=1)
        return once, often, (tmp_path / "round.capture").stat().st_size

    once, often, size = run(main())
    assert verdicts(often) == [Verdict.OK] * 60
    assert size > 60_000_000
    assert often.processes[0].peak_memory_bytes - once.processes[0].peak_memory_bytes < 25_000_000
