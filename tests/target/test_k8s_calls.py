"""Blocking calls beside the event loop: what is cancelled meanwhile."""

from __future__ import annotations

import asyncio
import threading

import pytest

from runner.target.kubernetes.calls import read, written


def test_a_write_that_is_cancelled_is_waited_for() -> None:
    """What is put back afterwards must not be overtaken by it, however often one is told."""
    begun, go_on = threading.Event(), threading.Event()
    done: list[str] = []

    def write() -> None:
        begun.set()
        go_on.wait(10)
        done.append("written")

    async def scenario() -> None:
        task = asyncio.ensure_future(written(write))
        await asyncio.to_thread(begun.wait, 10)
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0.05)
            assert not task.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert done == ["written"]

    asyncio.run(scenario())


def test_a_read_that_is_cancelled_is_nobodys() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def ask() -> None:
        begun.set()
        go_on.wait(10)

    async def scenario() -> None:
        task = asyncio.ensure_future(read(ask))
        await asyncio.to_thread(begun.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not go_on.is_set()
        go_on.set()

    asyncio.run(scenario())


def test_what_a_write_raises_is_raised() -> None:
    def write() -> None:
        raise OSError("refused")

    with pytest.raises(OSError, match="refused"):
        asyncio.run(written(write))
