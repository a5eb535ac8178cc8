"""A process that was there has a history: what it finished for others is not taken for what it was sent."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest
from journals import make_plan
from loopback import LoopbackServer

from runner.engine.verdict import Verdict
from runner.execution.context import Context
from runner.execution.idle import IdleWatch
from runner.load.exchange import Exchange
from runner.load.reading import Judged
from runner.sample.scrape import Idle, scrape
from runner.target.endpoint import EndpointEngine

OK = Judged(Exchange(0, 0), Verdict.OK, "", None)


class Finished(LoopbackServer):
    """An idle engine whose counter of finished requests stands where the test says, scrape by scrape."""

    def __init__(self, counts: Sequence[int]) -> None:
        super().__init__()
        self._counts = list(counts)
        self.asked = 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                count = self._counts[min(self.asked, len(self._counts) - 1)]
                self.asked += 1
                body = f"vllm:num_requests_running 0\nvllm:num_requests_waiting 0\nvllm:request_success_total {count}\n"
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body.encode()))
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client left
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


def watched(folder: Path, counts: Sequence[int], answered: int) -> tuple[Idle, int]:
    async def main() -> tuple[Idle, int]:
        context = Context(make_plan(folder), folder, lambda _: None, asyncio.Event())
        async with Finished(counts) as server, httpx.AsyncClient(trust_env=False) as client:
            watch = IdleWatch(context, EndpointEngine(server.endpoint))
            watch.begins(await scrape(client, server.endpoint, context.clock))
            watch.answered([OK] * answered)
            return await watch.idle(client), server.asked

    return asyncio.run(main())


@pytest.mark.parametrize("history", [0, 1000])
def test_only_what_was_sent_is_waited_for(tmp_path: Path, history: int) -> None:
    idle, asked = watched(tmp_path, [history, history, history + 3, history + 4], 4)
    assert (idle.reason, asked) == (None, 4)


def test_a_process_that_does_not_answer_yet_has_no_history(tmp_path: Path) -> None:
    async def main() -> Idle:
        context = Context(make_plan(tmp_path), tmp_path, lambda _: None, asyncio.Event())
        async with Finished([]) as nobody:
            endpoint = nobody.endpoint
        async with httpx.AsyncClient(trust_env=False) as client, Finished([1, 2]) as server:
            watch = IdleWatch(context, EndpointEngine(server.endpoint))
            watch.begins(await scrape(client, endpoint, context.clock))
            watch.answered([OK, OK])
            return await watch.idle(client)

    assert asyncio.run(main()).reason is None
