"""The events of a run. The journal is a list of them; the terminal and the reports only listen.

Times named `*_ns` are nanoseconds of one monotonic clock, counted from the start of the run. A field that is
None was not seen: never zero.
"""

from statistics import fmean
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from runner.engine.sources import LOG_CONFIGURATION
from runner.engine.verdict import Verdict
from runner.record.parts import (
    ArgumentFound,
    Clock,
    Compared,
    FeatureFound,
    GpuFound,
    GpuValues,
    OtherProcess,
    Part,
    ProcessWatched,
    Speculation,
    TokenEvents,
)


class OfLaunch(Part):
    """What belongs to one engine process: the condition's arm and its replicate."""

    arm: str
    replicate: int


class OfRound(OfLaunch):
    """What belongs to one round of one cell, on one engine process.

    `engine` is that process's identity: what a restart would change (process start, Pod UID).
    """

    phase: str
    concurrency: int
    round: int
    engine: str


class RunStarted(Part):
    event: Literal["run-started"] = "run-started"
    format: Literal[1] = 1
    run: str
    started_at: str
    runner_version: str
    target: str
    simulated: bool
    target_settings: dict[str, Any]
    host: dict[str, str]
    client: dict[str, Any] = Field(default_factory=dict)


class BaselineSaved(Part):
    """What existed before the run, kept before anything was changed: `what` it is, and `facts` of it by name, as they
    were found (None: could not be known). `how` says how it will be put back, `by_hand` with which command a person
    can; `artifact` holds it. `what` that did not exist (`existed` false) will be removed."""

    event: Literal["baseline-saved"] = "baseline-saved"
    what: str
    existed: bool
    how: str
    facts: dict[str, str | None]
    artifact: str | None
    by_hand: str


class BaselineRestored(Part):
    """What became of the baseline at the run's end. `restored` is False where it could not be put back, or is not what
    it was; `reason` says why. `differences` are fields of it that are not as they were, or that somebody else changed
    meanwhile."""

    event: Literal["baseline-restored"] = "baseline-restored"
    what: str
    how: str
    restored: bool
    reason: str | None
    compared: list[Compared]
    differences: list[str]
    by_hand: str
    seconds: float


class DeclinedToRun(Part):
    """The target found its place not as a run needs it, and changed nothing: nothing was measured."""

    event: Literal["declined"] = "declined"
    reason: str


class Warned(Part):
    """A warning that came from where the engines run, once each, and what it answered."""

    event: Literal["warned"] = "warned"
    source: str
    about: str
    text: str


class LaunchStarted(OfLaunch):
    event: Literal["launch-started"] = "launch-started"


class EngineLaunched(OfLaunch):
    """The process exists; `command` is what was started and `log` the artifact that its output goes to. An engine that
    was there has neither: an empty command, and None.

    `transport` is how requests reach it, where that is not simply this machine's loopback or the URL's own way;
    `transport_doubt` says why times taken over it are not the engine's. `facts` is what the target knows of the place
    where it runs, by name, for the report's provenance.
    """

    event: Literal["engine-launched"] = "engine-launched"
    command: list[str]
    env: dict[str, str]
    endpoint: str
    log: str | None
    transport: str | None = None
    transport_doubt: str | None = None
    facts: dict[str, str] = Field(default_factory=dict)


class EngineReady(OfLaunch):
    """A one-token completion came back under the wanted model name. `simulated`: the server says of itself that it
    computes no model."""

    event: Literal["engine-ready"] = "engine-ready"
    engine: str
    seconds: float
    version: str | None
    models: list[str]
    simulated: bool = False


class EngineFailed(OfLaunch):
    """The engine did not start, or died. `words` are its own last lines; `seconds` how long after it could first be
    seen that was said, where the target knows."""

    event: Literal["engine-failed"] = "engine-failed"
    stage: Literal["start", "run"]
    reason: str
    words: list[str]
    seconds: float | None = None


