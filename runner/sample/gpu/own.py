"""Which of this machine's GPUs are an engine's, and which processes on them are not."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from runner.sample.gpu.reading import GpuError, GpuProcess, GpuReading

_UNUSED = 64.0
"""MiB that may be in use on a GPU that nobody uses."""


@dataclass(frozen=True, slots=True)
class Own:
    """An engine's GPUs; `doubt` says why they may be others."""

    gpus: list[GpuReading]
    doubt: str | None = None


@dataclass(frozen=True, slots=True)
class Others:
    """Processes on an engine's GPUs that are not the engine's; `unknown` says why there may be more of them, None where
    there are none besides."""

    found: list[GpuProcess]
    unknown: str | None


def engine_gpus(
    gpus: Sequence[GpuReading],
    processes: Collection[GpuProcess],
    pids: Collection[int],
    *,
    visible: str | None,
    bus_order: bool,
    here: Collection[int],
) -> Own:
    """The GPUs on which a process of the engine is seen; where none is, the one GPU that it can be.

    `gpus` in the order of the bus; `visible` is CUDA_VISIBLE_DEVICES; `bus_order` whether CUDA_DEVICE_ORDER is
    PCI_BUS_ID; `here` are those of the listed ids that some process has here. In a container the driver's process ids
    can be the host's: then nothing matches. An engine that answers has its GPU's context, so it would be seen where
    the ids are ours. Raises GpuError where it cannot be told.
    """
    if visible is not None and "MIG-" in visible:
        raise GpuError(f"CUDA_VISIBLE_DEVICES={visible}: part of a GPU (MIG), whose figures are not read")
    seen = {one.gpu for one in processes if one.pid in pids}
    if seen:
        return Own([gpu for gpu in gpus if gpu.uuid in seen])
    possible = list(gpus) if visible is None else _visible(gpus, visible)
    if len(possible) != 1:
        raise GpuError(
            f"{len(possible)} GPUs are visible to the engine, and none of its processes is among those that the driver "
            "lists: which of them it uses cannot be told"
        )
    if processes and all(one.pid in here for one in processes):
        raise GpuError(
            f"the driver lists {len(processes)} processes by the ids that they have here, and none is the engine's: "
            "whether it uses a GPU cannot be told"
        )
    doubt = "none of the engine's processes is among those that the driver lists; it is the only GPU visible"
    by_number = visible is not None and visible.split(",")[0].strip().isdecimal()
    if by_number and not bus_order and len({gpu.name for gpu in gpus}) > 1:
        doubt += (
            f"; CUDA_VISIBLE_DEVICES={visible} counts different GPUs by their speed, unless CUDA_DEVICE_ORDER is "
            "PCI_BUS_ID: it may be another one"
        )
    return Own(possible, doubt)


def _visible(gpus: Sequence[GpuReading], visible: str) -> list[GpuReading]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves: CUDA reads it up to the first word that names no GPU (CUDA C++
    Programming Guide, environment variables), numbers or beginnings of UUIDs."""
    found: list[GpuReading] = []
    for word in map(str.strip, visible.split(",")):
        if word.isdecimal():
            named = [gpu for number, gpu in enumerate(gpus) if number == int(word)]
        else:
            named = [gpu for gpu in gpus if word.startswith("GPU-") and gpu.uuid.startswith(word)]
        if len(named) != 1:
            break
        found += [gpu for gpu in named if gpu not in found]
    if not found:
        raise GpuError(f"CUDA_VISIBLE_DEVICES={visible!r} leaves the engine no GPU")
    return found


def other_processes(
    now: Collection[GpuProcess],
    before: Collection[GpuProcess] | None,
    pids: Collection[int],
    gpus: Collection[str],
) -> Others:
    """The processes on `gpus` (UUIDs) that are not the engine's.

    Where one of the engine's own is seen, ids are comparable: every other is a stranger. Where none is, a stranger is
    who was there `before` the engine started (None: not known), and there may be more.
    """
    here = [one for one in now if one.gpu in gpus]
    if any(one.pid in pids for one in now):
        return Others([one for one in here if one.pid not in pids], None)
    known = {(one.pid, one.gpu) for one in before or ()}
    return Others(
        [one for one in here if (one.pid, one.gpu) in known],
        f"the driver lists {len(here)} processes there and none under an id of the engine's",
    )


def unaccounted(gpus: Collection[GpuReading], processes: Collection[GpuProcess], own: Collection[str]) -> str | None:
    """Why somebody whom the driver does not list may be on the GPUs `own` (UUIDs): memory in use on one of them before
    the engine's start, and no process listed there then. None where nothing speaks for that."""
    listed = {one.gpu for one in processes}
    for gpu in gpus:
        if gpu.uuid in own and gpu.uuid not in listed and gpu.memory_mib is not None and gpu.memory_mib > _UNUSED:
            return f"{gpu.memory_mib:.0f} MiB were in use before the start and no process is listed"
    return None
