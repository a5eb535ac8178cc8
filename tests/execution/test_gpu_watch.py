"""The GPUs of a run: found, sampled while load runs, and watched. NVML over a driver made up, nvidia-smi on PATH."""

import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pynvml
import pytest
from gpu_runs import OnGpu, ran
from nvml_driver import MIB, Card, Driver

import runner
from runner.execution.gpus import local, watch
from runner.plan.model import Arm
from runner.record import events
from runner.sample.gpu import smi as reading_by_smi
from runner.sample.gpu.aside import Aside
from runner.sample.gpu.smi import open_smi
from runner.spec.site import EmbeddedSite
from runner.target.base import LocalGpus, nothing_changed
from runner.target.embedded import EmbeddedTarget, write_nvidia_smi

UUID = Card().uuid
STRANGERS = (4_000_042, 4_000_043)


@dataclass
class GpuTarget:
    """The embedded target, its engines on this machine's GPUs. `there` says that they were there already; `pid_offset`
    is how much higher the driver's process ids are, as in a container; `asked` hears when an engine's are asked for."""

    card: Card = field(default_factory=lambda: Card(used=0))
    there: bool = False
    pid_offset: int = 0
    asked: Callable[[], None] = lambda: None
    name: str = "process"
    simulated: bool = False

    def settings(self) -> dict[str, Any]:
        return {}

    def stay(self, _: Any) -> Any:
        return nothing_changed()

    async def launch(self, model: str, arm: Arm, log: Path) -> Any:
        inner = EmbeddedTarget(EmbeddedSite.model_validate({"time-scale": 0.1}))
        engine = await inner.launch(model, arm, log)
        pid = int(engine.identity.removeprefix("pid "))
        self.card.compute = [one for one in self.card.compute if one[0] in STRANGERS]
        self.card.compute.append((pid + self.pid_offset, 1000 * MIB))
        self.card.used += 5000 * MIB

        def pids() -> frozenset[int]:
            self.asked()
            return frozenset({pid})

        return OnGpu(engine, LocalGpus(None, pids), [] if self.there else engine.command)


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
    monkeypatch.setattr(local, "open_gpus", open_smi)  # a machine with a driver would be read through it
    monkeypatch.setattr(reading_by_smi, "_LIMIT", 60.0)
    monkeypatch.setattr(watch, "Aside", lambda: Aside(120.0))
    return Smi(tmp_path, monkeypatch)


def stranger(before: bool | None, pid: int = STRANGERS[0]) -> events.OtherProcess:
    return events.OtherProcess(pid=pid, gpu=0, name=None, memory_mib=12.0, before=before)


def test_found_by_its_process_sampled_and_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = GpuTarget()
    other = Card(uuid="GPU-other", utilization=99)
    driver = Driver(other, target.card).load(monkeypatch)
    record = ran(tmp_path, target)
    assert len(record.engines) == 1
    for engine in record.engines:
        assert engine.gpus == events.GpusFound(
            arm=engine.arm,
            replicate=1,
            source="NVML, driver 580.159.04",
            gpus=[events.GpuFound(index=1, uuid=UUID, name="NVIDIA H200", total_mib=143771, before_mib=0)],
            doubt=None,
            reason=None,
            others=[],
            unknown=None,
        )
        [round_] = engine.rounds
        assert round_.others is not None and (round_.others.others, round_.others.unknown) == ([], None)
        assert round_.gpu_samples
        assert {(one.utilization, one.memory_mib, one.why) for one in round_.gpu_samples} == {(17.0, 5000.0, None)}
        assert all(one.gpus[0].index == 1 for one in round_.gpu_samples)
    assert driver.open == 0


def test_a_stranger_that_comes_later_is_seen_after_the_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = GpuTarget()
    Driver(target.card).load(monkeypatch)

    def hear(event: events.Event) -> None:
        if isinstance(event, events.RoundStarted) and event.arm == "off":
            target.card.compute.append((STRANGERS[0], 12 * MIB))

    off, on = ran(tmp_path, target, hear, lambda _: None).engines
    assert off.gpus is not None and off.gpus.others == []
    assert off.rounds[0].others is not None and off.rounds[0].others.others == [stranger(before=False)]
    for seen in (on.gpus, on.rounds[0].others):
        assert seen is not None and (seen.others, seen.unknown) == ([stranger(before=True)], None)


def test_a_stranger_that_comes_and_goes_within_a_round_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = GpuTarget()
    Driver(target.card).load(monkeypatch)
    own: list[tuple[int, int | None]] = []
    asked = 0

    def visit() -> None:
        """At the second look, which is the first of the round: each asks before and after."""
        nonlocal asked
        asked += 1
        if asked == 3:
            own[:] = target.card.compute
            target.card.compute = [*own, (STRANGERS[0], 12 * MIB)]
        if asked == 4:
            target.card.compute = list(own)

    target.asked = visit
    [engine] = ran(tmp_path, target).engines
    assert engine.gpus is not None and engine.gpus.others == []
    seen = engine.rounds[0].others
    assert seen is not None and (seen.others, seen.unknown) == ([], None)
    assert seen.gone == [stranger(before=False)]


