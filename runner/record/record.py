"""A run as its journal tells it: the one input of analysis, checks and report."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from runner.engine.exposition import Exposition, from_json
from runner.plan.model import Plan
from runner.record import events
from runner.record.directory import JOURNAL, PLAN
from runner.record.journal import JournalError, read_journal


@dataclass(eq=False)
class Round:
    """One round of one cell on one engine process; equal to itself alone."""

    arm: str
    replicate: int
    phase: str
    concurrency: int
    number: int
    before: Exposition | None = None
    after: Exposition | None = None
    scrape_errors: list[str] = field(default_factory=list)
    requests: list[events.RequestDone] = field(default_factory=list)
    samples: list[events.Sampled] = field(default_factory=list)
    gpu_samples: list[events.GpuSampled] = field(default_factory=list)
    others: events.OthersSeen | None = None
    client: events.ClientWatched | None = None
    troubles: list[events.TroubleSeen] = field(default_factory=list)
    engines: set[str] = field(default_factory=set)
    finished: events.RoundFinished | None = None

    def of_role(self, *roles: str) -> list[events.RequestDone]:
        """The requests of some roles, in the order they were planned."""
        return sorted((r for r in self.requests if r.role in roles), key=lambda r: r.index)

    @property
    def ok(self) -> list[events.RequestDone]:
        """The measured requests that count."""
        return [request for request in self.of_role("measured") if request.verdict == "ok"]


@dataclass
class EngineRun:
    """One engine process: an arm's replicate, from start to stop."""

    arm: str
    replicate: int
    launched: events.EngineLaunched | None = None
    ready: events.EngineReady | None = None
    gpus: events.GpusFound | None = None
    evidence: events.EvidenceRead | None = None
    proof: events.CountersProved | None = None
    refused: events.Refused | None = None
    failed: events.EngineFailed | None = None
    stopped: events.EngineStopped | None = None
    rounds: list[Round] = field(default_factory=list)


@dataclass
class Baseline:
    """One thing that existed before the run, or did not, and what became of it; None: it was never put back."""

    saved: events.BaselineSaved
    restored: events.BaselineRestored | None = None

    @property
    def by_hand(self) -> str:
        """The command by which a person puts it back, as it was last said."""
        return self.saved.by_hand if self.restored is None else self.restored.by_hand


@dataclass
class Record:
    """Everything a report may use."""

    plan: Plan
    started: events.RunStarted
    engines: list[EngineRun]
    bodies: dict[str, events.BodySeen]
    outputs: dict[str, events.OutputSeen]
    interrupted: events.Interrupted | None
    runner_failed: events.RunnerFailed | None
    finished: events.RunFinished | None
    baselines: list[Baseline] = field(default_factory=list)
    warnings: list[events.Warned] = field(default_factory=list)
    declined: events.DeclinedToRun | None = None

    @property
    def simulated(self) -> bool:
        """Whether any figure may be a made-up engine's: the target said so, or a server of itself."""
        return self.started.simulated or any(one.ready is not None and one.ready.simulated for one in self.engines)

    @property
    def real(self) -> bool:
        """Whether an engine answered and none of them is a made-up one. Neither this nor `simulated`: nobody knows."""
        return not self.simulated and any(one.ready is not None for one in self.engines)

    def of_arm(self, arm: str) -> list[EngineRun]:
        """The engine processes of an arm, by replicate."""
        return [engine for engine in self.engines if engine.arm == arm]

    def rounds(self, arm: str, phase: str, concurrency: int) -> list[Round]:
        """A cell's rounds, over all replicates, in order."""
        return [
            round_
            for engine in self.of_arm(arm)
            for round_ in engine.rounds
            if round_.phase == phase and round_.concurrency == concurrency
        ]

    def all_rounds(self) -> Iterator[Round]:
        """Every round of the run."""
        for engine in self.engines:
            yield from engine.rounds


def read_record(directory: Path) -> Record:
    """The record in a run directory. Raises JournalError."""
    return build_record(read_plan(directory), read_journal(directory / JOURNAL))


def read_plan(directory: Path) -> Plan:
    """The plan in a run directory. Raises JournalError."""
    path = directory / PLAN
    try:
        return Plan.model_validate_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise JournalError(f"{path} cannot be read: {error.strerror}; is {directory} a run directory?") from None
    except ValidationError as error:
        raise JournalError(f"{path} is not a plan of this version: {error.errors()[0]['msg']}") from None


