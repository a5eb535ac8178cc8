"""The step scheduler: continuous batching in pure form, without a clock and without HTTP.

``schedule(now)`` decides one step, ``complete(plan, now)`` applies its result. Times only pass through into
the requests' records; no decision depends on them, so the schedule of given arrivals (in steps) is the same
at any speed. Order of a step, as in vLLM's ``v1/core/sched/scheduler.py``: running requests first (1 + d tokens
each), then waiting ones (prefill chunks) while slots, KV blocks and the token budget last.

Steps follow one another: the result of one is known before the next is planned. vLLM's async scheduler plans one
ahead, so that a slot there is free one step after its request has ended; that step is not imitated.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from runner.simulator.admission import Admission, Admission26, Room
from runner.simulator.drafting import Drafting
from runner.simulator.kv_cache import BlockPool
from runner.simulator.ngram import PADDING
from runner.simulator.sequence import FinishReason, Sequence


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds a step, in requests and tokens. `drafting` is None when speculation is off."""

    max_num_seqs: int
    max_num_scheduled_tokens: int
    max_model_len: int
    drafting: Drafting | None = None
    admission: Admission = field(default_factory=Admission26)
    long_prefill_token_threshold: int = 0
    chunked_prefill: bool = True


@dataclass(slots=True)
class Plan:
    """One step: tokens scheduled per request, and what the step time depends on.

    `lookups`: (tokens, hits) of every lookup in the prefix cache that counts; a preempted request's never do.
    """

    tokens: dict[int, int] = field(default_factory=dict)
    sequences: list[Sequence] = field(default_factory=list)
    drafts: dict[int, list[int]] = field(default_factory=dict)
    total_tokens: int = 0
    preempted: int = 0
    lookups: list[tuple[int, int]] = field(default_factory=list)

    @property
    def verifies_drafts(self) -> bool:
        """True if any request carries a draft in this step."""
        return bool(self.drafts)


@dataclass(slots=True)
class Output:
    """What one request got from one step. `tokens` may be empty only for an unfinished prefill (not
    reported).
    """

    sequence: Sequence
    tokens: list[int]
    interval: float | None  # seconds since the request's previous tokens; None for the first ones
    finish: FinishReason | None


@dataclass(slots=True)
class StepResult:
    """Outputs and counts of one step; `accepted` has one entry per draft verified: (drafted, accepted)."""

    outputs: list[Output] = field(default_factory=list)
    accepted: list[tuple[int, int]] = field(default_factory=list)


