"""A closed loop against the embedded engine's own scheduler, in virtual time: no clock, no HTTP, no random.

Every client sends its next request a turnaround after its last reply, as the recorded clients did. The result
is exact for given step times; the fit, its judgement and the tests all run this one loop.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from runner.simulator.continuation import Continuation
from runner.simulator.ngram import PADDING
from runner.simulator.scheduler import Scheduler
from runner.simulator.sequence import Sequence as Running
from runner.simulator.step_time import StepTime

ARRIVAL_SPREAD_SECONDS = 0.0005  # between two clients' first requests; assumed


@dataclass(frozen=True, slots=True)
class Drafts:
    """Drafts as recorded instead of searched: before each decode step (drafted, accepted), (0, 0) for none."""

    steps: Sequence[tuple[int, int]]


class _Script:
    """Stands in for the search in one request: proposes what :class:`Drafts` says."""

    def __init__(self, drafts: Drafts, prompt_length: int, output: Sequence[int]) -> None:
        self._steps = iter(drafts.steps)
        self._prompt_length = prompt_length
        self._output = output

    def propose(self, tokens: Sequence[int]) -> list[int]:
        drafted, accepted = next(self._steps)
        at = len(tokens) - self._prompt_length
        return [*self._output[at : at + accepted], *[PADDING] * (drafted - accepted)]


class _Recorded:
    """The tokens that a recorded request got; past their end come tokens that occur nowhere else."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self._recorded = tokens

    def __getitem__(self, index: int) -> int:
        return self._recorded[index] if index < len(self._recorded) else PADDING - 1 - index


@dataclass(frozen=True, slots=True)
class Request:
    """One request, which gets the recorded tokens `output`, or without them the embedded engine's own words.

    `message` is the user's; own words depend on it and end by themselves, at the latest at `max_tokens`.
    """

    prompt: Sequence[int]
    max_tokens: int
    output: Sequence[int] | None = None
    message: str = ""
    drafts: Drafts | None = None

    def running(self, at: float) -> Running:
        """It as it reaches the engine, at a time in seconds."""
        if self.output is None:
            return Running(list(self.prompt), Continuation(self.prompt, self.message), self.max_tokens, at)
        return Running(list(self.prompt), _Recorded(self.output), self.max_tokens, at, ignore_eos=True)

    def follow(self, running: Running) -> None:
        """Let the request's recorded drafts, if it has any, replace the search, once the scheduler has got it."""
        if self.drafts and self.output is not None and running.drafter is not None:
            running.drafter = _Script(self.drafts, len(self.prompt), self.output)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One round. `steps`, `tokens` and `running` are sums over all steps: what its time is linear in.

    `idle` are seconds in which the engine had nothing to do, `wall` seconds from the first request to the last
    reply, `latency` the mean seconds of a request as its client sees it. Drafts are counted as vLLM counts them.
    """

    steps: int
    tokens: int
    running: int
    idle: float
    wall: float
    latency: float
    drafts: int
    draft_tokens: int
    accepted: int


def run(
    scheduler: Scheduler, requests: Sequence[Request], clients: int, timing: StepTime, turnaround: float
) -> Outcome:
    """Serve `requests` in their order with `clients` clients.

    `turnaround` seconds pass from a reply's last step to the same client's next request in the engine. Nearly all
    of it is the server's HTTP side (the recorded clients lost 0.1 ms), so it counts in the client's latency.
    """
    waiting = [(index * ARRIVAL_SPREAD_SECONDS, index) for index in range(min(clients, len(requests)))]
    sent = len(waiting)
    latencies: list[float] = []
    verified: list[tuple[int, int]] = []
    steps = tokens = running = 0
    now = idle = 0.0
    while len(latencies) < len(requests):
        if not scheduler.has_work and waiting[0][0] > now:
            idle += waiting[0][0] - now
            now = waiting[0][0]
        while waiting and waiting[0][0] <= now:
            at, index = heapq.heappop(waiting)
            _submit(scheduler, requests[index], at)
        plan = scheduler.schedule(now)
        now += timing.seconds(plan.total_tokens, len(plan.sequences))
        steps, tokens, running = steps + 1, tokens + plan.total_tokens, running + len(plan.sequences)
        result = scheduler.complete(plan, now)
        verified += result.accepted
        for output in result.outputs:
            if output.finish:
                latencies.append(now - output.sequence.arrived_at + turnaround)
                if sent < len(requests):
                    heapq.heappush(waiting, (now + turnaround, sent))
                    sent += 1
    return Outcome(
        steps=steps,
        tokens=tokens,
        running=running,
        idle=idle,
        wall=now + turnaround,
        latency=sum(latencies) / len(latencies),
        drafts=len(verified),
        draft_tokens=sum(drafted for drafted, _ in verified),
        accepted=sum(accepted for _, accepted in verified),
    )


def warm_up(scheduler: Scheduler, request: Request) -> None:
    """Serve one request outside of any measurement: it fills the prefix cache."""
    _submit(scheduler, request, 0.0)
    while scheduler.has_work:
        scheduler.complete(scheduler.schedule(0.0), 0.0)


def _submit(scheduler: Scheduler, request: Request, at: float) -> None:
    running = request.running(at)
    scheduler.add(running)
    request.follow(running)
