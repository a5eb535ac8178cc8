"""GPUs through nvidia-smi: the recorded words of the real one, and the stand-in with its faults."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import runner
from runner.sample.gpu import smi as module
from runner.sample.gpu.reading import GpuError, GpuProcess, GpuReading
from runner.sample.gpu.smi import SmiReader, open_smi
from runner.target.embedded import write_nvidia_smi

UUID = "GPU-00000000-0000-0000-0000-000000000000"
RECORDED = Path(__file__).parents[1] / "recordings" / "nvidia-smi" / "commands.txt"
HERE = (UUID, "580.159.04", "NVIDIA H200")


def recorded_line(command: str, number: int) -> list[str]:
    """The fields of one line that a recorded command printed."""
    block = RECORDED.read_text("utf-8").split(f"$ {command}\n")[1].split("rc=")[0]
    return block.splitlines()[number].removeprefix("out|").split(", ")


@pytest.fixture
def printing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., SmiReader]:
    """A reader of an nvidia-smi that answers first as all is well, then with these words and this exit code."""

    def make(gpus: str, apps: str = "", code: int = 0) -> SmiReader:
        (tmp_path / "well").write_text(f"0, {UUID}, 0, 0, 143771, 580.159.04, NVIDIA H200\n")
        (tmp_path / "gpus").write_text(gpus)
        (tmp_path / "apps").write_text(apps)
        script = tmp_path / "nvidia-smi"
        script.write_text(
            f"#!/bin/sh\ncd {tmp_path}\n"
            "[ -e well ] && cat well && rm well && exit 0\n"
            f'case "$1" in --query-gpu*) cat gpus;; *) cat apps;; esac\nexit {code}\n'
        )
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        return open_smi()

    return make


def test_the_recorded_form_is_read(printing: Callable[..., SmiReader]) -> None:
    command = (
        "nvidia-smi --query-gpu=timestamp,index,name,uuid,driver_version,utilization.gpu,memory.used,memory.total,"
        "power.draw,clocks.sm,temperature.gpu,fan.speed,pstate,clocks_throttle_reasons.active "
        "--format=csv,noheader,nounits"
    )
    line = recorded_line(command, 0)
    _, index, name, uuid, driver, busy, used, total, *_ = line
    reader = printing(", ".join([index, uuid, busy, used, total, driver, name]) + "\n")
    assert reader.source == "nvidia-smi, driver 580.159.04"
    assert reader.read() == [GpuReading(0, UUID, "NVIDIA H200", 0.0, 0.0, 143771.0)]


def test_of_a_lost_gpu_nothing_counts(printing: Callable[..., SmiReader]) -> None:
    """As recorded: memory says so, utilisation is a plausible 0 %."""
    command = (
        "env LD_PRELOAD=/fail.so EI=5 AT=1 nvidia-smi --query-gpu=timestamp,memory.used,utilization.gpu "
        "--format=csv,noheader -lms 400"
    )
    _, used, busy = recorded_line(command, 9)
    assert (used, busy) == ("[GPU access blocked by the operating system]", "0 %")
    [gpu] = printing(f"0, {UUID}, {busy.removesuffix(' %')}, {used}, 143771, 580, NVIDIA H200\n").read()
    assert (gpu.utilization, gpu.memory_mib, gpu.total_mib) == (None, None, None)
    assert gpu.error == "nvidia-smi: memory.used is 'GPU access blocked by the operating system'"


@pytest.mark.parametrize("unsupported", ["[N/A]", "[Not Supported]"])
def test_a_figure_that_a_gpu_does_not_have_is_absent(printing: Callable[..., SmiReader], unsupported: str) -> None:
    [gpu] = printing(f"0, {UUID}, {unsupported}, 12, 143771, 580, NVIDIA H200\n").read()
    assert gpu == GpuReading(0, UUID, "NVIDIA H200", None, 12.0, 143771.0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("No devices were found\n", "is not what was asked for"),
        (f"0, {UUID}, 5, 1", "is not what was asked for"),
        (f"GPU, {UUID}, 5, 1, 2, 580, H200\n", "a GPU 'GPU'"),
    ],
)
def test_words_that_are_no_answer_are_an_error(printing: Callable[..., SmiReader], text: str, words: str) -> None:
    with pytest.raises(GpuError, match=words):
        printing(text).read()


def test_its_own_words_and_its_exit_code(printing: Callable[..., SmiReader]) -> None:
    reader = printing(
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580\n", code=18
    )
    words = r"nvidia-smi: Failed to initialize NVML: Driver/library version mismatch \(exit code 18\)"
    with pytest.raises(GpuError, match=words):
        reader.read()


def test_processes(printing: Callable[..., SmiReader]) -> None:
    apps = (
        f"71, {UUID}, 31550, VLLM::EngineCore\n"
        f"72, {UUID}, [N/A], /usr/bin/python3, with a comma\n"
        f"73, {UUID}, 10, [Not Found]\n"
    )
    assert printing("", apps).processes() == [
        GpuProcess(71, UUID, "VLLM::EngineCore", 31550.0),
        GpuProcess(72, UUID, "/usr/bin/python3, with a comma", None),
        GpuProcess(73, UUID, None, 10.0),
    ]
    assert printing("", "").processes() == []


def test_processes_that_cannot_be_listed_are_not_none(printing: Callable[..., SmiReader]) -> None:
    with pytest.raises(GpuError, match="is not what was asked for"):
        printing("", "No devices were found\n").processes()
    with pytest.raises(GpuError, match=r"a process '\[N/A\]'"):
        printing("", f"[N/A], {UUID}, 5, name\n").processes()


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., SmiReader]:
    """A reader of the embedded engine's nvidia-smi, which goes wrong at its second line."""

    def make(how: str | None = None, profile: str = "h200") -> SmiReader:
        script = write_nvidia_smi(tmp_path)
        faults: list[dict[str, Any]] = [] if how is None else [{"kind": "nvidia-smi", "at_sample": 2, "how": how}]
        monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
        monkeypatch.setenv("PYTHONPATH", str(Path(runner.__file__).parents[1]))
        monkeypatch.setenv("SIMULATOR_PROFILE", profile)
        monkeypatch.setenv("SIMULATOR_FAULTS", json.dumps(faults))
        monkeypatch.setattr(module, "_LIMIT", 60.0)
        return open_smi()

    return make


