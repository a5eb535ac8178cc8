"""The step loop in real and in virtual time, the periodic log lines, and the independence of the rest."""

from __future__ import annotations

import ast
import asyncio
import random
import re
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import recorded_rounds
import scheduler_run
import virtual_time
from closed_loop import ARRIVAL_SPREAD_SECONDS, warm_up
from recorded_rounds import Cell
from virtual_time import VirtualTimeLoop

import runner.simulator
from runner.simulator import arguments, chat_template, configuration, profile, release
from runner.simulator.continuation import Continuation
from runner.simulator.engine import Engine
from runner.simulator.kv_cache import BlockPool
from runner.simulator.periodic_log import PeriodicLog
from runner.simulator.scheduler import Limits, Output, Plan, Scheduler
from runner.simulator.sequence import Sequence
from runner.simulator.statistics import StepStatistics
from runner.simulator.step_time import StepTime


def sequence(text: str, tokens: int) -> Sequence:
    prompt = chat_template.render([("user", text)])
    return Sequence(prompt, Continuation(prompt, text), tokens, time.monotonic(), ignore_eos=True)


async def run_engine(
    step_seconds: float, scale: float, tokens: int
) -> tuple[float, list[Output], list[StepStatistics]]:
    """Two requests at once: seconds until both have finished, outputs, and recorded steps."""
    steps: list[StepStatistics] = []
    outputs: list[Output] = []
    finished = asyncio.Event()
    scheduler = Scheduler(Limits(4, 512, 1024), BlockPool(100, 16, prefix_caching=True))
    engine = Engine(scheduler, StepTime(step_seconds, 0, 0, 0), scale, steps.append)

    def sink(output: Output) -> None:
        assert len(steps) == output.sequence.output_length  # recorded before it is handed out
        outputs.append(output)
        if sum(1 for one in outputs if one.finish) == 2:
            finished.set()

    running = asyncio.create_task(engine.run())
    await asyncio.sleep(0.05)  # an idle time, which must not be caught up
    started = time.monotonic()
    for text in ("a", "b"):
        engine.submit(sequence(text, tokens), sink)
    await finished.wait()
    elapsed = time.monotonic() - started
    running.cancel()
    return elapsed, outputs, steps


def test_steps_take_their_time_and_the_scale_multiplies_it() -> None:
    elapsed, outputs, steps = asyncio.run(run_engine(0.08, 0.1, 30))
    assert elapsed >= 30 * 0.008 - 0.001  # never faster than the model says
    assert len(steps) == 30
    assert [len(output.tokens) for output in outputs] == [1] * 60
    assert steps[0].running == 2
    assert steps[-1].running == 0


def test_late_steps_are_caught_up_not_added() -> None:
    """While the fifth step lasts, something else keeps the loop busy for 5 steps too long."""
    times: list[float] = []

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        scheduler = Scheduler(Limits(4, 512, 1024), BlockPool(100, 16, prefix_caching=True))
        engine = Engine(scheduler, StepTime(1.0, 0, 0, 0), 1.0, lambda step: times.append(loop.time()), loop.time)
        running = asyncio.create_task(engine.run())
        loop.call_at(104.5, loop.busy, 5.5)
        for started in (100.0, 200.0):  # after an idle time the pace starts anew
            await asyncio.sleep(started - loop.time())
            done = asyncio.Event()
            engine.submit(sequence("a", 12), lambda output, done=done: done.set() if output.finish else None)
            await done.wait()
        running.cancel()

    virtual_time.run(serve())
    assert times[:12] == [101, 102, 103, 104, 110, 110, 110, 110, 110, 110, 111, 112]
    assert times[12:] == [201 + step for step in range(12)]


