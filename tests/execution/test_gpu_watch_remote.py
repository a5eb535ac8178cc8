"""The GPUs of a run whose engine is elsewhere: read by a real nvidia-smi of make-believe in a loop beside it."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from gpu_runs import OnGpu, alone, ran
from nvml_driver import MIB, Card, Driver
from process_lines import ProcessLines

import runner
from runner.checks.finding import Judgement
from runner.checks.registry import run_checks
from runner.execution.gpus import watch
from runner.execution.gpus.engine import Others, together
from runner.plan.model import Arm
from runner.record import events
from runner.report.table import TABLES, Source, load_tables
from runner.report.words import Words
from runner.sample.gpu import remote
from runner.sample.gpu.aside import Aside
from runner.spec.site import EmbeddedSite
from runner.target.base import Lines, RemoteGpus, nothing_changed
from runner.target.embedded import EmbeddedTarget, write_nvidia_smi

UUID = "GPU-00000000-0000-0000-0000-000000000000"
ALONE = "processes outside of the place that runs the engine are not seen from its container"


@dataclass
class ElsewhereTarget:
    """The embedded target, its engines on another machine's GPUs. `program` is what nvidia-smi is called there."""

    folder: Path
    faults: list[dict[str, Any]] = field(default_factory=list)
    profile: str = "h200"
    program: str = ""
    doubt: str | None = None
    neighbours: Callable[[], list[str]] = list
    started: list[ProcessLines] = field(default_factory=list)
    threads: set[int] = field(default_factory=set)
    name: str = "elsewhere"
    simulated: bool = False

    def stay(self, _: Any) -> Any:
        return nothing_changed()

    @property
    def printed(self) -> int:
        """How many samples were printed, by all its programs."""
        counted = self.folder / "nvidia-smi.samples"
        return counted.stat().st_size if counted.exists() else 0

    async def launch(self, model: str, arm: Arm, log: Path) -> Any:
        script = write_nvidia_smi(self.folder)
        env = {
            **os.environ,
            "PYTHONPATH": str(Path(runner.__file__).parents[1]),
            "SIMULATOR_PROFILE": self.profile,
            "SIMULATOR_FAULTS": json.dumps(self.faults),
        }

        def execute(command: list[str]) -> Lines:
            self.threads.add(threading.get_ident())
            self.started.append(ProcessLines(command, env))
            return self.started[-1]

        def neighbours() -> list[str]:
            self.threads.add(threading.get_ident())
            return self.neighbours()

        inner = EmbeddedTarget(EmbeddedSite.model_validate({"time-scale": 0.1}))
        engine = await inner.launch(model, arm, log)
        where = RemoteGpus([self.program or str(script)], execute, neighbours, self.doubt)
        return OnGpu(engine, where, engine.command)


