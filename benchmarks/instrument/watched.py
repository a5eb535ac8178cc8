"""A program under way: its processes' CPU time over time, from outside and alike for all programs.

The CPU clock of each process (clock_getcpuclockid: all its threads, to the nanosecond) is read twenty times a second.
What a process used between the last reading and its end is lost, which for programs that keep their processes is
nothing within a round.
"""

from __future__ import annotations

import os
import resource
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from instrument.conditions import on_core

READ_EACH_S = 0.05
LOOK_EACH_S = 0.25
CPUCLOCK_SCHED = 2


@dataclass(frozen=True, slots=True)
class Sample:
    """At `at_ns` (CLOCK_MONOTONIC) the program's processes had used `seconds` of CPU time in all, the server's process
    `server_s`."""

    at_ns: int
    seconds: float
    server_s: float


@dataclass(frozen=True, slots=True)
class Ran:
    """A program that ended: its exit code, the samples, the whole CPU time (those of its processes that were waited
    for), wall time in seconds, and the highest sum of resident memory seen, in MiB."""

    code: int | None
    samples: Sequence[Sample]
    cpu_s: float
    wall_s: float
    peak_mib: float


def run(command: Sequence[str], *, env: Mapping[str, str], folder: Path, cpu: int, server: int, limit_s: float) -> Ran:
    """Run it on one core to its end, which comes after `limit_s` seconds at the latest (then the code is None).

    Its output goes to `folder/output`.
    """
    before, began = _children_cpu(), time.monotonic()
    with (folder / "output").open("wb") as output:
        with on_core(cpu):
            child = subprocess.Popen(
                command,
                env=dict(env),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        watch = _Watch(child.pid, server)
        watch.start()
        try:
            code: int | None = child.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            watch.end()
            _end(child, watch.alive())
    return Ran(code, watch.samples, _children_cpu() - before, time.monotonic() - began, watch.peak_mib)


def _end(child: subprocess.Popen[bytes], others: Sequence[int]) -> None:
    for pid in (child.pid, *others):
        if pid != child.pid or child.poll() is None:
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                continue
    child.wait()


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cpu_seconds(pid: int) -> float | None:
    """The CPU time of a process, None once it is gone."""
    try:
        return time.clock_gettime((~pid << 3) | CPUCLOCK_SCHED)
    except OSError:
        return None


class _Watch(threading.Thread):
    def __init__(self, pid: int, server: int) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._used = {pid: 0.0}
        self._gone: set[int] = set()
        self._over = threading.Event()
        self.samples: list[Sample] = []
        self.peak_mib = 0.0

    def run(self) -> None:
        look = 0.0
        while not self._over.wait(READ_EACH_S):
            if (now := time.monotonic()) >= look:
                look = now + LOOK_EACH_S
                self._look()
            self._read()

    def end(self) -> None:
        self._over.set()
        self.join()

    def alive(self) -> list[int]:
        """Processes of the program that are still there."""
        self._look()
        return [pid for pid in self._used if pid not in self._gone and cpu_seconds(pid) is not None]

    def _look(self) -> None:
        parents = {}
        memory = 0
        for place in Path("/proc").iterdir():
            if not place.name.isdigit():
                continue
            try:
                fields = (place / "stat").read_bytes().rpartition(b")")[2].split()
            except OSError:
                continue
            parents[int(place.name)] = int(fields[1])
            if int(place.name) in self._used:
                memory += int(fields[21])
        self.peak_mib = max(self.peak_mib, memory * resource.getpagesize() / 2**20)
        more = True
        while more:
            found = {pid for pid, parent in parents.items() if parent in self._used and pid not in self._used}
            self._used.update(dict.fromkeys(found, 0.0))
            more = bool(found)

    def _read(self) -> None:
        at = time.monotonic_ns()
        for pid in self._used:
            if pid not in self._gone:
                used = cpu_seconds(pid)
                if used is None:
                    self._gone.add(pid)
                else:
                    self._used[pid] = used
        self.samples.append(Sample(at, sum(self._used.values()), cpu_seconds(self._server) or 0.0))
