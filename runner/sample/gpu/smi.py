"""GPUs through `nvidia-smi`, one process a question."""

import shutil
import subprocess

from runner.sample.gpu.reading import GpuError, GpuProcess, GpuReading
from runner.sample.gpu.smi_line import GPU, UNSUPPORTED, fields_of, gpu_of

_LIMIT = 5.0
"""Seconds that nvidia-smi has for an answer; it usually takes a tenth of one, on a busy machine one."""
_APPS = ("pid", "gpu_uuid", "used_memory", "process_name")
_UNNAMED = ("", "[Not Found]", "[Insufficient Permissions]", *UNSUPPORTED)


class SmiReader:
    """The program `nvidia-smi` at a path."""

    shortest = 0.5

    def __init__(self, path: str) -> None:
        """Raises GpuError where it does not answer."""
        self._path = path
        lines = self._gpus()
        if not lines:
            raise GpuError("nvidia-smi: it lists no GPU")
        self.source = f"nvidia-smi, driver {lines[0]['driver_version']}"

    def read(self) -> list[GpuReading]:
        """Every GPU. Raises GpuError."""
        return [gpu_of(line) for line in self._gpus()]

    def processes(self) -> list[GpuProcess]:
        """Those that compute: nvidia-smi lists no others in this form. Raises GpuError."""
        found = []
        for line in self._ask("--query-compute-apps", _APPS):
            name, used = line["process_name"], line["used_memory"]
            if not line["pid"].isdecimal():
                raise GpuError(f"nvidia-smi: a process {line['pid']!r}")
            found.append(
                GpuProcess(
                    int(line["pid"]),
                    line["gpu_uuid"],
                    None if name in _UNNAMED else name,
                    float(used) if used.isdecimal() else None,
                )
            )
        return found

    def close(self) -> None:
        """Nothing of it is left running."""

    def _gpus(self) -> list[dict[str, str]]:
        return self._ask("--query-gpu", GPU)

    def _ask(self, query: str, fields: tuple[str, ...]) -> list[dict[str, str]]:
        """The lines of an answer, by field."""
        command = [self._path, f"{query}={','.join(fields)}", "--format=csv,noheader,nounits"]
        try:
            ended = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_LIMIT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise GpuError(f"nvidia-smi: no answer within {_LIMIT:g} s") from None
        except OSError as error:
            raise GpuError(f"nvidia-smi: {error.strerror}") from None
        lines = [line for line in ended.stdout.decode("utf-8", "replace").splitlines() if line.strip()]
        if ended.returncode != 0:
            raise GpuError(f"nvidia-smi: {lines[0] if lines else 'no words'} (exit code {ended.returncode})")
        return [fields_of(line, fields) for line in lines]


def open_smi() -> SmiReader:
    """The first nvidia-smi on PATH. Raises GpuError."""
    path = shutil.which("nvidia-smi")
    if path is None:
        raise GpuError("nvidia-smi: not on PATH")
    return SmiReader(path)
