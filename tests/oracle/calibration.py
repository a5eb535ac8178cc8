"""A client's times against the oracle's: what a capture holds, read without the runner's own readers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from oracle_process import Serving, Truth
from oracle_script import event_bytes, read_script

from runner.load.capture import Captured, CaptureReader, Closing
from runner.load.generator import Load, LoadGenerator
from runner.load.reading import Judged, read_captures
from runner.record.clock import RunClock

US = 1e3


@dataclass(frozen=True, slots=True)
class Heard:
    """One event as the client got it; nanoseconds of CLOCK_MONOTONIC. `kernel_ns`: the kernel's stamp of the read that
    holds its last byte, `seen_ns`: when that read was done. `exact`: the read holds nothing behind the event."""

    kernel_ns: int
    seen_ns: int
    exact: bool


@dataclass(frozen=True, slots=True)
class Pair:
    """One request as the client and as the oracle know it."""

    captured: Captured
    truth: Truth
    sent_ns: int
    last_ns: int
    events: list[Heard]

    @property
    def times(self) -> Times:
        """What its figures are made of, by the client."""
        return Times(self.sent_ns, [heard.kernel_ns for heard in self.events], self.last_ns, self.truth.tokens)

    @property
    def e2e_error(self) -> float:
        """End-to-end time by the client, over that by the oracle, minus one."""
        assert self.truth.arrived_ns is not None and self.truth.last_before_ns is not None
        return (self.last_ns - self.sent_ns) / (self.truth.last_before_ns - self.truth.arrived_ns) - 1


@dataclass(frozen=True, slots=True)
class Round:
    """A whole round: its requests in the order of their numbers, and each process's own words; `judged` is what the
    runner reads in the same captures, by a clock that starts at `origin_ns`."""

    pairs: list[Pair]
    closings: list[Closing]
    judged: list[Judged]
    origin_ns: int

    @property
    def events(self) -> list[tuple[Heard, int, int]]:
        """All events, each with the stamps around its sending."""
        return [
            (heard, before, after)
            for pair in self.pairs
            for heard, before, after in zip(
                pair.events, pair.truth.sent_before_ns, pair.truth.sent_after_ns, strict=True
            )
        ]


def quantile(values: Sequence[float], share: float) -> float:
    """Linear between the nearest ranks."""
    ordered = sorted(values)
    rank = (len(ordered) - 1) * share
    below = int(rank)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (rank - below)


def off(stamp: int, before: int, after: int) -> int:
    """Nanoseconds by which a stamp lies outside the send that it is of: a process that is interrupted within a send
    has a long one, and no error."""
    return max(before - stamp, stamp - after, 0)


def outside(events: Sequence[tuple[Heard, int, int]], stamp: Callable[[Heard], int]) -> list[float]:
    """For each event whose stamp is exact, the microseconds by which it lies outside its send."""
    return [off(stamp(heard), before, after) / US for heard, before, after in events if heard.exact]


def kernel(heard: Heard) -> int:
    """The kernel's stamp."""
    return heard.kernel_ns


# One round of the load generator -----------------------------------------------------------------------


def children(pid: int) -> list[int]:
    """The processes that a process started and that are there."""
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@contextlib.contextmanager
def spinning(cpu: int) -> Iterator[None]:
    """A process that does nothing but take that core."""
    code = f"import os\nos.sched_setaffinity(0, {{{cpu}}})\nprint(flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield
        finally:
            process.kill()


async def _send(load: Load, clock: RunClock, cpu: int | None) -> list[Path]:
    async with LoadGenerator() as generator:
        before = set(children(os.getpid()))
        await generator.start(load.processes)
        if cpu is not None:
            for worker in set(children(os.getpid())) - before:
                os.sched_setaffinity(worker, {cpu})
        return await generator.send(load, clock=clock, stop=asyncio.Event())


