"""GPUs of another machine, through one `nvidia-smi` in a loop beside the engine."""

import contextlib
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Protocol

from runner.sample.gpu.reading import GpuError, GpuReading
from runner.sample.gpu.smi_groups import FIELDS, Group, Groups

_SHORTEST, _LONGEST = 0.2, 0.5
"""Seconds between readings: below the one they would repeat themselves (see NVML's reader); above the other the loop is
not let, because a round may want them closer together than the spec says."""
_FIRST = 8.0
"""Seconds until the first reading: where the driver was unloaded, nvidia-smi loads it first."""
_SLACK = 2.0
"""Seconds that a reading may come later than the loop's beat."""
_LATE = 2.0
"""Seconds that a reading may have been under way longer than the quickest one before it was a figure of the past."""
_WORDS = 3
"""Lines that are kept of what it says besides."""


class Program(Protocol):
    """A program that was started elsewhere, and its output as it comes."""

    def read(self, timeout: float) -> str | None:
        """The next line without its end; None where none came within `timeout` seconds."""

    def close(self) -> None:
        """End the program and let it go. Never raises."""


class RemoteSmi:
    """The program's loop, started once. A reading is a group of lines whose first one came after it was asked for: what
    had come before is of the past, and a sample is stamped when the reading returns.

    A program that ended, or a stream that was lost, stays so: every later reading fails with its words.
    """

    def __init__(
        self,
        program: list[str],
        execute: Callable[[list[str]], Program],
        ended: type[Exception],
        interval: float,
    ) -> None:
        """`program` is what nvidia-smi is called there; `execute` starts it, blocks and raises OSError; `ended` is what
        its lines raise at their end. `interval` is how often samples are wanted, in seconds. Nothing is started yet."""
        self.shortest = min(max(interval, _SHORTEST), _LONGEST)
        # Twice as often as it is read, so that no reading waits for longer than to the next one.
        self._pace = self.shortest / 2
        asked = [f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits"]
        self._command = [*program, *asked, "-lms", str(round(self._pace * 1000))]
        self._execute, self._ended = execute, ended
        self._lines: Program | None = None
        self._lost: str | None = "nvidia-smi: not started"
        self._closed = False
        self._groups = Groups()
        self._said: list[str] = []
        self._quickest: float | None = None
        self._late: float | None = None
        self.source = "nvidia-smi in the engine's container"

    def open(self) -> list[GpuReading]:
        """Start it, and give the GPUs that it lists. Raises GpuError; close it then, too."""
        try:
            lines = self._execute(self._command)
        except OSError as error:
            raise GpuError(f"nvidia-smi: {error.strerror or error}") from None
        if self._closed:
            lines.close()
            raise GpuError("nvidia-smi: closed")
        self._lines, self._lost = lines, None
        first = self._await(monotonic() + _FIRST)
        if first is None:
            raise GpuError(f"nvidia-smi: no answer within {_FIRST:g} s{self._besides()}")
        self.source += f", driver {first.driver}"
        return first.gpus

    def read(self) -> list[GpuReading]:
        """Every GPU, as it is now. Raises GpuError where no whole reading comes in time, and always after the end."""
        limit = self._pace + _SLACK
        deadline = monotonic() + limit
        for line in self._waiting(deadline):
            self._take(line)
        self._groups.forget()
        group = self._await(deadline)
        if group is None:
            raise GpuError(f"nvidia-smi: no sample for {limit:g} s{self._besides()}")
        with contextlib.suppress(GpuError):  # an end behind it is the next reading's
            for line in self._waiting(deadline):
                group = self._take(line) or group
        return group.gpus

    def close(self) -> None:
        """End it. May be called at any time, and more than once."""
        self._closed = True
        self._lost = self._lost or "nvidia-smi: closed"
        lines, self._lines = self._lines, None
        if lines is not None:
            lines.close()

    def _await(self, deadline: float) -> Group | None:
        self._late = None
        while (left := deadline - monotonic()) > 0:
            line = self._next(left)
            if line is not None and (group := self._take(line)) is not None:
                return group
        return None

    def _waiting(self, deadline: float) -> Iterator[str]:
        """What has come already; not for ever, should it never pause."""
        while monotonic() < deadline and (line := self._next(0.0)) is not None:
            yield line

    def _next(self, timeout: float) -> str | None:
        lines = self._lines
        if self._lost is not None or lines is None:
            raise GpuError(self._lost or "nvidia-smi: closed")
        try:
            line = lines.read(timeout)
        except self._ended as end:
            self._lost = f"nvidia-smi: {' / '.join(self._said) or 'it has ended'} ({end})"
            raise GpuError(self._lost) from None
        return None if line is None else line.rstrip("\r\n")

    def _take(self, line: str) -> Group | None:
        """The group that the line completes, unless it is of the past."""
        if not line.strip():
            return None
        try:
            group = self._groups.add(line)
        except GpuError:
            self._said = [*self._said, line.strip()][-_WORDS:]
            return None
        self._said = []
        if group is None:
            return None
        # The two clocks need not agree, but what lies between them does not grow: where it does, lines were held up.
        under_way = monotonic() - group.at
        self._quickest = under_way if self._quickest is None else min(under_way, self._quickest)
        if under_way - self._quickest > _LATE:
            self._late = under_way - self._quickest
            return None
        return group

    def _besides(self) -> str:
        if self._said:
            return f"; it said: {' / '.join(self._said)}"
        return "" if self._late is None else f"; what came was {self._late:.3g} s old"
