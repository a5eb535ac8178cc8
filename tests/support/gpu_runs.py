"""Whole small runs on the embedded engine, whose processes say that they are on GPUs."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from journals import Edit, make_plan

from runner.execution.context import Context
from runner.execution.run import execute
from runner.record import events
from runner.record.events import EVENT
from runner.record.record import Record, build_record
from runner.target.base import LocalGpus, NoGpus, RemoteGpus, RunningEngine


@dataclass
class OnGpu:
    """A real engine process that says where its GPUs are."""

    engine: RunningEngine
    gpus: LocalGpus | RemoteGpus | NoGpus
    command: list[str]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)


def small(spec: dict[str, Any]) -> None:
    spec["invariants"] = {}
    spec["phases"] = {"load": {"concurrency": [1], "requests": 4}}
    spec["request"]["max_tokens"] = 64
    spec["sampling"] = {"interval-seconds": 0.2}


def alone(spec: dict[str, Any]) -> None:
    del spec["conditions"]["on"]


def ran(
    tmp_path: Path,
    target: Any,
    hear: Callable[[events.Event], None] = lambda _: None,
    conditions: Edit = alone,
) -> Record:
    """A whole run, up to the record; `hear` is told of each event."""
    journal: list[events.Event] = []
    plan = make_plan(tmp_path, small, conditions)

    def emit(event: events.Event) -> None:
        journal.append(EVENT.validate_json(event.model_dump_json()))
        hear(event)

    async def main() -> None:
        context = Context(plan, tmp_path / "run", emit, asyncio.Event())
        context.directory.mkdir()
        await execute(context, target)

    asyncio.run(main())
    started = events.RunStarted(
        run="r", started_at="", runner_version="", target=target.name, simulated=False, target_settings={}, host={}
    )
    return build_record(plan, [started, *journal])
