"""GPUs while load runs: readings beside the event loop, at a beat, and what fails said."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable

import pytest
from sample_metrics import run

from runner.record.clock import RunClock
from runner.sample.gpu import series as module
from runner.sample.gpu.aside import Aside
from runner.sample.gpu.look import Look, look
from runner.sample.gpu.reading import GpuError, GpuProcess, GpuReading
from runner.sample.gpu.series import GpuSample, GpuSeries


class Reader:
    """GPUs that answer by a script of numbers: the utilization, or a blocking call that gives it."""

    source = "a script"

    def __init__(self, script: Callable[[int], float], shortest: float = 0.01) -> None:
        self.script, self.shortest = script, shortest
        self.asked: list[int] = []
        self.listed = 0
        self.threads: set[int] = set()
        self.clock = RunClock()

    def read(self) -> list[GpuReading]:
        self.asked.append(self.clock.now())
        self.threads.add(threading.get_ident())
        return [GpuReading(0, "GPU-1", "H200", self.script(len(self.asked) - 1), 1.0, 2.0)]

    def processes(self) -> list[GpuProcess]:
        self.threads.add(threading.get_ident())
        self.listed += 1
        if self.listed == 2:
            raise GpuError("no list")
        return [GpuProcess(self.listed, "GPU-1", None, None)]

    def close(self) -> None:
        pass


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while True:
            if condition():
                return
            await asyncio.sleep(0.002)


async def stopped(task: asyncio.Task[None]) -> None:
    """As a round stops its samplers."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def sampled(reader: Reader, enough: int, interval: float = 0.01, limit: float = 60.0) -> list[GpuSample]:
    series = GpuSeries(reader, lambda: look(reader), Aside(limit), interval, reader.clock)
    task = asyncio.create_task(series.run())
    await until(lambda: task.done() or len(series.samples) >= enough)
    assert not task.done()
    await stopped(task)
    return series.samples[:enough]


def test_samples_come_at_a_beat_and_are_stamped_when_they_are_there() -> None:
    reader = Reader(float)
    samples = run(sampled(reader, 6, interval=0.03))
    assert [sample.gpus[0].utilization for sample in samples if sample.gpus] == [0, 1, 2, 3, 4, 5]
    assert all(asked >= (number + 1) * 30_000_000 for number, asked in enumerate(reader.asked))
    assert all(asked <= sample.at_ns for asked, sample in zip(reader.asked, samples, strict=False))


def test_never_more_often_than_the_reader_bears() -> None:
    reader = Reader(float, shortest=0.05)
    run(sampled(reader, 4, interval=0.001))
    assert all(asked >= (number + 1) * 50_000_000 for number, asked in enumerate(reader.asked))


def test_who_is_there_is_looked_at_less_often_and_a_failed_look_leaves_the_sample(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_BETWEEN_LOOKS", 30_000_000)
    reader = Reader(float)
    series = GpuSeries(reader, lambda: look(reader, lambda: frozenset({7})), Aside(60.0), 0.01, reader.clock)

    async def main() -> None:
        task = asyncio.create_task(series.run())
        await until(lambda: task.done() or len(series.looks) >= 3)
        assert not task.done()
        await stopped(task)

    run(main())
    assert [(one.processes, one.unlisted) for one in series.looks[:3]] == [
        ([GpuProcess(1, "GPU-1", None, None)], None), ([], "no list"), ([GpuProcess(3, "GPU-1", None, None)], None),
    ]  # fmt: skip
    assert {one.pids for one in series.looks} == {frozenset({7})}
    assert len(reader.asked) > reader.listed
    assert all(sample.error is None for sample in series.samples)
    assert threading.get_ident() not in reader.threads


def test_a_process_of_the_engine_that_comes_or_goes_during_a_look_is_its_own() -> None:
    pids = iter([frozenset({7, 8}), frozenset({7, 9})])
    assert look(Reader(float), lambda: next(pids)).pids == {7, 8, 9}


def test_the_ids_that_somebody_has_here_are_those_of_this_machine() -> None:
    ours, theirs = (GpuProcess(pid, "GPU-1", None, None) for pid in (os.getpid(), 2**22 + 7))
    assert Look([ours, theirs], None).here() == {os.getpid()}


def test_a_slow_driver_does_not_hold_up_the_loop() -> None:
    """The loop goes on while a reading blocks: here the loop itself is what lets it go."""
    free = threading.Event()

    def blocked(_: int) -> float:
        assert free.wait(60)
        return 1.0

    async def main() -> list[GpuSample]:
        reader = Reader(blocked)

        async def later() -> None:
            await until(lambda: reader.asked)
            free.set()

        release = asyncio.create_task(later())
        samples = await sampled(reader, 1)
        await release
        assert threading.get_ident() not in reader.threads
        return samples

    assert run(main())[0].error is None


def test_a_reading_that_fails_is_a_sample_with_its_words() -> None:
    def script(number: int) -> float:
        if number == 1:
            raise GpuError("GPU is lost")
        return 1.0

    samples = run(sampled(Reader(script), 3))
    assert [(sample.gpus is None, sample.error) for sample in samples] == [
        (False, None), (True, "GPU is lost"), (False, None),
    ]  # fmt: skip


def test_a_driver_that_hangs_is_samples_with_an_error_and_holds_up_nothing() -> None:
    free = threading.Event()
    reader = Reader(lambda _: float(free.wait(60)))

    async def main() -> list[GpuSample]:
        aside = Aside(0.05)
        series = GpuSeries(reader, lambda: look(reader), aside, 0.01, reader.clock)
        task = asyncio.create_task(series.run())
        await until(lambda: len(series.samples) >= 2)
        await stopped(task)
        with pytest.raises(GpuError, match=r"no answer within 0\.05 s"):
            await aside.call(lambda: reader.source)
        free.set()
        async with asyncio.timeout(60):
            while True:  # once it answers again, so do we
                with contextlib.suppress(GpuError):
                    assert await aside.call(lambda: reader.source) == "a script"
                    break
        return series.samples

    samples = run(main())
    assert {sample.error for sample in samples if sample.error} >= {"the driver gave no answer within 0.05 s"}
    assert len(reader.asked) == 1  # nobody asks a driver that has not answered


def test_a_reading_overdue_when_the_load_ends_is_a_sample_with_an_error() -> None:
    free = threading.Event()
    reader = Reader(lambda _: float(free.wait(60)))

    async def main() -> list[GpuSample]:
        series = GpuSeries(reader, lambda: look(reader), Aside(60.0), 0.01, reader.clock)
        task = asyncio.create_task(series.run())
        await until(lambda: reader.asked)
        await asyncio.sleep(0.05)
        await stopped(task)
        free.set()
        return series.samples

    [sample] = run(main())
    assert sample.gpus is None
    assert sample.error is not None and "when the load ended" in sample.error


def test_calls_wait_for_the_one_before_and_raise_what_they_raised() -> None:
    order: list[str] = []
    free = threading.Event()

    def first() -> None:
        free.wait(60)
        order.append("first")

    def second() -> None:
        order.append("second")
        raise ZeroDivisionError

    async def main() -> None:
        aside = Aside(60.0)
        one = asyncio.create_task(aside.call(first))
        await asyncio.sleep(0)
        one.cancel()  # as a sampler at the end of a round
        with contextlib.suppress(asyncio.CancelledError):
            await one
        asyncio.get_running_loop().call_later(0.01, free.set)
        with pytest.raises(ZeroDivisionError):
            await aside.call(second)

    run(main())
    assert order == ["first", "second"]
