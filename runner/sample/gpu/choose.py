"""Which way the GPUs are read: NVML, else nvidia-smi."""

from runner.sample.gpu.nvml import open_nvml
from runner.sample.gpu.reading import GpuError, GpuReader
from runner.sample.gpu.smi import open_smi


def open_gpus() -> GpuReader:
    """A reader that has answered. Raises GpuError, with the failures of both ways."""
    failures = []
    for way in (open_nvml, open_smi):
        try:
            return way()
        except GpuError as error:
            failures.append(str(error))
    raise GpuError("; ".join(failures))
