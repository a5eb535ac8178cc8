"""GPUs through one nvidia-smi in a loop beside the engine: which lines are a sample, when, and for how long."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from process_lines import ProcessLines

import runner
from runner.sample.gpu import remote as module
from runner.sample.gpu.reading import GpuError, GpuReading
from runner.sample.gpu.remote import RemoteSmi
from runner.sample.gpu.smi_groups import Groups
from runner.target.base import EndOfLines
from runner.target.embedded import write_nvidia_smi

START = datetime(2026, 11, 30, 8, 15)
BLOCKED = "[GPU access blocked by the operating system]"


def line(
    index: int = 0,
    busy: str | int = 10,
    *,
    at: float = 0.0,
    used: str | int = 1000,
    uuid: str | None = None,
    name: str = "NVIDIA H200, a comma",
) -> str:
    moment = f"{START + timedelta(seconds=at):%Y/%m/%d %H:%M:%S.%f}"[:-3]
    return f"{moment}, {index}, {uuid or f'GPU-{index}'}, {busy}, {used}, 143771, 580.159.04, {name}"


def reading(index: int = 0, busy: float | None = 10.0, error: str | None = None) -> GpuReading:
    figures = (busy, 1000.0, 143771.0) if error is None else (None, None, None)
    return GpuReading(index, f"GPU-{index}", "NVIDIA H200, a comma", *figures, error)


@dataclass
class Scripted:
    """A program whose lines are there (strings), come only after a pause (seconds before them), or end it (an
    exception). Time is the script's: a read that waits moves it on."""

    script: list[Any]
    now: float = 1000.0
    closed: int = 0
    commands: list[list[str]] = field(default_factory=list)

    def __call__(self, command: list[str]) -> Scripted:
        self.commands.append(command)
        return self

    def read(self, timeout: float) -> str | None:
        if self.script and isinstance(self.script[0], float):
            if self.script[0] > timeout:
                self.script[0] -= timeout
                self.now += timeout
                return None
            self.now += self.script.pop(0)
        if not self.script:
            self.now += timeout
            return None
        if isinstance(self.script[0], Exception):
            raise self.script[0]
        return str(self.script.pop(0))

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[RemoteSmi, Scripted]]:
    """A reader of a script, with the script's clock."""

    def make(*script: Any, interval: float = 2.0) -> tuple[RemoteSmi, Scripted]:
        program = Scripted(list(script))
        monkeypatch.setattr(module, "monotonic", lambda: program.now)
        return RemoteSmi(["nvidia-smi"], program, EndOfLines, interval), program

    return make


ONE = [line(), 0.25, line(at=0.25)]
TWO = [line(0), line(1), 0.25, line(0, at=0.25), line(1, at=0.25)]


@pytest.mark.parametrize(("interval", "pace"), [(0.01, "100"), (0.3, "150"), (0.5, "250"), (30.0, "250")])
def test_the_loop_runs_twice_as_fast_as_it_is_read(scripted: Any, interval: float, pace: str) -> None:
    reader, program = scripted(*ONE, interval=interval)
    reader.open()
    assert program.commands == [[
        "nvidia-smi",
        "--query-gpu=timestamp,index,uuid,utilization.gpu,memory.used,memory.total,driver_version,name",
        "--format=csv,noheader,nounits", "-lms", pace,
    ]]  # fmt: skip
    assert reader.shortest == 2 * int(pace) / 1000
    assert reader.source == "nvidia-smi in the engine's container, driver 580.159.04"


def test_the_gpus_are_learnt_from_the_first_group(scripted: Any) -> None:
    assert scripted(*ONE)[0].open() == [reading()]
    assert scripted(*TWO)[0].open() == [reading(0), reading(1)]


def test_what_came_before_the_question_is_no_answer_to_it(scripted: Any) -> None:
    """Nobody reads between two rounds, and lines pile up."""
    old = [line(busy=1, at=0.5), line(busy=2, at=0.75), line(busy=3, at=1.0)]
    reader, program = scripted(*ONE, *old, 0.1, line(busy=77, at=1.1))
    reader.open()
    program.now += 0.75
    asked = program.now
    assert reader.read() == [reading(busy=77.0)]
    assert program.now == pytest.approx(asked + 0.1)  # and the sample is stamped when it came


