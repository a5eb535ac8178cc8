"""From captures to judged requests: the bytes are read after the round, outside its timing."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from runner.engine.chat import read_reply
from runner.engine.reply import Reply
from runner.engine.stream import read_stream
from runner.engine.verdict import Verdict
from runner.load.capture import CaptureReader, Closing
from runner.load.exchange import Exchange, read_exchange
from runner.load.watch import quantile
from runner.record.parts import ProcessWatched

SET_NS = 100_000
"""Nanoseconds by which the wall clock may move against the monotonic one over a round. Reading both is good to a
fraction of a microsecond; more than this is a clock that was set, and stamps by it say nothing."""


@dataclass(frozen=True, slots=True)
class Judged:
    """An exchange with its verdict; `reply` is None when not even a status line came back."""

    exchange: Exchange
    verdict: Verdict
    detail: str
    reply: Reply | None


@dataclass(frozen=True, slots=True)
class Heard:
    """What the captures of one round hold: its requests by their number, and each process's word of itself."""

    judged: list[Judged]
    processes: list[ProcessWatched]


def judge_exchange(done: Exchange, *, model: str, stream: bool) -> Judged:
    """The verdict on one exchange. What the transport broke wins over what the cut bytes look like,
    except an error that the engine stated before."""
    if done.status is None:
        verdict = done.transport or Verdict.RESET
        return Judged(done, verdict, done.detail, None)
    if stream:
        reply = read_stream(done.status, done.content_type, done.chunks, ended=done.transport is None, model=model)
    else:
        reply = read_reply(done.status, done.content_type, done.body, model=model)
    if done.transport is not None and reply.verdict not in (Verdict.IN_BAND_ERROR, Verdict.HTTP_ERROR):
        reply = replace(reply, verdict=done.transport, detail=done.detail)
    return Judged(done, reply.verdict, reply.detail, reply)


def read_captures(
    captures: Sequence[Path], *, model: str, stream: bool, artifact: Callable[[Path], str] = str
) -> Heard:
    """Read one round's captures, one a process. `artifact` names each as the journal will. Raises CaptureError.

    The bytes are let go of request by request: a round may be larger than memory.
    """
    judged: list[Judged] = []
    processes: list[ProcessWatched] = []
    for path in captures:
        closing = CaptureReader(path).read_closing()
        why_user = _why_user(closing)
        lags: list[int] = []
        reads = bare = 0
        for captured in CaptureReader(path):
            done = read_exchange(captured, kernel=why_user is None)
            one = judge_exchange(done, model=model, stream=stream)
            done.chunks.clear()
            judged.append(one)
            lags += captured.lags
            reads += len(captured.reads)
            bare += done.clock == "user"
        if why_user is None and bare:
            why_user = "the kernel stamped not every read"
        if closing is not None:
            processes.append(_watched(closing, lags if why_user is None else [], reads, why_user, artifact(path)))
    return Heard(sorted(judged, key=lambda one: one.exchange.index), processes)


def _why_user(closing: Closing | None) -> str | None:
    if closing is None:
        return "the capture was cut off, so that nothing tells whether the wall clock stood"
    if abs(closing.drift_ns) > SET_NS:
        return f"the wall clock, by which the kernel stamps, was set by {closing.drift_ns / 1e9:+.6f} s meanwhile"
    return closing.why_user


def _watched(closing: Closing, lags: list[int], reads: int, why_user: str | None, capture: str) -> ProcessWatched:
    lags.sort()  # once for all three
    more = {
        "reads": reads,
        "read_lag_p50_ns": quantile(lags, 0.5),
        "read_lag_p99_ns": quantile(lags, 0.99),
        "read_lag_max_ns": max(lags, default=None),
        "clock": "kernel" if why_user is None else "user",
        "why_user": why_user,
        "capture": capture,
    }
    return ProcessWatched.model_validate({**asdict(closing), **more})