class Scheduler:
    """Waiting queue, running list and KV blocks of one engine."""

    def __init__(self, limits: Limits, pool: BlockPool) -> None:
        self.limits = limits
        self.pool = pool
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []

    @property
    def has_work(self) -> bool:
        return bool(self.waiting or self.running)

    def add(self, sequence: Sequence) -> None:
        """Queue a request. Its prompt must be shorter than max_model_len."""
        if self.limits.drafting:
            sequence.drafter = self.limits.drafting.drafter()
        self.waiting.append(sequence)

    def abort(self, sequence: Sequence) -> None:
        """Drop a request in any state; a step that already carries it yields nothing for it."""
        if sequence.finished is not None:
            return
        sequence.finished = "abort"
        if sequence in self.running:
            self.running.remove(sequence)
        elif sequence in self.waiting:
            self.waiting.remove(sequence)
        self.pool.release(sequence.holding)

    # -- one step ----------------------------------------------------------------------------------------

    def schedule(self, now: float) -> Plan:
        """Choose the tokens of the next step and give them KV blocks."""
        plan = Plan()
        budget = self._schedule_running(plan, self.limits.max_num_scheduled_tokens)
        if not plan.preempted:
            self._schedule_waiting(plan, budget, now)
        return plan

    def _schedule_running(self, plan: Plan, budget: int) -> int:
        limits = self.limits
        index = 0
        while index < len(self.running) and budget > 0:
            sequence = self.running[index]
            length = len(sequence.tokens)
            wanted = length + len(sequence.drafts) - sequence.computed
            if 0 < limits.long_prefill_token_threshold < wanted:
                wanted = limits.long_prefill_token_threshold
            wanted = min(wanted, budget, limits.max_model_len - 1 - sequence.computed)
            if wanted <= 0:
                index += 1
                continue
            if not self._give_blocks(plan, sequence, wanted):
                break  # the request preempted itself: nothing is left behind it
            # Drafts that the budget or the length leaves no room for are lost, not kept.
            kept = max(0, sequence.computed + wanted - length)
            self._book(plan, sequence, wanted, sequence.drafts[:kept])
            budget -= wanted
            index += 1
        return budget

    def _give_blocks(self, plan: Plan, sequence: Sequence, wanted: int) -> bool:
        while not self.pool.take(sequence.holding, (), sequence.computed + wanted):
            victim = self.running.pop()
            self._preempt(victim, plan)
            if victim is sequence:
                return False
        return True

    def _preempt(self, victim: Sequence, plan: Plan) -> None:
        self.pool.release(victim.holding)
        victim.computed = 0
        victim.drafts = []
        victim.preemptions += 1
        self.waiting.appendleft(victim)
        plan.preempted += 1

    def _schedule_waiting(self, plan: Plan, budget: int, now: float) -> None:
        limits = self.limits
        decodes = len(plan.sequences)
        prefills = any(sequence.prefilling for sequence in plan.sequences)
        while self.waiting and budget > 0 and len(self.running) < limits.max_num_seqs:
            sequence = self.waiting[0]
            length = len(sequence.tokens)
            cached = self.pool.cached_prefix(sequence.holding, sequence.tokens)
            computed = len(cached) * self.pool.block_size
            self._count_lookup(plan, sequence, computed, admitted=False)
            wanted = length - computed
            phantoms = self._phantoms(Room(computed, wanted, budget, limits.max_model_len, decodes, prefills))
            if phantoms is None:
                break
            wanted += phantoms
            if 0 < limits.long_prefill_token_threshold < wanted:
                wanted = limits.long_prefill_token_threshold
            if wanted > budget and not limits.chunked_prefill:
                break
            wanted = min(wanted, budget)
            # A request is admitted only if all its tokens fit, though blocks are taken per chunk.
            if not self.pool.fits(cached, length) or not self.pool.take(sequence.holding, cached, computed + wanted):
                break
            self.waiting.popleft()
            self.running.append(sequence)
            self._count_lookup(plan, sequence, computed, admitted=True)
            sequence.computed = computed
            if sequence.scheduled_at is None:
                sequence.scheduled_at = now
                sequence.cached = computed
            self._book(plan, sequence, wanted, [PADDING] * min(phantoms, wanted - 1))
            budget -= wanted

    def _phantoms(self, room: Room) -> int | None:
        limits = self.limits
        return limits.admission.phantoms(room, limits.drafting.tokens) if limits.drafting else 0

    def _count_lookup(self, plan: Plan, sequence: Sequence, hits: int, *, admitted: bool) -> None:
        looked_up = self.pool.prefix_caching and not sequence.preemptions
        if looked_up and self.limits.admission.counted(admitted=admitted):
            plan.lookups.append((len(sequence.tokens), hits))

    def _book(self, plan: Plan, sequence: Sequence, wanted: int, drafts: list[int]) -> None:
        key = id(sequence)
        plan.sequences.append(sequence)
        plan.tokens[key] = wanted
        plan.total_tokens += wanted
        if drafts:
            plan.drafts[key] = drafts
        sequence.drafts = []
        self.pool.publish(sequence.holding, sequence.tokens, min(sequence.computed + wanted, len(sequence.tokens)))

    def complete(self, plan: Plan, now: float) -> StepResult:
        """Apply the step's result: tokens, acceptance, finishing, and the drafts for the next step."""
        result = StepResult()
        sampled: list[Sequence] = []
        longest = 0
        finished = False
        for sequence in plan.sequences:
            if sequence.finished is not None:
                continue
            scheduled = plan.tokens[id(sequence)]
            drafts = plan.drafts.get(id(sequence), [])
            sequence.computed += scheduled
            longest = max(longest, sequence.computed)
            sequence.prefilling = sequence.computed - len(drafts) < len(sequence.tokens)
            if sequence.prefilling:
                continue  # an unfinished prefill chunk samples nothing
            emitted = self._verify(sequence, drafts)
            sequence.computed -= len(drafts) - (len(emitted) - 1)
            if drafts:
                result.accepted.append((len(drafts), len(emitted) - 1))
            output = self._append(sequence, emitted, now)
            result.outputs.append(output)
            if output.finish is None:
                sampled.append(sequence)
            else:
                finished = True
                self.pool.release(sequence.holding)
        if finished:
            self.running = [sequence for sequence in self.running if sequence.finished is None]
        if self.limits.drafting:
            self.limits.drafting.draft(sampled, longest)
        return result

    def _verify(self, sequence: Sequence, drafts: list[int]) -> list[int]:
        """Greedy acceptance: drafts while they equal the model's token, then one token of the model
        itself.
        """
        at = sequence.output_length
        emitted: list[int] = []
        for draft in drafts:
            target = sequence.target(at + len(emitted))
            emitted.append(target)
            if draft != target:
                return emitted
        emitted.append(sequence.target(at + len(emitted)))
        return emitted

    def _append(self, sequence: Sequence, emitted: list[int], now: float) -> Output:
        kept: list[int] = []
        finish: FinishReason | None = None
        for token in emitted:
            kept.append(token)
            sequence.tokens.append(token)
            length = len(sequence.tokens) - sequence.prompt_length
            if token == sequence.end and not sequence.ignore_eos and length >= sequence.min_tokens:
                finish = "stop"
            elif token in sequence.stop_token_ids and length >= sequence.min_tokens:
                finish = "stop"
                sequence.stop_reason = token
            elif length >= sequence.max_tokens or len(sequence.tokens) >= self.limits.max_model_len:
                finish = "length"
            if finish:
                break
        interval = None if sequence.last_token_at is None else now - sequence.last_token_at
        if sequence.first_token_at is None:
            sequence.first_token_at = now
        sequence.last_token_at = now
        sequence.finished = finish
        return Output(sequence, kept, interval, finish)