def test_the_stand_in_is_read_as_the_real_one(stand_in: Callable[..., SmiReader]) -> None:
    reader = stand_in()
    [gpu] = reader.read()
    assert (gpu.index, gpu.uuid, reader.source.rpartition(" ")[2], gpu.name) == (0, *HERE)
    assert gpu.memory_mib == 131702.0 and gpu.total_mib == 143155.0 and 0 < (gpu.utilization or 0) < 100
    assert reader.processes() == []


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("exit", r"Failed to initialize NVML: Unknown Error \(exit code 255\)"),
        ("device-lost", r"GPU is lost.*\(exit code 15\)"),
        ("torn", r"\(exit code -9\)"),
    ],
)
def test_a_reading_that_fails(stand_in: Callable[..., SmiReader], how: str, words: str) -> None:
    reader = stand_in(how)
    with pytest.raises(GpuError, match=words):
        reader.read()
    assert reader.read()[0].memory_mib == 131702.0  # the next one is a reading again


@pytest.mark.parametrize(("how", "error"), [("blocked", True), ("unknown-error", True), ("not-available", False)])
def test_a_reading_without_figures(stand_in: Callable[..., SmiReader], how: str, error: bool) -> None:
    [gpu] = stand_in(how).read()
    assert (gpu.utilization, gpu.memory_mib, gpu.total_mib) == (None, None, None)
    assert (gpu.error is not None) is error


def test_one_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "nvidia-smi"
    script.write_text("#!/bin/sh\nexec sleep 600\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(module, "_LIMIT", 0.2)
    with pytest.raises(GpuError, match=r"no answer within 0\.2 s"):
        open_smi()


def test_a_machine_without_one_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GpuError, match="not on PATH"):
        open_smi()


def test_a_machine_without_a_gpu_says_so(stand_in: Callable[..., SmiReader]) -> None:
    with pytest.raises(GpuError, match=r"No devices were found \(exit code 6\)"):
        stand_in(profile="cpu")