@dataclass
class Arrivals:
    """Requests in virtual time, before the scale: seconds and (text, tokens to emit)."""

    requests: list[tuple[float, str, int]]

    @classmethod
    def drawn(cls, seed: int) -> Arrivals:
        """Bursts and pauses; half of the texts are to be repeated, so that drafts are found and accepted."""
        draw = random.Random(seed)
        at = 0.0
        requests = []
        for index in range(draw.randint(6, 14)):
            at += draw.choice([draw.uniform(0, 0.003), draw.expovariate(4), draw.uniform(1, 3)])
            words = " ".join(f"{draw.choice('abcdef')}{draw.randrange(10, 99)}" for _ in range(draw.randint(3, 12)))
            text = f"Repeat this three times: {words}" if draw.random() < 0.5 else f"{index} {words}"
            requests.append((at, text, draw.randint(1, 60)))
        return cls(requests)


class WatchedScheduler(Scheduler):
    """Keeps every step: who was in it, with how many tokens and which drafts."""

    def __init__(self, *, drafts: bool) -> None:
        # Little of everything, so that slots, budget and KV blocks all run short now and then.
        little = {"max_num_seqs": 3, "max_num_scheduled_tokens": 48, "max_model_len": 256}
        bounds = scheduler_run.limits(method="ngram" if drafts else None, **little)
        super().__init__(bounds, BlockPool(14, 16, prefix_caching=True))
        self.names: dict[Sequence, int] = {}
        self.steps: list[list[tuple[int, int, tuple[int, ...]]]] = []
        self.preempted = 0

    def schedule(self, now: float) -> Plan:
        plan = super().schedule(now)
        self.steps.append(
            [(self.names[one], plan.tokens[id(one)], tuple(plan.drafts.get(id(one), ()))) for one in plan.sequences]
        )
        self.preempted += plan.preempted
        return plan


async def steps_of(arrivals: Arrivals, drafts: bool, scale: float) -> WatchedScheduler:
    """The real step loop at a scale, with every arrival at its virtual time times the scale."""
    loop = asyncio.get_running_loop()
    scheduler = WatchedScheduler(drafts=drafts)
    timing = StepTime(0.03, 1e-4, 2e-4, 1e-4 if drafts else 0.0)
    engine = Engine(scheduler, timing, scale, lambda step: None, loop.time)
    left = len(arrivals.requests)
    done = asyncio.Event()

    def sink(output: Output) -> None:
        nonlocal left
        left -= bool(output.finish)
        if not left:
            done.set()

    def submit(index: int, text: str, tokens: int) -> None:
        prompt = chat_template.render([("user", text)])
        one = Sequence(prompt, Continuation(prompt, text), tokens, loop.time(), ignore_eos=True)
        scheduler.names[one] = index
        engine.submit(one, sink)

    for index, (at, *request) in enumerate(arrivals.requests):
        loop.call_at(at * scale, submit, index, *request)
    running = asyncio.create_task(engine.run())
    await done.wait()
    running.cancel()
    return scheduler


@pytest.mark.parametrize("drafts", [False, True], ids=["off", "on"])
def test_the_schedule_does_not_depend_on_the_scale(drafts: bool) -> None:
    preempted = shared = accepted = 0
    for seed in range(12):
        arrivals = Arrivals.drawn(seed)
        real = virtual_time.run(steps_of(arrivals, drafts, 1.0))
        for scale in (0.15, 0.02, 0.001):
            assert virtual_time.run(steps_of(arrivals, drafts, scale)).steps == real.steps, (seed, scale)
        preempted += real.preempted
        shared += sum(len(step) > 1 for step in real.steps)
        accepted += sum(1 for step in real.steps for _, _, drafted in step if drafted)
    # The patterns are worth something: requests met in steps, were thrown out, and were drafted for.
    assert preempted > 0
    assert shared > 100
    assert (accepted > 50) == drafts


