"""GPUs through NVML, the driver's own library."""

import contextlib
import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

from runner.sample.gpu.reading import GpuError, GpuProcess, GpuReading

_MIB = 2**20


class NvmlReader:
    """NVML, by its Python binding `library` (the module `pynvml` of nvidia-ml-py)."""

    shortest = 0.2
    """Utilization is a figure over the driver's window, of 1/6 s to 1 s (nvml.h, nvmlUtilization_t): more often would
    count one figure several times."""

    def __init__(self, library: Any) -> None:
        """Raises GpuError where there is no driver, or no GPU that we may use."""
        self._nvml = library
        try:
            library.nvmlInit()
        except library.NVMLError as error:
            raise GpuError(f"NVML: {error}") from None
        try:
            self._devices = self._accessible()
            driver = library.nvmlSystemGetDriverVersion()
        except library.NVMLError as error:
            self.close()
            raise GpuError(f"NVML: {error}") from None
        if not self._devices:
            self.close()
            raise GpuError("NVML: no GPU that this process may use")
        self.source = f"NVML, driver {driver}"

    def read(self) -> list[GpuReading]:
        """Every GPU; one that fails says so, the others stand."""
        return [self._reading(*device) for device in self._devices]

    def processes(self) -> list[GpuProcess]:
        """Of every kind: computing, drawing, and computing through MPS. Raises GpuError."""
        nvml = self._nvml
        found: dict[tuple[int, str], GpuProcess] = {}
        for _, handle, uuid, _ in self._devices:
            for ask in (
                nvml.nvmlDeviceGetComputeRunningProcesses,
                nvml.nvmlDeviceGetGraphicsRunningProcesses,
                nvml.nvmlDeviceGetMPSComputeRunningProcesses,
            ):
                try:
                    running = self._supported(partial(ask, handle)) or []
                except nvml.NVMLError as error:
                    raise GpuError(f"NVML: {error}") from None
                for one in running:
                    used = None if one.usedGpuMemory is None else one.usedGpuMemory // _MIB
                    found[one.pid, uuid] = GpuProcess(one.pid, uuid, self._name(one.pid), used)
        return list(found.values())

    def close(self) -> None:
        """Let NVML go."""
        with contextlib.suppress(self._nvml.NVMLError):
            self._nvml.nvmlShutdown()

    def _accessible(self) -> list[tuple[int, Any, str, str]]:
        """Index, handle, UUID and name. NVML counts those too that a container may not use; CUDA does not."""
        nvml, devices = self._nvml, []
        for index in range(nvml.nvmlDeviceGetCount()):
            with contextlib.suppress(nvml.NVMLError):
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                devices.append((index, handle, nvml.nvmlDeviceGetUUID(handle), nvml.nvmlDeviceGetName(handle)))
        return devices

    def _reading(self, index: int, handle: Any, uuid: str, name: str) -> GpuReading:
        nvml = self._nvml
        try:
            memory = self._supported(lambda: self._memory(handle))
            utilization = self._supported(lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
        except nvml.NVMLError as error:
            # A lost GPU fails one question and answers another with a stale figure: nothing of it counts.
            return GpuReading(index, uuid, name, None, None, None, f"NVML: {error}")
        used, total = (None, None) if memory is None else (memory.used // _MIB, memory.total // _MIB)
        return GpuReading(index, uuid, name, utilization, used, total)

    def _memory(self, handle: Any) -> Any:
        """By the second version of the question, as nvidia-smi asks: the first counts the driver's reserve as used. A
        driver too old for it has a nvidia-smi that counts so, too."""
        nvml = self._nvml
        try:
            return nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
        except nvml.NVMLError as error:
            if error.value != nvml.NVML_ERROR_FUNCTION_NOT_FOUND:
                raise
            return nvml.nvmlDeviceGetMemoryInfo(handle)

    def _supported(self, ask: Callable[[], Any]) -> Any:
        """The answer; None where this GPU or this driver does not have such a figure."""
        nvml = self._nvml
        try:
            return ask()
        except nvml.NVMLError as error:
            if error.value in (nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_FUNCTION_NOT_FOUND):
                return None
            raise

    def _name(self, pid: int) -> str | None:
        """None for a process that cannot be seen from here."""
        with contextlib.suppress(self._nvml.NVMLError, UnicodeDecodeError):
            return self._nvml.nvmlSystemGetProcessName(pid) or None
        return None


def open_nvml() -> NvmlReader:
    """NVML of this machine. Raises GpuError where its binding or its driver is missing."""
    try:
        library = importlib.import_module("pynvml")
    except ImportError as error:
        raise GpuError(f"NVML: {error}") from None
    return NvmlReader(library)