@pytest.fixture(autouse=True)
def quick_and_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop of 10 ms, and a machine so busy that a program may take long to start."""
    monkeypatch.setattr(remote, "_SHORTEST", 0.02)
    monkeypatch.setattr(remote, "_LONGEST", 0.02)
    monkeypatch.setattr(remote, "_FIRST", 60.0)
    monkeypatch.setattr(remote, "_SLACK", 30.0)
    monkeypatch.setattr(remote, "_LATE", 60.0)
    monkeypatch.setattr(watch, "Aside", lambda: Aside(120.0))


@pytest.fixture(autouse=True)
def card(monkeypatch: pytest.MonkeyPatch) -> Card:
    """This machine's own GPU, which has nothing to do with it: somebody else's memory and process are on it."""
    here = Card(uuid=UUID, used=700 * MIB, utilization=99)
    here.compute.append((4_000_042, 12 * MIB))
    Driver(here).load(monkeypatch)
    return here


@pytest.fixture
def target(tmp_path: Path) -> Iterator[ElsewhereTarget]:
    target = ElsewhereTarget(tmp_path)
    yield target
    for lines in target.started:
        assert (lines.closed, lines.process.poll() is not None) == (1, True)


def test_gpus_that_may_not_be_the_engines_are_measured_and_in_doubt(tmp_path: Path, target: ElsewhereTarget) -> None:
    target.doubt = "it sees all of its node's"
    [engine] = ran(tmp_path, target).engines
    assert engine.gpus is not None and engine.gpus.gpus
    assert engine.gpus.doubt == f"it sees all of its node's; {ALONE}"


def tenant(name: str) -> events.OtherProcess:
    return events.OtherProcess(pid=None, gpu=0, name=name, memory_mib=None, before=None)


def test_found_sampled_and_alone(tmp_path: Path, target: ElsewhereTarget) -> None:
    [engine] = ran(tmp_path, target).engines
    assert engine.gpus == events.GpusFound(
        arm=engine.arm,
        replicate=1,
        source="nvidia-smi in the engine's container, driver 580.159.04",
        gpus=[events.GpuFound(index=0, uuid=UUID, name="NVIDIA H200", total_mib=143155, before_mib=None)],
        doubt=ALONE,
        reason=None,
        others=[],
        unknown=None,
    )
    [round_] = engine.rounds
    assert round_.gpu_samples
    assert {(one.memory_mib, one.why) for one in round_.gpu_samples} == {(131702.0, None)}
    assert all(0 < (one.utilization or 0) < 99 for one in round_.gpu_samples)
    assert round_.others is not None and (round_.others.others, round_.others.unknown) == ([], None)
    assert threading.get_ident() not in target.threads
    [lines] = target.started
    assert lines.closed == 1


def compared(spec: dict[str, Any]) -> None:
    spec["invariants"] = {"memory-per-running": {"max-mib": 30}}
    spec["phases"] = {"load": {"concurrency": [1, 2], "requests": 8}}


def test_lost_at_sample_40_the_rest_of_the_launch_is_inconclusive(tmp_path: Path, target: ElsewhereTarget) -> None:
    target.faults = [{"kind": "nvidia-smi", "at_sample": 40, "how": "exit"}]

    def hear(event: events.Event) -> None:
        """The second round of the first engine begins once sample 40 was due."""
        if isinstance(event, events.RoundStarted) and (event.arm, event.concurrency) == ("off", 2):
            until = time.monotonic() + 60
            while target.printed < 40 and time.monotonic() < until:
                time.sleep(0.01)

    record = ran(tmp_path, target, hear, compared)
    off, on = record.engines
    why = "nvidia-smi: Failed to initialize NVML: Unknown Error (exit code 255)"
    errors = [one.why for round_ in off.rounds for one in round_.gpu_samples]
    assert errors[-1] == why
    assert set(errors[errors.index(why) :]) == {why}  # lost for good
    lost = off.rounds[1].gpu_samples
    assert {(one.utilization, one.memory_mib, one.why) for one in lost} == {(None, None, why)}
    assert {one.why for round_ in on.rounds for one in round_.gpu_samples} == {None}  # a fresh one for the next engine
    assert len(target.started) == 2

    results = run_checks(record)
    [memory] = [one for one in results if one.check == "memory-per-running"]
    assert memory.judgement is Judgement.INCONCLUSIVE
    assert [(one.reason, one.figures) for one in memory.findings] == [("gpu-unread", {"why": why})]
    load_tables()
    [table] = TABLES["resources"](Source(record, results, Words("en")))
    [cell] = [row for row in table.rows if row[0] == "off C=2"]
    assert list(cell[1:3]) == [f"– (the GPU could not be read: {why})"] * 2


def test_a_blocked_gpu_counts_for_nothing(tmp_path: Path, target: ElsewhereTarget) -> None:
    """Its loop goes on, and says 0 % for ever."""
    target.faults = [{"kind": "nvidia-smi", "at_sample": 1, "how": "blocked"}]
    [engine] = ran(tmp_path, target).engines
    why = "nvidia-smi: memory.used is 'GPU access blocked by the operating system'"
    [round_] = engine.rounds
    assert {(one.utilization, one.memory_mib, one.why) for one in round_.gpu_samples} == {(None, None, why)}


def test_neighbours_mark_the_cells(tmp_path: Path, target: ElsewhereTarget) -> None:
    target.neighbours = lambda: ["pod a/b", "pod c/d"]
    record = ran(tmp_path, target)
    [engine] = record.engines
    both = [tenant("pod a/b"), tenant("pod c/d")]
    for seen in (engine.gpus, engine.rounds[0].others):
        assert seen is not None and (seen.others, seen.unknown) == (both, None)
    load_tables()
    [table] = TABLES["resources"](Source(record, run_checks(record), Words("en")))
    assert [row[0] for row in table.rows] == ["off C=1 †"]
    [note] = [one for one in table.notes if one.startswith("†")]
    assert "pod a/b" in note and "pod c/d" in note
    assert f"off: {ALONE}." in table.notes


def test_a_neighbour_that_comes_and_goes_within_a_round_is_seen(tmp_path: Path, target: ElsewhereTarget) -> None:
    asked = 0

    def visit() -> list[str]:
        """There at the second look, which is the first of the round."""
        nonlocal asked
        asked += 1
        return ["pod a/b"] if asked == 2 else []

    target.neighbours = visit
    [engine] = ran(tmp_path, target).engines
    assert engine.gpus is not None and engine.gpus.others == []
    seen = engine.rounds[0].others
    assert seen is not None and (seen.others, seen.gone, seen.unknown) == ([], [tenant("pod a/b")], None)


def test_neighbours_that_the_place_does_not_tell_are_unknown(tmp_path: Path, target: ElsewhereTarget) -> None:
    def forbidden() -> list[str]:
        raise OSError("pods is forbidden")

    target.neighbours = forbidden
    [engine] = ran(tmp_path, target).engines
    for seen in (engine.gpus, engine.rounds[0].others):
        assert seen is not None and seen.others == []
        assert seen.unknown == "who else may use the GPUs is not known: pods is forbidden"
    assert {one.why for one in engine.rounds[0].gpu_samples} == {None}


@pytest.mark.parametrize(
    ("profile", "program", "reason"),
    [
        ("h200", "/nowhere/nvidia-smi", "nvidia-smi: /nowhere/nvidia-smi: executable file not found in $PATH"),
        ("cpu", "", "nvidia-smi: No devices were found (exit code 6)"),
    ],
)
def test_gpus_that_cannot_be_read_are_a_reason_and_no_obstacle(
    tmp_path: Path, target: ElsewhereTarget, profile: str, program: str, reason: str
) -> None:
    target.profile, target.program = profile, program
    [engine] = ran(tmp_path, target).engines
    assert engine.gpus is not None and (engine.gpus.reason, engine.gpus.unknown) == (reason, reason)
    assert (engine.gpus.gpus, engine.gpus.others) == ([], [])
    [round_] = engine.rounds
    assert round_.finished is not None and round_.finished.complete
    assert (round_.gpu_samples, round_.others) == ([], None)


def test_a_run_that_breaks_off_leaves_no_program_behind(tmp_path: Path, target: ElsewhereTarget) -> None:
    class Broken(Exception):
        pass

    def hear(event: events.Event) -> None:
        if isinstance(event, events.RoundStarted):
            raise Broken

    with pytest.raises(Broken):
        ran(tmp_path, target, hear, alone)
    [lines] = target.started
    assert (lines.closed, lines.process.poll() is not None) == (1, True)


def test_looks_together_are_everybody_once_and_known_where_each_is() -> None:
    def process(pid: int, name: str | None = None) -> events.OtherProcess:
        return events.OtherProcess(pid=pid, gpu=0, name=name, memory_mib=None, before=None)

    looks = [Others([process(8), process(9), tenant("a")], None), Others([], "why"), Others([process(8, "later")], "x")]
    assert together(looks, Others([process(9), tenant("b")], None)) == ([process(8, "later"), tenant("a")], "why")
    assert together([], Others([process(9)], "last")) == ([], "last")
    assert together([Others([], None)], Others([], None)) == ([], None)