def test_a_group_begun_before_the_question_is_none(scripted: Any) -> None:
    reader, program = scripted(
        *TWO, line(0, busy=1, at=0.5), 0.1, line(1, busy=2, at=0.5), 0.15, line(0, busy=3, at=0.75),
        line(1, busy=4, at=0.75),
    )  # fmt: skip
    reader.open()
    program.now += 0.25
    assert reader.read() == [reading(0, 3.0), reading(1, 4.0)]


def test_of_several_groups_that_come_at_once_the_newest(scripted: Any) -> None:
    reader, _ = scripted(*ONE, 0.5, line(busy=1, at=0.5), line(busy=2, at=0.75))
    reader.open()
    assert reader.read() == [reading(busy=2.0)]


def test_half_a_group_is_no_sample(scripted: Any) -> None:
    reader, _ = scripted(*TWO, 0.25, line(0, busy=1, at=0.5), 0.25, line(0, busy=2, at=0.75), line(1, busy=3, at=0.75))
    reader.open()
    assert reader.read() == [reading(0, 2.0), reading(1, 3.0)]
    alone = [part for at in (0.5, 0.75, 1.0, 1.25) for part in (0.25, line(1, at=at))]
    reader, _ = scripted(*TWO, *alone)
    reader.open()
    with pytest.raises(GpuError, match=r"no sample for 2\.25 s$"):
        reader.read()


@pytest.mark.parametrize(
    "torn",
    [
        line(busy=50)[: len(line()) // 2],  # half a line
        line(busy=50)[:-3],  # its figures are whole, its end is not
        line(busy=50)[30:],
        "warning: " + line(busy=50),  # stderr in front of it
        line(busy=50, uuid="GPU-other"),
        line(busy=50).replace("2026/11/30", "yesterday"),
        line(busy=50).replace("08:15", "later"),
        "NVRM: something on stderr",
    ],
)
def test_what_is_not_a_whole_line_is_no_sample(scripted: Any, torn: str) -> None:
    reader, _ = scripted(*ONE, 0.25, torn, 0.25, line(busy=7, at=0.75))
    reader.open()
    assert reader.read() == [reading(busy=7.0)]
    reader, _ = scripted(*ONE, 0.25, torn)
    reader.open()
    with pytest.raises(GpuError) as raised:
        reader.read()
    assert str(raised.value) == f"nvidia-smi: no sample for 2.25 s; it said: {torn}"


def test_words_within_a_group_spoil_it(scripted: Any) -> None:
    reader, _ = scripted(
        *TWO, 0.25, line(0, at=0.5), "words", line(1, at=0.5), 0.25, line(0, busy=5, at=0.75),
        line(1, busy=6, at=0.75),
    )  # fmt: skip
    reader.open()
    assert reader.read() == [reading(0, 5.0), reading(1, 6.0)]


def test_words_within_the_first_group_hide_no_gpu(scripted: Any) -> None:
    assert scripted(line(0), "words", line(1), 0.25, *TWO)[0].open() == [reading(0), reading(1)]
    groups = Groups()
    groups.add(line(0))
    groups.forget()
    assert [groups.add(line(index)) for index in (1, 0, 1, 0)] == [None, None, None, None]
    group = groups.add(line(1))
    assert group is not None and group.gpus == [reading(0), reading(1)]


def test_carriage_returns_and_empty_lines_are_nothing(scripted: Any) -> None:
    reader, _ = scripted(line() + "\r", "\r", 0.25, line(at=0.25) + "\r", 0.25, "", line(busy=8, at=0.5) + "\r")
    reader.open()
    assert reader.read() == [reading(busy=8.0)]


def test_of_a_lost_gpu_nothing_counts_though_its_loop_goes_on(scripted: Any) -> None:
    """As recorded: memory says so, utilisation stays a plausible 0 %; the other GPU's figures stand."""
    reader, _ = scripted(
        *TWO, 0.25, line(0, busy=3, at=0.5), line(1, busy=0, used=BLOCKED, at=0.5, uuid="[GPU is lost]"),
    )  # fmt: skip
    reader.open()
    error = "nvidia-smi: memory.used is 'GPU access blocked by the operating system'"
    assert reader.read() == [reading(0, 3.0), reading(1, error=error)]


def test_silence_is_no_sample_and_may_end(scripted: Any) -> None:
    reader, program = scripted(*ONE, 4.0, line(busy=9, at=4.25))
    reader.open()
    asked = program.now
    with pytest.raises(GpuError, match=r"nvidia-smi: no sample for 2\.25 s$"):
        reader.read()
    assert program.now == pytest.approx(asked + 2.25)
    assert reader.read() == [reading(busy=9.0)]


def test_a_line_that_was_held_up_is_of_the_past(scripted: Any) -> None:
    """A connection that stalls hands over late what was printed in time."""
    stalled = [part for at in (0.5, 0.75, 1.0) for part in (line(busy=50, at=at), 0.01)]
    reader, _ = scripted(*ONE, 5.0, *stalled, line(busy=6, at=5.2))
    reader.open()
    with pytest.raises(GpuError, match="no sample"):
        reader.read()
    with pytest.raises(GpuError, match="no sample"):
        reader.read()
    assert reader.read() == [reading(busy=6.0)]
    reader, _ = scripted(*ONE, 2.2, line(busy=50, at=0.2), 0.04, line(busy=50, at=0.21))
    reader.open()
    with pytest.raises(GpuError, match=r"what came was 2\.\d+ s old"):
        reader.read()


def test_the_clock_there_may_be_another(scripted: Any) -> None:
    reader, program = scripted(*ONE, 0.25, line(busy=6, at=0.5))
    program.now = -3_000_000_000.0
    reader.open()
    assert reader.read() == [reading(busy=6.0)]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (["Failed to initialize NVML: Unknown Error", EndOfLines("exit code 255")],
         "nvidia-smi: Failed to initialize NVML: Unknown Error (exit code 255)"),
        ([EndOfLines("the connection was lost")], "nvidia-smi: it has ended (the connection was lost)"),
        ([line(at=0.5)[:40], EndOfLines("exit code 137")], f"nvidia-smi: {line(at=0.5)[:40]} (exit code 137)"),
    ],
)  # fmt: skip
def test_an_end_is_for_good_with_its_words(scripted: Any, script: list[Any], words: str) -> None:
    reader, program = scripted(*ONE, 0.25, line(busy=5, at=0.5), *script)
    reader.open()
    assert reader.read() == [reading(busy=5.0)]
    program.script = [*program.script, line(at=1.0)] if program.script else [line(at=1.0)]
    for _ in range(3):
        with pytest.raises(GpuError) as raised:
            reader.read()
        assert str(raised.value) == words
        if isinstance(program.script[0], Exception):
            program.script.pop(0)  # a stream that could be read again would not be the one that was lost


