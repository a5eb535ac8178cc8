"""GPUs through NVML: the real binding over a driver made up, and the truth on a machine without one."""

from __future__ import annotations

import ctypes
import sys

import pynvml
import pytest
from nvml_driver import MIB, VERSION, Card, Driver

from runner.sample.gpu.choose import open_gpus
from runner.sample.gpu.nvml import open_nvml
from runner.sample.gpu.reading import GpuError, GpuProcess, GpuReading

UUID = Card().uuid
TWO = (Card(uuid="GPU-1", utilization=10), Card(uuid="GPU-2", name="NVIDIA L4", utilization=90, used=7 * MIB))


def test_the_figures_with_their_units(monkeypatch: pytest.MonkeyPatch) -> None:
    Driver(*TWO).load(monkeypatch)
    reader = open_nvml()
    assert reader.source == f"NVML, driver {VERSION}"
    assert reader.read() == [
        GpuReading(0, "GPU-1", "NVIDIA H200", 10, 5000, 143771),
        GpuReading(1, "GPU-2", "NVIDIA L4", 90, 7, 143771),
    ]


def test_memory_is_what_nvidia_smi_calls_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole MiB, to the nearest, and without the driver's reserve; a driver that cannot tell them apart counts it, as
    the nvidia-smi of its time."""
    card = Card(used=5000 * MIB + MIB - 1)  # an H200 where this cut off was 1 MiB below nvidia-smi
    Driver(card).load(monkeypatch)
    assert [one.memory_mib for one in open_nvml().read()] == [5001]
    old = Driver(card, missing=("nvmlDeviceGetMemoryInfo_v2",)).load(monkeypatch)
    assert [one.memory_mib for one in open_nvml().read()] == [5601]
    assert "nvmlDeviceGetMemoryInfo" in old.calls


@pytest.mark.parametrize("asked", ["nvmlDeviceGetMemoryInfo", "nvmlDeviceGetUtilizationRates"])
def test_of_a_gpu_that_fails_nothing_counts(monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
    """A lost GPU goes on saying 0 % to the one question while the other fails. Its neighbour is not concerned."""
    lost = Card(uuid="GPU-1", utilization=0, broken={asked: pynvml.NVML_ERROR_GPU_IS_LOST})
    Driver(lost, TWO[1]).load(monkeypatch)
    one, other = open_nvml().read()
    assert (one.utilization, one.memory_mib, one.total_mib) == (None, None, None)
    assert one.error == "NVML: GPU is lost"
    assert (other.utilization, other.memory_mib, other.error) == (90, 7, None)


def test_a_figure_that_a_gpu_does_not_have_is_absent_and_the_other_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    card = Card(broken={"nvmlDeviceGetUtilizationRates": pynvml.NVML_ERROR_NOT_SUPPORTED})
    Driver(card).load(monkeypatch)
    assert open_nvml().read() == [GpuReading(0, UUID, "NVIDIA H200", None, 5000, 143771)]
    card.broken = {"nvmlDeviceGetMemoryInfo": pynvml.NVML_ERROR_NOT_SUPPORTED}
    assert open_nvml().read() == [GpuReading(0, UUID, "NVIDIA H200", 17, None, None)]


def test_a_gpu_that_this_process_may_not_use_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """NVML numbers the machine's GPUs, a container's CUDA those that it may use."""
    denied = Card(uuid="GPU-0", broken={"nvmlDeviceGetHandleByIndex": pynvml.NVML_ERROR_NO_PERMISSION})
    Driver(denied, TWO[1]).load(monkeypatch)
    assert [(one.index, one.uuid) for one in open_nvml().read()] == [(1, "GPU-2")]
    driver = Driver(denied).load(monkeypatch)
    with pytest.raises(GpuError, match="no GPU that this process may use"):
        open_nvml()
    assert driver.open == 0


def test_processes_of_every_kind_once_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    card = Card(compute=[(71, 30 * MIB), (72, None)], graphics=[(71, 30 * MIB), (9, MIB)])
    Driver(card, Card(uuid="GPU-2", compute=[(71, 5 * MIB)]), names={71: "VLLM::EngineCore", 9: "Xorg"}).load(
        monkeypatch
    )
    assert open_nvml().processes() == [
        GpuProcess(71, UUID, "VLLM::EngineCore", 30),
        GpuProcess(72, UUID, None, None),
        GpuProcess(9, UUID, "Xorg", 1),
        GpuProcess(71, "GPU-2", "VLLM::EngineCore", 5),
    ]


@pytest.mark.parametrize("number", [pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_NO_PERMISSION])
def test_processes_that_cannot_be_listed_are_not_none(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    Driver(Card(broken={"nvmlDeviceGetComputeRunningProcesses": number})).load(monkeypatch)
    with pytest.raises(GpuError, match=r"NVML: processes: (Not Supported|Insufficient Permissions)"):
        open_nvml().processes()


def test_a_driver_that_lists_no_processes_in_this_form_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    Driver(Card(), missing=("nvmlDeviceGetComputeRunningProcesses_v3",)).load(monkeypatch)
    with pytest.raises(GpuError, match="NVML: processes: Function Not Found"):
        open_nvml().processes()


def test_only_what_computes_has_to_be_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    card = Card(compute=[(1, 0)], broken={"nvmlDeviceGetGraphicsRunningProcesses": pynvml.NVML_ERROR_NOT_SUPPORTED})
    Driver(card).load(monkeypatch)
    assert [one.pid for one in open_nvml().processes()] == [1]


def test_what_was_opened_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(Card()).load(monkeypatch)
    reader = open_nvml()
    assert driver.open == 1
    reader.close()
    assert driver.open == 0


def test_without_the_binding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(GpuError, match=r"NVML: .*pynvml"):
        open_nvml()


def has_driver() -> bool:
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True


@pytest.mark.skipif(has_driver(), reason="this machine has an NVIDIA driver")
def test_a_machine_without_a_driver_says_what_both_ways_found(monkeypatch: pytest.MonkeyPatch, tmp_path: str) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GpuError) as failed:
        open_gpus()
    assert str(failed.value) == "NVML: NVML Shared Library Not Found; nvidia-smi: not on PATH"
