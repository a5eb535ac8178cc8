"""A `/metrics` endpoint on loopback that answers as a test says, scrape by scrape."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from loopback import LoopbackServer

from runner.record.clock import RunClock

T = TypeVar("T")

Script = Callable[[int], "str | bytes | Awaitable[str | bytes]"]
"""The answer to scrape number n (from 0): exposition text, or whole raw bytes with their head."""


def text(
    running: float | None = 0,
    waiting: float | None = 0,
    finished: float | None = None,
    *,
    usage: float | None = None,
    deferred: float | None = None,
    model: str = "m",
    engine: int = 0,
) -> str:
    """An exposition in vLLM's words; None is a gauge that is not exposed."""
    labels = f'engine="{engine}",model_name="{model}"'
    lines = [f"vllm:num_requests_running{{{labels}}} {running}"] if running is not None else []
    lines += [f"vllm:num_requests_waiting{{{labels}}} {waiting}"] if waiting is not None else []
    lines += [f"vllm:kv_cache_usage_perc{{{labels}}} {usage}"] if usage is not None else []
    if deferred is not None:
        lines += [
            f'vllm:num_requests_waiting_by_reason{{{labels},reason="capacity"}} 0.0',
            f'vllm:num_requests_waiting_by_reason{{{labels},reason="deferred"}} {deferred}',
        ]
    if finished is not None:
        lines += [f'vllm:request_success_total{{{labels},finished_reason="stop"}} {finished}']
    return "\n".join(["process_start_time_seconds 1.7e+09", *lines]) + "\n"


def http(body: bytes | str, status: int = 200, kind: str = "text/plain; version=0.0.4; charset=utf-8") -> bytes:
    raw = body if isinstance(body, bytes) else body.encode()
    return f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(raw)}\r\n\r\n".encode() + raw


class Metrics(LoopbackServer):
    """Serves `/metrics`; `asked` are the stamps of the scrapes, `heads` their request heads."""

    def __init__(self, script: Script) -> None:
        super().__init__()
        self._script = script
        self.clock = RunClock()
        self.asked: list[int] = []
        self.answered: list[int] = []
        self.heads: list[bytes] = []
        self.under_way = self.most_under_way = 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                self.asked.append(self.clock.now())
                self.under_way += 1
                self.most_under_way = max(self.most_under_way, self.under_way)
                try:
                    answer = self._script(len(self.asked) - 1)
                    if not isinstance(answer, str | bytes):
                        answer = await answer
                    self.answered.append(self.clock.now())
                    writer.write(answer if isinstance(answer, bytes) else http(answer))
                    await writer.drain()
                    if answer == b"":
                        return
                finally:
                    self.under_way -= 1
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client left
        except Exception as error:
            self.faults.append(error)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run, and see that nothing is left running."""

    async def whole() -> T:
        result = await main
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, left
        return result

    return asyncio.run(whole())