def test_the_words_of_an_end_are_its_own(scripted: Any) -> None:
    reader, _ = scripted("a warning at the start", *ONE, 0.25, line(at=0.5), EndOfLines("exit code 137"))
    reader.open()
    with pytest.raises(GpuError, match=r"^nvidia-smi: it has ended \(exit code 137\)$"):
        reader.read()


def test_a_flood_without_an_end_of_lines_holds_nothing_up(scripted: Any) -> None:
    reader, program = scripted(*ONE)
    reader.open()

    def flood(_: float) -> str:
        program.now += 0.001
        return "y"

    program.read = flood
    with pytest.raises(GpuError, match=r"no sample for .*; it said: y / y / y"):
        reader.read()


def test_it_is_closed_at_any_time(scripted: Any) -> None:
    reader, program = scripted(*ONE, 0.25, line(at=0.5))
    reader.close()
    with pytest.raises(GpuError, match="closed"):
        reader.open()  # it was started meanwhile
    assert program.closed == 1
    reader, program = scripted(*ONE, 0.25, line(at=0.5))
    reader.open()
    reader.close()
    assert program.closed == 1
    with pytest.raises(GpuError, match="closed"):
        reader.read()


def test_no_answer_at_all(scripted: Any) -> None:
    with pytest.raises(GpuError, match=r"nvidia-smi: no answer within 8 s$"):
        scripted()[0].open()
    with pytest.raises(GpuError, match=r"nvidia-smi: No devices were found \(exit code 6\)"):
        scripted("No devices were found", EndOfLines("exit code 6"))[0].open()
    with pytest.raises(GpuError, match=r"nvidia-smi: sh: 1: nvidia-smi: not found \(exit code 127\)"):
        scripted("sh: 1: nvidia-smi: not found", EndOfLines("exit code 127"))[0].open()


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., RemoteSmi]]:
    """A reader of the embedded engine's nvidia-smi, a real process in a loop, which goes wrong at one of its lines."""
    monkeypatch.setattr(module, "_SHORTEST", 0.02)
    monkeypatch.setattr(module, "_FIRST", 60.0)
    monkeypatch.setattr(module, "_SLACK", 30.0)
    monkeypatch.setattr(module, "_LATE", 60.0)
    opened: list[RemoteSmi] = []
    processes: list[ProcessLines] = []

    def make(how: str | None = None, at: int = 40, profile: str = "h200", program: str | None = None) -> RemoteSmi:
        script = write_nvidia_smi(tmp_path)
        faults: list[dict[str, Any]] = [] if how is None else [{"kind": "nvidia-smi", "at_sample": at, "how": how}]
        env = {
            **os.environ,
            "PYTHONPATH": str(Path(runner.__file__).parents[1]),
            "SIMULATOR_PROFILE": profile,
            "SIMULATOR_FAULTS": json.dumps(faults),
        }

        def execute(command: list[str]) -> ProcessLines:
            processes.append(ProcessLines(command, env))
            return processes[-1]

        opened.append(RemoteSmi([program or str(script)], execute, EndOfLines, 0.02))
        return opened[-1]

    yield make
    for reader in opened:
        reader.close()
    assert all(one.process.poll() is not None for one in processes)


