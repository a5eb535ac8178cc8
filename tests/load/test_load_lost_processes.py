"""Processes of the load generator that end by themselves, or lose whoever told them what to do."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from load_bytes import chunked_head, completion, piece, plain, role
from load_rounds import OK, generate, pair, verdicts
from load_wire import PATIENCE, Server, Wire, nothing_more, run, until

from runner.engine.verdict import Verdict
from runner.interpreter import python
from runner.load.budget import Budget
from runner.load.generator import InFlight, Load, LoadError, LoadGenerator, _message
from runner.record.clock import RunClock


def pids(generator: LoadGenerator) -> list[int]:
    return [process._child.pid for process in generator._processes]


def test_a_process_that_is_killed_is_an_error_with_its_words_and_takes_the_others_with_it(tmp_path: Path) -> None:
    """What the others would go on sending nobody would hear of."""
    gone: list[bytes] = []

    async def main() -> None:
        full = asyncio.Event()

        async def answer(wire: Wire, body: bytes) -> None:
            if body == b"again":
                await wire.send(plain(completion()))
                return
            if server.in_flight == 4:
                full.set()
            await wire.gone()
            gone.append(body)

        async with pair(answer) as (server, generator):
            sending = asyncio.ensure_future(generate(generator, server, tmp_path, requests=100))
            await asyncio.wait_for(full.wait(), PATIENCE)
            os.kill(pids(generator)[1], signal.SIGKILL)
            with pytest.raises(LoadError, match="a process of the load generator ended with exit code -9"):
                await asyncio.wait_for(sending, PATIENCE)
            await until(lambda: len(gone) == 4)
            await nothing_more(server)
            assert len(server.bodies) == 4
            again = await generate(generator, server, tmp_path, bodies=[b"again"], requests=4)
            assert verdicts(again) == [Verdict.OK] * 4

    run(main())


def test_a_process_that_cannot_write_its_capture_says_why(tmp_path: Path) -> None:
    async def main() -> None:
        async with pair(OK) as (server, generator):
            with pytest.raises(LoadError, match=r"exit code 1: FileNotFoundError: .*nowhere"):
                await generate(generator, server, tmp_path / "nowhere")

    run(main())


def test_a_listener_that_fails_ends_the_round_with_its_error(tmp_path: Path) -> None:
    def listen(_: InFlight) -> None:
        raise RuntimeError("the terminal is gone")

    async def answer(wire: Wire, body: bytes) -> None:
        await wire.gone()

    async def main() -> None:
        async with pair(answer) as (server, generator):
            with pytest.raises(RuntimeError, match="the terminal is gone"):
                await generate(generator, server, tmp_path, listen=listen)
            await until(lambda: server.in_flight == 0)

    run(main())


def test_a_round_that_is_cancelled_leaves_nothing_behind(tmp_path: Path) -> None:
    async def main() -> None:
        async def answer(wire: Wire, body: bytes) -> None:
            await wire.gone()

        async with pair(answer) as (server, generator):
            sending = asyncio.ensure_future(generate(generator, server, tmp_path))
            await until(lambda: server.in_flight == 4)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            await until(lambda: server.in_flight == 0)
            await nothing_more(server)
            assert len(server.bodies) == 4

    run(main())


def test_a_runner_that_is_killed_takes_its_processes_with_it(tmp_path: Path) -> None:
    """Nobody is left to tell them: they see that their control socket is closed."""
    program = textwrap.dedent("""
        import asyncio, sys
        from pathlib import Path
        from runner.load.generator import Load, LoadGenerator
        from runner.record.clock import RunClock

        async def main():
            async with LoadGenerator() as generator:
                await generator.start(2)
                print(*(process._child.pid for process in generator._processes), flush=True)
                load = Load(sys.argv[1], [b"{}"], 100, 4, 600.0, Path(sys.argv[2]), processes=2)
                await generator.send(load, clock=RunClock(), stop=asyncio.Event())

        asyncio.run(main())
    """)

    async def main() -> None:
        async def answer(wire: Wire, body: bytes) -> None:
            await wire.send(chunked_head() + piece(role()))
            await wire.gone()

        async with Server(answer) as server:
            command = [sys.executable, "-c", program, server.endpoint, str(tmp_path / "round.capture")]
            runner = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
            assert runner.stdout is not None
            workers = [int(word) for word in (await runner.stdout.readline()).split()]
            assert len(workers) == 2
            try:
                await until(lambda: server.in_flight == 4)
                assert all(map(lives, workers))
            finally:
                runner.kill()
                await runner.wait()
            await until(lambda: not any(map(lives, workers)))
            await until(lambda: server.in_flight == 0)
            assert len(server.bodies) == 4

    run(main())


def test_a_process_whose_words_nobody_read_ends_with_its_socket(tmp_path: Path) -> None:
    """A socket that is closed with something unread in it is reset, and not simply at its end."""

    async def main() -> None:
        async def answer(wire: Wire, body: bytes) -> None:
            await wire.gone()

        async with Server(answer) as server:
            ours, theirs = socket.socketpair()
            budget = Budget()
            budget.fill(range(9))
            load = Load(server.endpoint, [b"{}"], 9, 2, 600.0, tmp_path / "round.capture")
            with theirs:
                descriptors = (theirs.fileno(), budget.fd)
                command = python("runner.load.worker", *map(str, descriptors))
                worker = await asyncio.create_subprocess_exec(*command, pass_fds=descriptors)
            try:
                with ours:
                    told = {**await _message(load, RunClock()), "slots": 2, "capture": str(load.capture)}
                    ours.sendall(json.dumps(told).encode() + b'\n"go"\n')
                    await until(lambda: server.in_flight == 2)
                    await until(lambda: bool(select.select([ours], [], [], 0)[0]))
                await until(lambda: server.in_flight == 0)
                assert await asyncio.wait_for(worker.wait(), PATIENCE) == 0
            finally:
                with contextlib.suppress(ProcessLookupError):
                    worker.kill()
                await worker.wait()
                budget.close()
            assert len(server.bodies) == 2

    run(main())


def lives(pid: int) -> bool:
    """Whether it runs; one that has ended may wait for a parent that does not ask."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