@pytest.mark.parametrize("scale", [1.0, 0.02])
def test_a_closed_loop_over_the_real_step_loop_is_the_one_that_the_fit_runs(scale: float) -> None:
    for cell in (recorded_rounds.cpu("0.32.0").cells[4], recorded_rounds.h200().cells[10]):
        assert cell.arm.drafts
        timing = StepTime(0.02, 1e-4, 1e-4, 1e-4)
        expected = cell.play(timing, 0.003)
        scheduler = cell.arm.scheduler()
        warm_up(scheduler, cell.requests[0])
        wall, recorded = virtual_time.run(closed_loop_over_engine(scheduler, cell, timing, 0.003, scale))
        assert wall / scale == pytest.approx(expected.wall, rel=1e-9)
        assert len(recorded) == expected.steps
        assert sum(len(step.drafts) for step in recorded) == expected.drafts
        latencies = [finished.latency / scale + 0.003 for step in recorded for finished in step.finished]
        assert sum(latencies) / len(latencies) == pytest.approx(expected.latency, rel=1e-9)


async def closed_loop_over_engine(
    scheduler: Scheduler, cell: Cell, timing: StepTime, turnaround: float, scale: float
) -> tuple[float, list[StepStatistics]]:
    """Seconds from the first request to the last reply, and every step."""
    loop = asyncio.get_running_loop()
    steps: list[StepStatistics] = []
    engine = Engine(scheduler, timing, scale, steps.append, loop.time)
    running = asyncio.create_task(engine.run())
    left = iter(cell.requests)

    async def client(index: int) -> None:
        await asyncio.sleep(index * ARRIVAL_SPREAD_SECONDS * scale)
        for request in left:
            done = asyncio.Event()
            one = request.running(loop.time())
            engine.submit(one, lambda output, done=done: done.set() if output.finish else None)
            request.follow(one)
            await done.wait()
            await asyncio.sleep(turnaround * scale)

    async with asyncio.TaskGroup() as clients:
        for index in range(cell.clients):
            clients.create_task(client(index))
    running.cancel()
    return loop.time(), steps


def test_periodic_lines(capsys: pytest.CaptureFixture[str]) -> None:
    values = arguments.parse(["serve", "m", "--spec-method", "ngram", "--spec-tokens", "5"], "0.26.0", print).values
    lines = PeriodicLog(configuration.build(values, {}, release.named("0.26.0"), profile.load("article")))
    lines.write()
    assert capsys.readouterr().out == ""  # silent while idle
    drafts = [(5, 5)] * 5 + [(5, 1)]
    lines.add(StepStatistics(3, 2, 0.25, queried=100, hits=80, generated=50, first=[(100, 80, 0.1)], drafts=drafts))
    lines.write()
    compiled, engine, speculation = capsys.readouterr().out.splitlines()
    assert "JIT compilation during inference: rejection_greedy_sample_kernel" in compiled
    recorded = re.compile(
        r"INFO TIME \[loggers\.py:310\] Engine 000: Avg prompt throughput: N tokens/s, Avg generation throughput: N "
        r"tokens/s, Running: N reqs, Waiting: N reqs, GPU KV cache usage: N%, Prefix cache hit rate: N%$"
    )
    assert recorded.search(
        re.sub(
            r"\d+\.\d+", "N", re.sub(r"\d\d-\d\d [\d:]+", "TIME", engine).replace(" 3 ", " N ").replace(" 2 ", " N ")
        )
    )
    assert "Running: 3 reqs, Waiting: 2 reqs, GPU KV cache usage: 25.0%, Prefix cache hit rate: 80.0%" in engine
    assert "Mean acceptance length: 5.33," in speculation
    assert "Accepted: 26 tokens, Drafted: 30 tokens" in speculation
    assert (
        "Per-position acceptance rate: 1.000, 0.833, 0.833, 0.833, 0.833, Avg Draft acceptance rate: 86.7%"
        in speculation
    )
    lines.write()  # one more line that shows the fall to nothing, as vLLM prints it
    assert "Avg generation throughput: 0.0 tokens/s" in capsys.readouterr().out
    lines.write()
    assert capsys.readouterr().out == ""


def test_imports_nothing_of_the_runner_and_names_no_place_of_this_machine() -> None:
    package = Path(runner.simulator.__file__).parent
    for path in package.glob("*.py"):
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                assert not name.startswith("runner") or name.startswith(("runner.simulator", "runner.resources")), (
                    path.name,
                    name,
                )
        assert "/work" not in text
        assert len(text.splitlines()) < 400, path.name