def load_round(
    serving: Serving,
    folder: Path,
    *,
    requests: int,
    concurrency: int,
    processes: int = 1,
    cpu: int | None = None,
    over: Mapping[str, Any] | None = None,
) -> Round:
    """Send so many requests, closed loop, with `over` the oracle's script; `cpu` is the client's core."""
    serving.truth(reset=True)
    said = dict(over or {})
    bodies = [
        json.dumps({"model": "oracle", "stream": True, "oracle": said, "oracle_index": number}).encode()
        for number in range(requests)
    ]
    clock = RunClock()
    load = Load(
        serving.url, bodies, requests, concurrency, timeout=60.0, capture=folder / "capture", processes=processes
    )
    captures = asyncio.run(_send(load, clock, cpu))
    assert len(captures) == processes
    script = read_script({**serving.script, **said, "turns": []})
    events = [event_bytes(script, number) + b"\r\n" for number in range(script.events)]  # with its chunk's own end
    truth = {one.body_index: one for one in serving.truth()}
    pairs, closings = [], []
    for path in captures:
        reader = CaptureReader(path)
        pairs += [_pair(captured, truth[captured.index], events, clock.origin_ns) for captured in reader]
        assert reader.closing is not None
        closings.append(reader.closing)
    judged = read_captures(captures, model="oracle", stream=True).judged
    return Round(sorted(pairs, key=lambda pair: pair.captured.index), closings, judged, clock.origin_ns)


def _pair(captured: Captured, truth: Truth, events: Sequence[bytes], origin: int) -> Pair:
    assert captured.outcome == "complete" and captured.sent_ns is not None
    raw = b"".join(data for _, _, data in captured.reads)
    heard: list[Heard] = []
    at = 0
    for event in events:
        at = raw.index(event, at) + len(event)
        stamp, seen, end = _read_with(captured, at - 1)
        heard.append(Heard(stamp + origin, seen + origin, end == at))
    last, _, end = _read_with(captured, len(raw) - 1)
    assert end == len(raw)
    return Pair(captured, truth, captured.sent_ns + origin, last + origin, heard)


def _read_with(captured: Captured, byte: int) -> tuple[int, int, int]:
    """The read that holds a byte: its stamps, and where it ends."""
    end = 0
    for stamp, seen, data in captured.reads:
        end += len(data)
        if byte < end:
            assert stamp is not None, "the kernel stamped every read"
            return stamp, seen, end
    raise AssertionError(f"no read holds byte {byte}")


# Figures, by their definitions --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Times:
    """What the figures of one request are made of: nanoseconds on one clock. `tokens` of each event."""

    asked_ns: int
    events_ns: Sequence[int]
    last_ns: int
    tokens: Sequence[int]


def times_of(truth: Truth) -> Times:
    """The oracle's own: when the request had come in, when it began each send."""
    assert truth.arrived_ns is not None and truth.last_before_ns is not None
    return Times(truth.arrived_ns, truth.sent_before_ns, truth.last_before_ns, truth.tokens)


def figures(requests: Sequence[Times]) -> dict[str, list[float]]:
    """The values of each latency metric, in seconds, over these requests."""
    found: dict[str, list[float]] = {"ttft": [], "tpot": [], "itl": [], "chunk-gap": [], "e2e-latency": []}
    for one in requests:
        first, last = one.events_ns[0], one.events_ns[-1]
        found["ttft"].append((first - one.asked_ns) / 1e9)
        found["e2e-latency"].append((one.last_ns - one.asked_ns) / 1e9)
        if (later := sum(one.tokens[1:])) > 0:
            found["tpot"].append((last - first) / 1e9 / later)
        for (before, after), tokens in zip(pairwise(one.events_ns), one.tokens[1:], strict=True):
            found["chunk-gap"].append((after - before) / 1e9)
            found["itl"] += [(after - before) / 1e9 / tokens] * tokens
    return found


def mean_in_flight(spans: Sequence[tuple[int, int]]) -> float:
    """Time in flight between the first and the last sending, over that span; each request from and to."""
    first, last = min(begin for begin, _ in spans), max(begin for begin, _ in spans)
    return sum(min(end, last) - begin for begin, end in spans) / (last - first)