def build_record(plan: Plan, journal: Iterable[events.Event]) -> Record:
    """Fold the events into a record. Raises JournalError where the journal has no beginning."""
    builder: _Builder | None = None
    for event in journal:
        if isinstance(event, events.RunStarted) and builder is None:
            builder = _Builder(Record(plan, event, [], {}, {}, None, None, None))
        elif builder is None:
            raise JournalError("the journal does not begin with run-started")
        else:
            builder.add(event)
    if builder is None:
        raise JournalError("the journal is empty")
    return builder.record


_ENGINE_FIELDS: Mapping[type[events.Event], str] = {
    events.EngineLaunched: "launched",
    events.EngineReady: "ready",
    events.GpusFound: "gpus",
    events.EvidenceRead: "evidence",
    events.CountersProved: "proof",
    events.Refused: "refused",
    events.EngineFailed: "failed",
    events.EngineStopped: "stopped",
}
"""Events that happen once per engine process, and where an `EngineRun` keeps them."""
_ENDS: Mapping[type[events.Event], str] = {
    events.Interrupted: "interrupted",
    events.RunnerFailed: "runner_failed",
    events.RunFinished: "finished",
}
"""Events that end a run, and where a `Record` keeps them."""


class _Builder:
    def __init__(self, record: Record) -> None:
        self.record = record

    def add(self, event: events.Event) -> None:
        record = self.record
        field = _ENGINE_FIELDS.get(type(event))
        match event:
            case events.RunStarted():
                raise JournalError("the journal begins twice")
            case events.LaunchStarted():
                record.engines.append(EngineRun(event.arm, event.replicate))
            case events.OfRound():
                # Probes and the proof come before any round: they are evidence, not measurements.
                if not (isinstance(event, events.RequestDone) and event.role in ("probe", "proof")):
                    self._of_round(event)
            case events.OfLaunch() if field is not None:
                setattr(self._engine(event), field, event)
            case events.BaselineSaved():
                record.baselines.append(Baseline(event))
            case events.BaselineRestored():
                self._baseline(event.what).restored = event
            case events.DeclinedToRun():
                record.declined = event
            case events.Warned():
                record.warnings.append(event)
            case events.BodySeen():
                record.bodies[event.body_id] = event
            case events.OutputSeen():
                record.outputs[event.output_id] = event
            case events.Interrupted() | events.RunnerFailed() | events.RunFinished():
                setattr(record, _ENDS[type(event)], event)

    def _known(self, event: events.RequestDone) -> None:
        """A request names its body and its output by ids that stand in the journal before it."""
        if event.body_id not in self.record.bodies:
            raise JournalError(f"a request names the body {event.body_id}, which the journal does not hold")
        if event.output_id is not None and event.output_id not in self.record.outputs:
            raise JournalError(f"a request names the output {event.output_id}, which the journal does not hold")

    def _baseline(self, what: str) -> Baseline:
        for one in self.record.baselines:
            if one.saved.what == what:
                return one
        raise JournalError(f"{what} was restored and had never been saved")

    def _engine(self, event: events.OfLaunch) -> EngineRun:
        for engine in reversed(self.record.engines):
            if (engine.arm, engine.replicate) == (event.arm, event.replicate):
                return engine
        raise JournalError(f"{event.arm} #{event.replicate} was never started")

    def _of_round(self, event: events.OfRound) -> None:
        engine = self._engine(event)
        key = (event.phase, event.concurrency, event.round)
        round_ = next((r for r in engine.rounds if (r.phase, r.concurrency, r.number) == key), None)
        if round_ is None:
            round_ = Round(event.arm, event.replicate, *key)
            engine.rounds.append(round_)
        round_.engines.add(event.engine)
        match event:
            case events.Scraped():
                scrape = None if event.series is None else from_json(event.series)
                if event.error is not None:
                    round_.scrape_errors.append(f"{event.moment}: {event.error}")
                if event.moment == "before":
                    round_.before = scrape
                else:
                    round_.after = scrape
            case events.Sampled():
                round_.samples.append(event)
            case events.GpuSampled():
                round_.gpu_samples.append(event)
            case events.OthersSeen():
                round_.others = event
            case events.ClientWatched():
                round_.client = event
            case events.TroubleSeen():
                round_.troubles.append(event)
            case events.RequestDone():
                self._known(event)
                round_.requests.append(event)
            case events.RoundFinished():
                round_.finished = event
