"""The step loop against the clock, the periodic log lines, and the engine's independence of the rest of the package."""

from __future__ import annotations

import ast
import asyncio
import re
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from simulator_process import FIXTURES

import runner.simulator
from runner.simulator import chat_template
from runner.simulator import engine as engine_module
from runner.simulator.continuation import Continuation
from runner.simulator.engine import Engine
from runner.simulator.kv_cache import BlockPool
from runner.simulator.periodic_log import PeriodicLog
from runner.simulator.scheduler import Limits, Output, Scheduler
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


def test_late_steps_are_caught_up_not_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock of its own: the sleep of the fifth step lasts 5 steps too long."""
    now = 100.0
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        nonlocal now
        slept.append(seconds)
        now += seconds + (5.0 if len(slept) == 5 else 0.0)
        await asyncio.sleep(0)

    monkeypatch.setattr(engine_module, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(engine_module, "asyncio", SimpleNamespace(sleep=sleep, Event=asyncio.Event))
    times: list[float] = []

    async def run() -> None:
        nonlocal now
        scheduler = Scheduler(Limits(4, 512, 1024), BlockPool(100, 16, prefix_caching=True))
        engine = Engine(scheduler, StepTime(1.0, 0, 0, 0), 1.0, lambda step: times.append(now))
        running = asyncio.create_task(engine.run())
        for started in (100.0, 200.0):
            now = started  # after an idle time the pace starts anew
            done = asyncio.Event()
            engine.submit(sequence("a", 12), lambda output, done=done: done.set() if output.finish else None)
            await done.wait()
        running.cancel()

    asyncio.run(run())
    assert times[:12] == [101, 102, 103, 104, 110, 110, 110, 110, 110, 110, 111, 112]
    assert times[12:] == [201 + step for step in range(12)]


def test_periodic_lines(capsys: pytest.CaptureFixture[str]) -> None:
    lines = PeriodicLog(5)
    lines.write()
    assert capsys.readouterr().out == ""  # silent while idle
    drafts = [(5, 5)] * 5 + [(5, 1)]
    lines.add(StepStatistics(3, 2, 0.25, queried=100, hits=80, generated=50, first=[(100, 80, 0.1)], drafts=drafts))
    lines.write()
    engine, speculation = capsys.readouterr().out.splitlines()
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
    assert FIXTURES.is_dir()
