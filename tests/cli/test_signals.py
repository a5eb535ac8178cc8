"""A run that is told to end, or whose journal cannot be written, comes to its end in good order."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from journals import make_plan

from runner.access import OPEN
from runner.cli import run_spec
from runner.execution.context import Context
from runner.record.events import Event, Interrupted, RunStarted
from runner.record.journal import JournalWriter, read_journal
from runner.target.base import Target

Work = Callable[[Context, object], Awaitable[None]]
NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = [(number, signal.getsignal(number)) for number in NUMBERS]
    yield
    for number, handler in before:
        signal.signal(number, handler)


def carried_out(folder: Path, work: Work, monkeypatch: pytest.MonkeyPatch) -> tuple[str | None, list[Event]]:
    """What the run returned and recorded, with `work` in the place of the measurement."""
    monkeypatch.setattr(run_spec, "execute", work)
    inputs = SimpleNamespace(plan=make_plan(folder), client={}, access=OPEN)
    target = SimpleNamespace(name="embedded", simulated=True, settings=dict)
    failed = run_spec._carry_out(cast(Any, inputs), cast(Target, target), folder)
    return failed, list(read_journal(folder / "journal.jsonl"))


async def _at_rest(context: Context) -> None:
    async with asyncio.timeout(5):
        await context.stop.wait()


@pytest.mark.parametrize("number", NUMBERS)
def test_each_signal_ends_a_run(tmp_path: Path, number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(context: Context, _: object) -> None:
        os.kill(os.getpid(), number)
        await _at_rest(context)

    signal.signal(number, signal.default_int_handler)
    failed, events = carried_out(tmp_path, work, monkeypatch)
    assert failed is None
    assert [one.signal for one in events if isinstance(one, Interrupted)] == [number.name]


def test_a_hang_up_that_is_to_be_outlived_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(context: Context, _: object) -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0.05)
        assert not context.stop.is_set()

    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    failed, events = carried_out(tmp_path, work, monkeypatch)
    assert failed is None
    assert not [one for one in events if isinstance(one, Interrupted)]


@pytest.mark.parametrize(("bounce", "cancelled"), [(60.0, False), (0.0, True)])
def test_a_second_signal_is_another_wish_only_after_a_moment(
    tmp_path: Path, bounce: float, cancelled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_spec, "_BOUNCE", bounce)
    seen = []

    async def work(context: Context, _: object) -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        await _at_rest(context)
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    signal.signal(signal.SIGHUP, signal.default_int_handler)
    carried_out(tmp_path, work, monkeypatch)
    assert bool(seen) is cancelled


def test_a_journal_that_is_full_ends_no_run_before_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    put_back = []
    written = JournalWriter.__call__

    def full(journal: JournalWriter, event: Event) -> None:
        if not isinstance(event, RunStarted):
            raise OSError(28, "No space left on device")
        written(journal, event)

    async def work(context: Context, _: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await _at_rest(context)  # stopped, though that cannot be recorded
        put_back.append(True)
        context.emit(Interrupted(signal="again"))

    monkeypatch.setattr(JournalWriter, "__call__", full)
    failed, events = carried_out(tmp_path, work, monkeypatch)
    assert put_back and failed is not None and "No space left on device" in failed
    assert [one.event for one in events] == ["run-started"]
    told = capsys.readouterr().err
    assert all(f"could not be recorded: {one}: " in told for one in ("interrupted", "runner-failed", "run-finished"))