class GpusFound(OfLaunch):
    """The engine's GPUs once it answers, read through `source`; or the `reason` why they cannot be read.

    `doubt` says why they may be other ones, or not the engine's alone. `others` are the strange processes there;
    `unknown` says why there may be more of them, None where there are none besides.
    """

    event: Literal["gpus-found"] = "gpus-found"
    source: str | None
    gpus: list[GpuFound]
    doubt: str | None
    reason: str | None
    others: list[OtherProcess]
    unknown: str | None


class EvidenceRead(OfLaunch):
    """What the log, the metrics and the server's own words say about the condition, before any load.

    `speculation_source` says who tells whether it speculates; None: nobody does. `absent`: source to the reason, for
    the sources that tell nothing.
    """

    event: Literal["evidence-read"] = "evidence-read"
    version: str | None
    arguments: list[ArgumentFound]
    parsed: dict[str, Any] | None
    features: dict[str, FeatureFound]
    speculation: Speculation | None
    speculation_source: str | None = LOG_CONFIGURATION
    engine_config: dict[str, str] | None
    kv_cache_tokens: int | None
    model_memory_gib: float | None
    quotes: dict[str, str]
    absent: dict[str, str] = Field(default_factory=dict)


class CountersProved(OfLaunch):
    """Whether the setting's counters moved over one whole request of the experiment.

    `state`: moved, flat, absent or unknown, as `engine.drafting.CountersMoved`; `must_move` is True where any
    tokenizer would have drafted, None where that cannot be known; `verdict` is in-force, ignored or unknown.
    """

    event: Literal["counters-proved"] = "counters-proved"
    state: str
    must_move: bool | None
    verdict: str
    detail: str
    drafts: float | None = None
    draft_tokens: float | None = None
    accepted: float | None = None


class Refused(OfLaunch):
    """A setting is not in force: nothing was measured under this condition."""

    event: Literal["refused"] = "refused"
    reasons: list[str]


class BodySeen(Part):
    """A request body, journaled once; requests name it by its id."""

    event: Literal["body"] = "body"
    body_id: str
    prompt: str
    body: dict[str, Any]


class OutputSeen(Part):
    """A distinct output, journaled once; requests name it by its id."""

    event: Literal["output"] = "output"
    output_id: str
    text: str
    reasoning: str
    token_ids: list[int] | None


class RoundStarted(OfRound):
    event: Literal["round-started"] = "round-started"
    requests: int


class Scraped(OfRound):
    """The engine's metrics at one moment; `series` as `engine.exposition.to_json`, or None with the error."""

    event: Literal["scraped"] = "scraped"
    moment: Literal["before", "after"]
    at_ns: int
    artifact: str
    series: dict[str, float] | None
    error: str | None


class RequestDone(OfRound):
    """One request, whatever became of it. Only `ok` ones enter statistics.

    `role`: probe (readiness), proof, warm-up, excluded or measured. `planned_ns` is when its slot was free,
    `ended_ns` when it was free again. `connect_ns` is how long its connection took to open, before `sent_ns`; None:
    it was open. `clock` stamped `first_byte_ns`, `first_token_ns`, `last_byte_ns` and `events`; None is the user
    space of runners before 0.2. `events` is None for a reply that was not streamed.
    """

    event: Literal["request"] = "request"
    index: int
    role: Literal["probe", "proof", "warm-up", "excluded", "measured"]
    body_id: str
    planned_ns: int
    sent_ns: int | None
    first_byte_ns: int | None
    first_token_ns: int | None
    last_byte_ns: int | None
    ended_ns: int | None
    verdict: Verdict
    detail: str
    status: int | None
    finish_reason: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    output_id: str | None
    connect_ns: int | None = None
    clock: Clock | None = None
    events: TokenEvents | None = None


