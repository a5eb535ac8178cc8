"""The GPUs of a run, through a program called nvidia-smi on PATH: found, sampled while load runs, and watched."""

import asyncio
import os
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from journals import make_plan

import runner
from runner.execution import gpus as module
from runner.execution.context import Context
from runner.execution.run import execute
from runner.plan.model import Arm
from runner.record import events
from runner.record.record import Record, build_record
from runner.sample.gpu import smi as reading_by_smi
from runner.sample.gpu.aside import Aside
from runner.sample.gpu.smi import open_smi
from runner.spec.site import EmbeddedSite
from runner.target.base import LocalGpus, NoGpus, RunningEngine
from runner.target.embedded import EmbeddedTarget, write_nvidia_smi

UUID = "GPU-00000000-0000-0000-0000-000000000000"


@dataclass
class OnGpu:
    """A real engine process that says where its GPUs are."""

    engine: RunningEngine
    gpus: LocalGpus | NoGpus
    command: list[str]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)


@dataclass
class GpuTarget:
    """The embedded target, its engines on this machine's GPUs; `found` says that they were there already."""

    visible: str | None = None
    found: bool = False
    pids: list[int] = field(default_factory=list)
    inner: EmbeddedTarget = field(
        default_factory=lambda: EmbeddedTarget(EmbeddedSite.model_validate({"time-scale": 0.1}))
    )
    name: str = "process"
    simulated: bool = False

    def settings(self) -> dict[str, Any]:
        return {}

    async def launch(self, model: str, arm: Arm, log: Path) -> Any:
        engine = await self.inner.launch(model, arm, log)
        pid = int(engine.identity.removeprefix("pid "))
        self.pids.append(pid)
        command = [] if self.found else engine.command
        return OnGpu(engine, LocalGpus(self.visible, lambda: frozenset({pid, *self.pids})), command)


class Smi:
    """nvidia-smi on PATH: the stand-in's figures, and processes out of a file."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "figures").mkdir()
        figures = write_nvidia_smi(folder / "figures")
        self.apps = folder / "apps"
        self.apps.write_text("")
        script = folder / "nvidia-smi"
        script.write_text(
            "#!/bin/sh\n"
            f'case "$1" in --query-compute-apps*) exec cat {shlex.quote(str(self.apps))};; esac\n'
            f'exec {shlex.quote(str(figures))} "$@"\n'
        )
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        monkeypatch.setenv("PYTHONPATH", str(Path(runner.__file__).parents[1]))
        monkeypatch.setenv("SIMULATOR_PROFILE", "h200")

    def list(self, *processes: str) -> None:
        self.apps.write_text("".join(f"{one}\n" for one in processes))


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Smi:
    monkeypatch.setattr(module, "open_gpus", open_smi)  # a machine with a driver would be read through it
    monkeypatch.setattr(reading_by_smi, "_LIMIT", 60.0)
    monkeypatch.setattr(module, "Aside", lambda: Aside(120.0))
    return Smi(tmp_path, monkeypatch)


def small(spec: dict[str, Any]) -> None:
    spec["phases"] = {"load": {"concurrency": [1], "requests": 4}}
    spec["request"]["max_tokens"] = 64
    spec["sampling"] = {"interval-seconds": 0.5}


def ran(tmp_path: Path, target: Any) -> tuple[Record, list[events.Event]]:
    """A whole run, up to the record."""
    journal: list[events.Event] = []
    plan = make_plan(tmp_path, small)

    async def main() -> None:
        context = Context(plan, tmp_path / "run", journal.append, asyncio.Event())
        context.directory.mkdir()
        await execute(context, target)

    asyncio.run(main())
    started = events.RunStarted(
        run="r", started_at="", runner_version="", target=target.name, simulated=False, target_settings={}, host={}
    )
    return build_record(plan, [started, *journal]), journal


def test_who_else_is_there_is_looked_for_when_the_engine_answers_and_after_each_round(tmp_path: Path, smi: Smi) -> None:
    smi.list(f"4242, {UUID}, 12, /usr/bin/other, with a comma")
    record, _ = ran(tmp_path, GpuTarget())
    stranger = events.OtherProcess(pid=4242, gpu=0, name="/usr/bin/other, with a comma", memory_mib=12.0, before=True)
    assert len(record.engines) == 2
    for engine in record.engines:
        assert engine.gpus is not None and engine.gpus.reason is None
        assert engine.gpus.source == "nvidia-smi, driver 580.159.04"
        [gpu] = engine.gpus.gpus
        assert (gpu.index, gpu.uuid, gpu.name, gpu.before_mib) == (0, UUID, "NVIDIA H200", 131702.0)
        [round_] = engine.rounds
        assert round_.others is not None
        for seen in (engine.gpus, round_.others):
            assert seen.others == [stranger]
            assert "none under an id of the engine's" in str(seen.unknown)


def test_an_engine_without_gpus_says_why(tmp_path: Path) -> None:
    record, journal = ran(tmp_path, EmbeddedTarget(EmbeddedSite.model_validate({"time-scale": 0.02})))
    assert [engine.gpus.reason for engine in record.engines if engine.gpus] == ["the embedded engine has no GPU"] * 2
    assert not [event for event in journal if isinstance(event, events.GpuSampled | events.OthersSeen)]