def test_a_look_that_fails_within_a_round_leaves_others_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = GpuTarget()
    Driver(target.card).load(monkeypatch)
    asked = 0

    def fail() -> None:
        nonlocal asked
        asked += 1
        lost = {"nvmlDeviceGetComputeRunningProcesses": pynvml.NVML_ERROR_GPU_IS_LOST}
        target.card.broken = lost if asked == 3 else {}

    target.asked = fail
    [engine] = ran(tmp_path, target).engines
    seen = engine.rounds[0].others
    assert seen is not None and (seen.others, seen.gone) == ([], [])
    assert seen.unknown == "NVML: processes: GPU is lost"


def test_memory_in_use_before_the_start_without_a_process_is_somebody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = GpuTarget(Card(used=700 * MIB))
    Driver(target.card).load(monkeypatch)
    [engine] = ran(tmp_path, target).engines
    for seen in (engine.gpus, engine.rounds[0].others):
        assert seen is not None and seen.others == []
        assert seen.unknown == "700 MiB were in use before the start and no process is listed"


def test_an_engine_without_a_gpu_does_not_get_the_figures_of_somebody_elses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = GpuTarget()
    Driver(target.card).load(monkeypatch)
    target.asked = lambda: target.card.compute.__setitem__(slice(None), [(os.getpid(), 12 * MIB)])
    [engine] = ran(tmp_path, target).engines
    assert engine.gpus is not None and engine.gpus.gpus == []
    assert "cannot be told" in str(engine.gpus.reason)
    assert [(round_.gpu_samples, round_.others) for round_ in engine.rounds] == [([], None)]


def test_where_ids_are_not_comparable_who_was_there_before_is_a_stranger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = GpuTarget(pid_offset=5_000_000)
    target.card.compute.append((STRANGERS[0], 12 * MIB))
    Driver(target.card).load(monkeypatch)
    for engine in ran(tmp_path, target).engines:
        assert engine.gpus is not None and "it is the only GPU visible" in str(engine.gpus.doubt)
        for seen in (engine.gpus, engine.rounds[0].others):
            assert seen is not None and seen.others == [stranger(before=True)]
            assert "none under an id of the engine's" in str(seen.unknown)


def test_an_engine_that_was_there_is_not_its_own_stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = GpuTarget(pid_offset=5_000_000, there=True)
    target.card.compute.append((STRANGERS[0], 12 * MIB))
    Driver(target.card).load(monkeypatch)
    for engine in ran(tmp_path, target).engines:
        assert engine.gpus is not None and engine.gpus.gpus[0].before_mib is None
        for seen in (engine.gpus, engine.rounds[0].others):
            assert seen is not None and seen.others == [] and seen.unknown is not None


def test_a_gpu_that_is_lost_on_the_way_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = GpuTarget()
    Driver(target.card).load(monkeypatch)

    def hear(event: events.Event) -> None:
        if isinstance(event, events.RoundStarted):
            lost = ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetComputeRunningProcesses")
            target.card.broken = dict.fromkeys(lost, pynvml.NVML_ERROR_GPU_IS_LOST)

    off, on = ran(tmp_path, target, hear, lambda _: None).engines
    assert off.rounds[0].gpu_samples
    assert {(one.utilization, one.memory_mib, one.why) for one in off.rounds[0].gpu_samples} == {
        (None, None, "NVML: GPU is lost")
    }
    assert off.rounds[0].others is not None and off.rounds[0].others.unknown == "NVML: processes: GPU is lost"
    # The next engine's cannot be told from processes; the machine has one.
    assert on.gpus is not None and [gpu.before_mib for gpu in on.gpus.gpus] == [None]


def test_gpus_that_cannot_be_read_are_a_reason_and_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    Driver().load(monkeypatch)
    record = ran(tmp_path, GpuTarget())
    reason = "NVML: no GPU that this process may use; nvidia-smi: not on PATH"
    for engine in record.engines:
        assert engine.gpus is not None and (engine.gpus.reason, engine.gpus.unknown) == (reason, reason)
        [round_] = engine.rounds
        assert round_.finished is not None and round_.finished.complete
        assert (round_.gpu_samples, round_.others) == ([], None)


def test_through_nvidia_smi(tmp_path: Path, smi: Smi) -> None:
    smi.list(f"{STRANGERS[0]}, {UUID}, 12, [Not Found]")
    for engine in ran(tmp_path, GpuTarget()).engines:
        assert engine.gpus is not None and engine.gpus.reason is None
        assert engine.gpus.source == "nvidia-smi, driver 580.159.04"
        [gpu] = engine.gpus.gpus
        assert (gpu.index, gpu.uuid, gpu.name, gpu.before_mib) == (0, UUID, "NVIDIA H200", 131702.0)
        for seen in (engine.gpus, engine.rounds[0].others):
            assert seen is not None and seen.others == [stranger(before=True)] and seen.unknown is not None


def test_an_engine_without_gpus_says_why(tmp_path: Path) -> None:
    record = ran(tmp_path, EmbeddedTarget(EmbeddedSite.model_validate({"time-scale": 0.02})))
    for engine in record.engines:
        assert engine.gpus is not None and engine.gpus.reason == "the embedded engine has no GPU"
        assert [(round_.gpu_samples, round_.others) for round_ in engine.rounds] == [([], None)]
