"""``python -m runner.simulator nvidia-smi ...``: a stand-in for ``nvidia-smi`` on the profile's host.

It knows the queries that a sampler makes: ``--query-gpu=FIELDS``, ``--query-compute-apps=FIELDS`` (nobody computes),
``--format=csv`` with ``noheader`` and ``nounits``, ``-l SECONDS``, ``-lms MILLISECONDS``, ``-i 0``, ``-L`` and
``--version``. Every sample is one line, flushed. Errors go to stdout, as nvidia-smi's do.

Forms, units, error words and exit codes are those of 580.159.04 (``tests/recordings/nvidia-smi``), but for these two
faults, known from reports alone: ``device-lost`` (words; the exit code is NVML's number for a lost GPU) and
``unknown-error``. The figures are invented: memory is vLLM's default share of the host's, the rest comes from a seed.

``SIMULATOR_PROFILE`` and ``SIMULATOR_FAULTS`` are the engine's. ``SIMULATOR_NVIDIA_SMI_SAMPLES`` names a file in which
samples are counted over several processes; without it each process counts its own.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from runner.simulator import faults, profile
from runner.simulator.profile import Host

VERSION = "580.159.04"
MEMORY_SHARE = 0.92  # vLLM's default gpu_memory_utilization
_MIB = 2**20
_UUID = "GPU-00000000-0000-0000-0000-000000000000"
_BUS = "00000000:00:06.0"
_ALIASES = {
    "clocks.sm": "clocks.current.sm",
    "clocks.mem": "clocks.current.memory",
    "clocks_throttle_reasons.active": "clocks_event_reasons.active",
    "gpu_name": "name",
    "gpu_uuid": "uuid",
    "used_memory": "used_gpu_memory",
}
_UNITS = {
    "utilization.gpu": "%", "utilization.memory": "%", "fan.speed": "%",
    "memory.used": "MiB", "memory.free": "MiB", "memory.total": "MiB", "used_gpu_memory": "MiB",
    "power.draw": "W", "power.limit": "W", "clocks.current.sm": "MHz", "clocks.current.memory": "MHz",
}  # fmt: skip
_MEASURED = (*_UNITS, "temperature.gpu", "pstate", "clocks_event_reasons.active")
_STALE_WHEN_BLOCKED = ("utilization.gpu", "utilization.memory")
_WORDS = {
    "blocked": "[GPU access blocked by the operating system]",
    "not-available": "[N/A]",
    "unknown-error": "[Unknown Error]",
}


class Ends(Exception):
    """The command ends with these words and this exit code."""

    def __init__(self, words: str, code: int) -> None:
        super().__init__(words)
        self.code = code


@dataclass(slots=True)
class Query:
    """What was asked: `fields` of the GPU or (`apps`) of its processes; `pause` is seconds, None for one sample."""

    fields: list[str]
    apps: bool = False
    header: bool = True
    units: bool = True
    pause: float | None = None


def main(argv: Sequence[str], environment: Mapping[str, str]) -> int:
    """Answer one command line; the exit code."""
    try:
        active = faults.parse(environment.get("SIMULATOR_FAULTS", ""))
        host = profile.load(environment.get("SIMULATOR_PROFILE", profile.DEFAULT)).host
    except ValueError as error:
        sys.stderr.write(f"nvidia-smi of the embedded engine: bad SIMULATOR_ variable: {error}\n")
        return 2
    try:
        return _answer(list(argv), host, active.of_kind("nvidia-smi"), environment)
    except Ends as end:
        _say(f"{end}\n")
        return end.code


def _answer(argv: list[str], host: Host, broken: Sequence[faults.Fault], environment: Mapping[str, str]) -> int:
    if argv == ["--version"]:
        _say(f"NVIDIA-SMI version  : {VERSION}\nNVML version        : {VERSION.rpartition('.')[0]}\n")
        _say(f"DRIVER version      : {VERSION}\nCUDA Version        : 13.0\n")
        return 0
    if argv == ["-L"]:
        _require_device(host)
        _say(f"GPU 0: {host.name} (UUID: {_UUID})\n")
        return 0
    query = _parsed(argv)
    _require_device(host)
    gpu = Gpu(host)
    counted = environment.get("SIMULATOR_NVIDIA_SMI_SAMPLES")
    if query.header:
        _say(", ".join(f"{name} [{_UNITS[name]}]" if name in _UNITS else name for name in query.fields) + "\n")
    own, due = 0, time.monotonic()
    while True:
        own += 1
        if not query.apps:
            _sample(gpu, query, _number(counted, own), broken)
        if query.pause is None:
            return 0
        due += query.pause
        time.sleep(max(0.0, due - time.monotonic()))


def _parsed(argv: list[str]) -> Query:
    query = Query([])
    words = [part for word in argv for part in (word.split("=", 1) if word.startswith("--") else [word])]
    while words:
        word = words.pop(0)
        if word not in (
            "--query-gpu",
            "--query-compute-apps",
            "--format",
            "-l",
            "--loop",
            "-lms",
            "--loop-ms",
            "-i",
            "--id",
        ):
            raise Ends(f"ERROR: Option {word} is not recognized. Please run 'nvidia-smi -h'.\n", 255)
        value = words.pop(0) if words else ""
        match word:
            case "--query-gpu" | "--query-compute-apps":
                query.apps = word == "--query-compute-apps"
                query.fields = [_field(name, apps=query.apps) for name in value.split(",")]
            case "--format":
                parts = value.split(",")
                if not set(parts) <= {"csv", "noheader", "nounits"}:
                    raise Ends("Format modifier is not recognized.", 2)
                query.header, query.units = "noheader" not in parts, "nounits" not in parts
            case "-i" | "--id":
                if value != "0":
                    raise Ends("No devices were found", 6)
            case _:
                query.pause = float(value) / (1000 if word in ("-lms", "--loop-ms") else 1)
    if not query.fields:
        raise Ends("No query was given: the stand-in answers --query-gpu and --query-compute-apps.", 255)
    return query


def _field(asked: str, *, apps: bool) -> str:
    known = ("timestamp", "pid", "process_name", "gpu_uuid", "used_gpu_memory") if apps else Gpu.FIELDS
    name = asked.strip() if asked.strip() in known else _ALIASES.get(asked.strip(), asked.strip())
    if name not in known:
        raise Ends(f'Field "{asked}" is not a valid field to query.\n', 2)
    return name


def _require_device(host: Host) -> None:
    if host.device != "GPU":
        raise Ends("No devices were found", 6)


def _number(counted: str | None, own: int) -> int:
    """The number of this sample: by the file, to which one byte is added, or by this process alone."""
    if counted is None:
        return own
    with Path(counted).open("ab") as file:
        file.write(b".")
        file.flush()
        return file.tell()


def _sample(gpu: Gpu, query: Query, number: int, broken: Sequence[faults.Fault]) -> None:
    values = gpu.sample()
    texts = {name: _text(name, values[name], units=query.units) for name in query.fields}
    for fault in broken:
        how, due = fault["how"], number == fault["at_sample"]
        if due:
            _break(how, ", ".join(texts.values()))
        if (due and how in ("not-available", "unknown-error")) or (how == "blocked" and number >= fault["at_sample"]):
            stale = _STALE_WHEN_BLOCKED if how == "blocked" else ()
            texts |= {name: _WORDS[how] for name in texts if name in _MEASURED and name not in stale}
            texts |= {name: _text(name, "0", units=query.units) for name in texts if name in stale}
    _say(", ".join(texts.values()) + "\n")


def _break(how: str, line: str) -> None:
    if how == "exit":
        raise Ends("Failed to initialize NVML: Unknown Error", 255)
    if how == "device-lost":
        where = f"GPU0: {_BUS}"
        raise Ends(
            f"Unable to determine the device handle for {where}: GPU is lost.  Reboot the system to recover this GPU",
            15,
        )
    if how == "hang":
        signal.pause()
    if how == "torn":
        _say(line[: len(line) // 2])
        os.kill(os.getpid(), signal.SIGKILL)


def _text(name: str, value: str, *, units: bool) -> str:
    return f"{value} {_UNITS[name]}" if units and name in _UNITS and not value.startswith("[") else value


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


class Gpu:
    """The device's figures, as text without units; the same row of samples for each process."""

    FIELDS = (
        "timestamp", "index", "count", "name", "uuid", "pci.bus_id", "driver_version", "utilization.gpu",
        "utilization.memory", "memory.used", "memory.free", "memory.total", "power.draw", "power.limit",
        "clocks.current.sm", "clocks.current.memory", "temperature.gpu", "fan.speed", "pstate",
        "clocks_event_reasons.active",
    )  # fmt: skip

    def __init__(self, host: Host, now: Callable[[], datetime] = datetime.now) -> None:
        self._host = host
        self._random = random.Random(0)
        self._now = now

    def sample(self) -> dict[str, str]:
        """One value of every field."""
        total = self._host.memory_bytes // _MIB
        used = int(total * MEMORY_SHARE)
        busy = self._random.randint(9, 26)  # host-bound, as in the recordings
        values = (
            f"{self._now():%Y/%m/%d %H:%M:%S.%f}"[:-3], "0", "1", self._host.name, _UUID, _BUS, VERSION, str(busy),
            str(busy // 2), str(used), str(total - used), str(total), f"{120 + 2 * busy + self._random.random():.2f}",
            "700.00", "1980", "3201", str(36 + busy // 6), "[N/A]", "P0", "0x0000000000000000",
        )  # fmt: skip
        return dict(zip(self.FIELDS, values, strict=True))
