"""What one engine step contributes to the metrics and to the periodic log line: a snapshot without
references.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from runner.simulator.scheduler import Plan, Scheduler, StepResult
from runner.simulator.sequence import FinishReason, Sequence


@dataclass(frozen=True, slots=True)
class FinishedRequest:
    """One finished request. Times in seconds, sizes in tokens."""

    reason: FinishReason
    prompt_tokens: int
    generated_tokens: int
    max_tokens: int
    computed_tokens: int
    preemptions: int
    queue: float
    prefill: float
    decode: float
    latency: float

    @property
    def inference(self) -> float:
        return self.prefill + self.decode

    @property
    def per_output_token(self) -> float:
        """decode / (n - 1); 0 for a single token."""
        return self.decode / (self.generated_tokens - 1) if self.generated_tokens > 1 else 0.0


@dataclass(slots=True)
class StepStatistics:
    """Counts of one step; `first` holds (prompt tokens, cached tokens, time to first token)."""

    running: int
    waiting: int
    kv_usage: float
    queried: int = 0
    hits: int = 0
    preempted: int = 0
    generated: int = 0
    first: list[tuple[int, int, float]] = field(default_factory=list)
    intervals: list[float] = field(default_factory=list)
    drafts: list[tuple[int, int]] = field(default_factory=list)
    finished: list[FinishedRequest] = field(default_factory=list)

    @property
    def produced(self) -> bool:
        """True if the step yielded tokens for any request."""
        return bool(self.first or self.intervals)


def gauges(scheduler: Scheduler) -> StepStatistics:
    """Only the present state of queue and cache."""
    return StepStatistics(len(scheduler.running), len(scheduler.waiting), scheduler.pool.usage)


def of_step(scheduler: Scheduler, plan: Plan, result: StepResult) -> StepStatistics:
    """Snapshot after a completed step."""
    step = gauges(scheduler)
    step.preempted = plan.preempted
    step.drafts = result.accepted
    step.queried = sum(tokens for tokens, _ in plan.lookups)
    step.hits = sum(hits for _, hits in plan.lookups)
    for output in result.outputs:
        sequence = output.sequence
        step.generated += len(output.tokens)
        if output.interval is None:
            assert sequence.first_token_at is not None
            waited = sequence.first_token_at - sequence.arrived_at
            step.first.append((sequence.prompt_length, sequence.cached, waited))
        else:
            step.intervals.append(output.interval)
        if output.finish:
            step.finished.append(_finished(sequence, output.finish))
    return step


def _finished(sequence: Sequence, reason: FinishReason) -> FinishedRequest:
    first, last, scheduled = sequence.first_token_at, sequence.last_token_at, sequence.scheduled_at
    assert first is not None
    assert last is not None
    assert scheduled is not None
    return FinishedRequest(
        reason=reason,
        prompt_tokens=sequence.prompt_length,
        generated_tokens=sequence.output_length,
        max_tokens=sequence.max_tokens,
        computed_tokens=sequence.prompt_length - sequence.cached,
        preemptions=sequence.preemptions,
        queue=max(0.0, scheduled - sequence.arrived_at),
        prefill=first - scheduled,
        decode=last - first,
        latency=last - sequence.arrived_at,
    )
