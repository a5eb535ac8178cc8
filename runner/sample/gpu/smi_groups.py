"""The lines that one `nvidia-smi` in a loop prints, put together: all GPUs of one moment."""

from dataclasses import dataclass, replace
from datetime import datetime

from runner.sample.gpu.reading import GpuError, GpuReading
from runner.sample.gpu.smi_line import GPU, fields_of, gpu_of

FIELDS = ("timestamp", *GPU)
"""What the loop is asked for."""
_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Group:
    """All GPUs of one moment; `at` is that moment in seconds by the program's own clock, of whatever time zone."""

    at: float
    driver: str
    gpus: list[GpuReading]


class Groups:
    """Takes lines as they come. Which GPUs there are it learns from the first group, which is whole when the index
    falls back; from then on a group is these GPUs in this order, and whatever lacks one of them is none."""

    def __init__(self) -> None:
        self._order: list[GpuReading] | None = None
        self._begun: list[GpuReading] = []
        self._from_its_first = True  # whether the group under way was heard from its first line

    def add(self, line: str) -> Group | None:
        """The group that this line completes. Raises GpuError where it is not of the form that was asked for, and then
        nothing of the group under way counts."""
        try:
            row = fields_of(line, FIELDS)
            gpu, at = gpu_of(row), _seconds(row["timestamp"])
        except GpuError:
            self.forget()
            raise
        if self._begun and gpu.index <= self._begun[-1].index:
            if self._order is None and self._from_its_first:
                self._order = self._begun
            self._begun, self._from_its_first = [], True
        self._begun.append(gpu)
        if self._order is None:
            return None
        due = self._order[len(self._begun) - 1]
        if gpu.index != due.index:
            self._begun = []
            return None
        if gpu.error is not None:
            # Of a lost GPU the name and the UUID can be words, too.
            self._begun[-1] = replace(gpu, uuid=due.uuid, name=due.name)
        elif (gpu.uuid, gpu.name) != (due.uuid, due.name):
            self.forget()
            raise GpuError(f"nvidia-smi: {line!r} is not of GPU {due.index}, {due.uuid}, {due.name}")
        if len(self._begun) < len(self._order):
            return None
        group, self._begun = Group(at, row["driver_version"], self._begun), []
        return group

    def forget(self) -> None:
        """Nothing of the group under way counts."""
        if self._order is None:
            self._from_its_first = False  # its other lines are still to come, and must not look like a whole one
        else:
            self._begun = []


def _seconds(timestamp: str) -> float:
    try:
        return (datetime.strptime(timestamp, "%Y/%m/%d %H:%M:%S.%f") - _EPOCH).total_seconds()
    except ValueError:
        raise GpuError(f"nvidia-smi: a time {timestamp!r}") from None