def test_the_stand_in_is_read(stand_in: Callable[..., RemoteSmi]) -> None:
    reader = stand_in()
    [gpu] = reader.open()
    assert (gpu.index, gpu.name, gpu.memory_mib, gpu.total_mib) == (0, "NVIDIA H200", 131702.0, 143155.0)
    for _ in range(5):
        [now] = reader.read()
        assert now.memory_mib == 131702.0 and 0 < (now.utilization or 0) < 100
    assert reader.source == "nvidia-smi in the engine's container, driver 580.159.04"


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("exit", r"nvidia-smi: Failed to initialize NVML: Unknown Error \(exit code 255\)"),
        ("device-lost", r"GPU is lost.*\(exit code 15\)"),
        ("torn", r"nvidia-smi: 20\d\d/.* \(exit code -9\)"),
    ],
)
def test_lost_at_sample_40_it_stays_lost(stand_in: Callable[..., RemoteSmi], how: str, words: str) -> None:
    reader = stand_in(how)
    reader.open()
    good = 0
    with pytest.raises(GpuError, match=words):
        while True:
            assert reader.read()[0].error is None
            good += 1
    assert 1 <= good < 40
    for _ in range(3):
        with pytest.raises(GpuError, match=words):
            reader.read()


def test_blocked_from_sample_40_on(stand_in: Callable[..., RemoteSmi]) -> None:
    reader = stand_in("blocked")
    reader.open()
    while (gpu := reader.read()[0]).error is None:
        assert gpu.memory_mib == 131702.0
    for _ in range(3):
        [gpu] = reader.read()
        assert (gpu.utilization, gpu.memory_mib) == (None, None) and "blocked" in str(gpu.error)


def test_one_that_hangs_gives_no_sample(stand_in: Callable[..., RemoteSmi], monkeypatch: pytest.MonkeyPatch) -> None:
    reader = stand_in("hang", at=3)
    reader.open()
    monkeypatch.setattr(module, "_SLACK", 0.2)
    with pytest.raises(GpuError, match=r"no sample for 0\.21 s"):
        while True:
            reader.read()


def test_a_container_without_nvidia_smi_or_without_a_gpu_says_so(stand_in: Callable[..., RemoteSmi]) -> None:
    with pytest.raises(GpuError, match=r"nvidia-smi: .*executable file not found"):
        stand_in(program="/nowhere/nvidia-smi").open()
    with pytest.raises(GpuError, match=r"nvidia-smi: No devices were found \(exit code 6\)"):
        stand_in(profile="cpu").open()
