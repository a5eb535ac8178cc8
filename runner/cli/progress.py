"""Progress for people: one moving line on a terminal, plain lines elsewhere. It only listens."""

import contextlib
import sys
import time
from typing import TextIO

from runner.load.generator import InFlight
from runner.plan.model import Plan
from runner.record import events

_SILENT_SECONDS = 5.0
"""A request that has waited so long for a byte is worth a word: it may be a long one, or an engine that hangs."""


class Progress:
    """Says condition, phase, round, requests done and the time left."""

    def __init__(self, plan: Plan, stream: TextIO = sys.stderr) -> None:
        self._plan, self._stream = plan, stream
        self._terminal = stream.isatty()
        self._open = False
        self._where = ""
        self._requests = 0
        self._failed = 0
        self._round_units = 0.0
        self._units_done = 0.0
        self._units = sum(phase.rounds * phase.requests / level for phase, level in plan.grid for _ in plan.launches)
        self._round_started = 0.0
        self._spent = 0.0

    def __call__(self, event: events.Event) -> None:
        """Hear an event of the run."""
        match event:
            case events.BaselineSaved() | events.BaselineRestored() | events.Warned() | events.DeclinedToRun():
                self._place(event)
            case events.LaunchStarted():
                self._line(f"{self._label(event)}: waiting for the engine")
            case events.EngineLaunched() | events.EngineReady():
                self._up(event)
            case events.CountersProved():
                self._line(f"{self._label(event)}: evidence read, counters {event.state}")
            case events.Refused():
                self._line(f"{self._label(event)}: not in force: {'; '.join(event.reasons)}")
            case events.EngineFailed():
                after = "" if event.seconds is None else f" (named {event.seconds:.1f} s after it could first be seen)"
                self._line(f"{self._label(event)}: {event.reason}{after}")
                for words in event.words:
                    self._line(f"  | {words}")
            case events.OfRound():
                self._of_round(event)
            case events.Interrupted():
                self._line(f"{event.signal}: sending nothing more; putting back what was changed, then the report")
            case _:
                pass

    def _of_round(self, event: events.OfRound) -> None:
        match event:
            case events.RoundStarted():
                self._start(event)
            case events.RequestDone():
                self._failed += event.verdict != "ok"
            case events.TroubleSeen():
                self._trouble(event)
            case events.RoundFinished():
                self._finish(event)

    def in_flight(self, seen: InFlight) -> None:
        """Hear of an answered request; shown on a terminal only."""
        if self._terminal:
            share = seen.done / self._requests if self._requests else 0.0
            spent = self._spent + time.monotonic() - self._round_started
            done = self._units_done + share * self._round_units
            left = f", about {spent / done * (self._units - done):.0f} s left" if done else ""
            silent = seen.silent_seconds or 0.0
            waits = f", no byte for {silent:.0f} s" if silent >= _SILENT_SECONDS else ""
            self._moving(f"{self._where}: {seen.done}/{self._requests}{left}{waits}")

    def _up(self, event: events.EngineLaunched | events.EngineReady) -> None:
        if isinstance(event, events.EngineReady):
            self._line(f"{self._label(event)}: ready after {event.seconds:.1f} s")
        elif "rollout" in event.facts:
            self._line(f"{self._label(event)}: rolled out after {event.facts['rollout']}")

    def _place(
        self, event: events.BaselineSaved | events.BaselineRestored | events.Warned | events.DeclinedToRun
    ) -> None:
        """What happens to the place where the engines run."""
        match event:
            case events.BaselineSaved(existed=True):
                self._line(f"{event.what}: saved; to be put back: {event.how}")
            case events.BaselineSaved():
                self._line(f"{event.what}: did not exist before; {event.how}")
            case events.BaselineRestored(restored=True):
                self._line(f"{event.what}: restored after {event.seconds:.1f} s: {event.how}")
            case events.BaselineRestored():
                self._line(f"{event.what}: NOT restored: {event.reason or 'it is not as it was'}")
                self._line(f"  | by hand: {event.by_hand}")
            case events.DeclinedToRun():
                self._line(event.reason)
            case events.Warned():
                self._line(f"warning of {event.source} ({event.about}): {event.text}")

    def _start(self, event: events.RoundStarted) -> None:
        self._where = f"{self._label(event)} {event.phase} C={event.concurrency} round {event.round}"
        self._requests = event.requests
        self._failed = 0
        self._round_units = event.requests / event.concurrency
        self._round_started = time.monotonic()
        if self._terminal:
            self._moving(f"{self._where}: 0/{event.requests}")

    def _trouble(self, event: events.TroubleSeen) -> None:
        """What goes wrong in a round, by name and while it goes wrong."""
        where = f"{self._label(event)} {event.phase} C={event.concurrency} round {event.round}"
        detail = f", {event.detail}" if event.detail else ""
        self._line(f"{where}: {event.kind}: request {event.index}{detail}")

    def _finish(self, event: events.RoundFinished) -> None:
        self._spent += time.monotonic() - self._round_started
        self._units_done += self._round_units
        state = ("done" if event.complete else "not complete") + f", {self._failed} failed" * bool(self._failed)
        self._line(f"{self._where}: {self._requests} requests, {state}")

    def _label(self, event: events.OfLaunch) -> str:
        label = self._plan.arm(event.arm).label
        return f"{label} #{event.replicate}" if self._plan.replicates > 1 else label

    def _moving(self, text: str) -> None:
        self._write(f"\r\x1b[K{text}")
        self._open = True

    def _line(self, text: str) -> None:
        self._write(("\r\x1b[K" if self._open else "") + text + "\n")
        self._open = False

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # a measurement does not end because nobody can watch it
            self._stream.write(text)
            self._stream.flush()
