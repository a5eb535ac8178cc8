"""GPUs while load runs: readings beside the event loop, at a beat, and what fails said."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable

import pytest
from sample_metrics import run

from runner.record.clock import RunClock
from runner.sample.gpu.aside import Aside
from runner.sample.gpu.reading import GpuError, GpuProcess, GpuReading
from runner.sample.gpu.series import GpuSample, GpuSeries


class Reader:
    """GPUs that answer by a script of numbers: the utilization, or a blocking call that gives it."""

    source = "a script"

    def __init__(self, script: Callable[[int], float], shortest: float = 0.01) -> None:
        self.script, self.shortest = script, shortest
        self.asked: list[int] = []
        self.threads: set[int] = set()
        self.clock = RunClock()

    def read(self) -> list[GpuReading]:
        self.asked.append(self.clock.now())
        self.threads.add(threading.get_ident())
        return [GpuReading(0, "GPU-1", "H200", self.script(len(self.asked) - 1), 1.0, 2.0)]

    def processes(self) -> list[GpuProcess]:
        return []

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
    series = GpuSeries(reader, Aside(limit), interval, reader.clock)
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
        series = GpuSeries(reader, aside, 0.01, reader.clock)
        task = asyncio.create_task(series.run())
        await until(lambda: len(series.samples) >= 2)
        await stopped(task)
        with pytest.raises(GpuError, match=r"no answer within 0\.05 s"):
            await aside.call(reader.processes)
        free.set()
        async with asyncio.timeout(60):
            while True:  # once it answers again, so do we
                with contextlib.suppress(GpuError):
                    assert await aside.call(reader.processes) == []
                    break
        return series.samples

    samples = run(main())
    assert {sample.error for sample in samples if sample.error} >= {"the driver gave no answer within 0.05 s"}
    assert len(reader.asked) == 1  # nobody asks a driver that has not answered


def test_a_reading_overdue_when_the_load_ends_is_a_sample_with_an_error() -> None:
    free = threading.Event()
    reader = Reader(lambda _: float(free.wait(60)))

    async def main() -> list[GpuSample]:
        series = GpuSeries(reader, Aside(60.0), 0.01, reader.clock)
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