class TroubleSeen(OfRound):
    """Something went wrong with requests while the round ran, seen at once and without reading what came: the first
    one of its `kind` (a verdict of the transport, http-error, or stalled), and what it said."""

    event: Literal["trouble-seen"] = "trouble-seen"
    at_ns: int
    kind: str
    index: int
    detail: str


class ClientWatched(OfRound):
    """What the load generator saw of itself while it sent the measured requests."""

    event: Literal["client-watched"] = "client-watched"
    processes: list[ProcessWatched]


class Sampled(OfRound):
    """Gauges read while load ran; `error` says why a sample has none."""

    event: Literal["sampled"] = "sampled"
    at_ns: int
    running: float | None
    waiting: float | None
    waiting_by_reason: dict[str, float] | None
    kv_cache_usage: float | None
    error: str | None = None


class GpuSampled(OfRound):
    """The engine's GPUs, read while load ran; `error` says why a sample has none."""

    event: Literal["gpu-sampled"] = "gpu-sampled"
    at_ns: int
    gpus: list[GpuValues]
    error: str | None = None

    @property
    def utilization(self) -> float | None:
        """The mean of the GPUs; None as soon as one has none."""
        known = [one.utilization for one in self.gpus if one.utilization is not None]
        return fmean(known) if known and len(known) == len(self.gpus) else None

    @property
    def memory_mib(self) -> float | None:
        """The sum of the GPUs; None as soon as one has none."""
        known = [one.memory_mib for one in self.gpus if one.memory_mib is not None]
        return sum(known) if known and len(known) == len(self.gpus) else None

    @property
    def why(self) -> str | None:
        """Why there is no value, where that was said."""
        return self.error or next((one.error for one in self.gpus if one.error is not None), None)


class OthersSeen(OfRound):
    """Strange processes on the engine's GPUs when the round's last request was over, the fields as `GpusFound`'s.

    `gone` are those that were seen there while the round ran, and not then; `unknown` is of that time, too.
    """

    event: Literal["others-seen"] = "others-seen"
    at_ns: int
    others: list[OtherProcess]
    gone: list[OtherProcess] = Field(default_factory=list)
    unknown: str | None


class RoundFinished(OfRound):
    """The round is over. `busy_before` and `busy_after` say why the engine was not seen idle (running = waiting =
    0 and finished = sent) when the window began and ended; None: it was. `sampling_interval` is in seconds.
    `cut_after`: the seconds after which the spec's limit ended the sending; None where it did not."""

    event: Literal["round-finished"] = "round-finished"
    busy_before: str | None
    busy_after: str | None
    sampling_interval: float
    complete: bool
    cut_after: float | None = None

    @property
    def busy(self) -> str | None:
        """Why the window's edges cannot be trusted; None where the engine was idle at both."""
        return self.busy_before or self.busy_after


class EngineStopped(OfLaunch):
    event: Literal["engine-stopped"] = "engine-stopped"
    how: str
    exit_code: int | None


class Interrupted(Part):
    event: Literal["interrupted"] = "interrupted"
    signal: str


class RunnerFailed(Part):
    """An error of the runner itself: what is recorded up to here stands, the rest is missing."""

    event: Literal["runner-failed"] = "runner-failed"
    error: str


class RunFinished(Part):
    event: Literal["run-finished"] = "run-finished"
    seconds: float


Event = (
    RunStarted
    | BaselineSaved
    | BaselineRestored
    | DeclinedToRun
    | Warned
    | LaunchStarted
    | EngineLaunched
    | EngineReady
    | GpusFound
    | EngineFailed
    | EvidenceRead
    | CountersProved
    | Refused
    | BodySeen
    | OutputSeen
    | RoundStarted
    | Scraped
    | RequestDone
    | TroubleSeen
    | ClientWatched
    | Sampled
    | GpuSampled
    | OthersSeen
    | RoundFinished
    | EngineStopped
    | Interrupted
    | RunnerFailed
    | RunFinished
)

EVENT: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="event")])
"""Reads one event from a journal line."""
