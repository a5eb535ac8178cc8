"""What events are made of: the parts that several of them share, or that come in lists.

A field that is None was not seen: never zero.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from runner.engine.log import ARGUMENTS_LINE

Clock = Literal["kernel", "user"]
"""Who stamped what was received: the kernel as it came in, or the client when it got round to reading it."""


class Part(BaseModel):
    """A part of an event, or an event itself: strict, and never changed."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Compared(Part):
    """One fact before the run and after the restore; `equal` is None where one of them is not known."""

    fact: str
    before: str | None
    after: str | None
    equal: bool | None


class GpuFound(Part):
    """One of the engine's GPUs; `before_mib` is what was allocated on it before the engine was started."""

    index: int
    uuid: str
    name: str | None
    total_mib: float | None
    before_mib: float | None


class OtherProcess(Part):
    """A process that is not the engine's, on one of its GPUs (`gpu` is the index); `before` says whether it was there
    when the engine was started, None where that is not known. `pid` is None for one that is known by its name alone: a
    tenant of the place."""

    pid: int | None
    gpu: int
    name: str | None
    memory_mib: float | None
    before: bool | None


class ArgumentFound(Part):
    """One line of the wanted/found table. `verdict` is the vocabulary of `engine.evidence.InForce`; `source` says
    where that was found on which it rests, None where nothing was."""

    name: str
    wanted: Any
    parsed: Any
    configured: Any
    verdict: str
    reason: str
    quote: str | None
    source: str | None = None

    @property
    def configured_seen(self) -> bool:
        """Whether a source shows what was configured; it may show null."""
        return self.configured is not None or self.source not in (None, ARGUMENTS_LINE)


class FeatureFound(Part):
    """What the engine does besides its arguments, with the line that says so, and where it stands."""

    value: str | int | list[str] | None
    quote: str | None
    source: str | None


class Speculation(Part):
    """Speculative decoding as the engine configured it; what does not tell is None."""

    method: str | None
    model: str | None
    tokens: int | None


class TokenEvents(Part):
    """The events of a stream that carried a token, in order.

    `at_ns` are nanoseconds after `sent_ns`; `tokens` how many each carried, None where the server did not say for
    every one. A stamp is that of the last segment of a read: where a read held more behind an event, that event came
    earlier, by an unknown time. `bounds` names these: (number of the event, nanoseconds after `sent_ns` before which it
    had not come).
    """

    at_ns: list[int]
    tokens: list[int] | None
    bounds: list[tuple[int, int]] = Field(default_factory=list)


class ProcessWatched(Part):
    """One process of the load generator over one round.

    `slots` it had of the concurrency, and `requests` it sent. `cpu_seconds` and `queued_seconds` (runnable, waiting
    for a processor; None where the system does not say) are of the `seconds` that the round took it. Loop lag is how
    late a timer fired, beyond the millisecond that is a timer's own (None: the round was over before one did); read
    lag how long after the kernel's stamp bytes were read, None by the user clock. `drift_ns` is how far the wall clock,
    by which the kernel stamps, moved against the monotonic one. `why_user`: why the kernel did not stamp. `capture` is
    the artifact that holds what came, byte for byte.
    """

    slots: int
    requests: int
    seconds: float
    cpu_seconds: float
    queued_seconds: float | None
    loop: str
    loop_lag_p99_ns: int | None
    loop_lag_max_ns: int | None
    reads: int
    read_lag_p50_ns: int | None
    read_lag_p99_ns: int | None
    read_lag_max_ns: int | None
    clock: Clock
    why_user: str | None
    drift_ns: int
    peak_memory_bytes: int
    address: str
    capture: str


class GpuValues(Part):
    """One GPU of a sample: utilization in percent, over the driver's own window, and allocated memory."""

    index: int
    utilization: float | None
    memory_mib: float | None
    error: str | None = None
