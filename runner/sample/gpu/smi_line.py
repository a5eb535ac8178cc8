"""One line of what `nvidia-smi` prints as CSV without header and units."""

from collections.abc import Sequence

from runner.sample.gpu.reading import GpuError, GpuReading

GPU = ("index", "uuid", "utilization.gpu", "memory.used", "memory.total", "driver_version", "name")
"""What is asked of a GPU. The name is last: it may hold the separator, and a line cut short lacks a field."""
UNSUPPORTED = ("[N/A]", "[Not Supported]", "N/A")
"""What stands where a GPU or a driver does not have such a figure."""


def fields_of(line: str, fields: Sequence[str]) -> dict[str, str]:
    """A line by field; the last one may hold the separator. Raises GpuError where it is not of this form."""
    values = line.split(", ", len(fields) - 1)
    if len(values) != len(fields):
        raise GpuError(f"nvidia-smi: {line!r} is not what was asked for")
    return dict(zip(fields, values, strict=True))


def gpu_of(line: dict[str, str]) -> GpuReading:
    """One GPU's line. A GPU that is lost says so in one field and leaves a stale figure in another: where any field is
    neither a figure nor unsupported, nothing of the reading counts. Raises GpuError where it names no GPU."""
    if not line["index"].isdecimal():
        raise GpuError(f"nvidia-smi: a GPU {line['index']!r}")
    figures: list[float | None] = []
    for field in ("utilization.gpu", "memory.used", "memory.total"):
        text = line[field]
        if not (text.isdecimal() or text in UNSUPPORTED):
            error = f"nvidia-smi: {field} is {text.strip('[]')!r}"
            return GpuReading(int(line["index"]), line["uuid"], line["name"], None, None, None, error)
        figures.append(float(text) if text.isdecimal() else None)
    utilization, used, total = figures
    return GpuReading(int(line["index"]), line["uuid"], line["name"], utilization, used, total)
