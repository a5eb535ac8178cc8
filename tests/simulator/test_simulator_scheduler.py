"""The pure scheduler: slots, budget, KV blocks, prefix cache, preemption, drafts and their two distortions.

The model of these tests is a list of tokens that goes round, so that every draft and every length is known.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from runner.simulator import admission, drafting, release, statistics
from runner.simulator.kv_cache import BlockPool
from runner.simulator.ngram import PADDING
from runner.simulator.scheduler import Limits, Plan, Scheduler, StepResult
from runner.simulator.sequence import Sequence
from runner.simulator.speculation import Speculation
from runner.simulator.statistics import StepStatistics

K = 5
REPEATING = [11, 12, 13, 14, 15, 16, 17]  # drafts are found from the second round on, and are right
LONG = 10_000


class Round:
    """A model that says the same tokens again and again."""

    def __init__(self, tokens: list[int]) -> None:
        self._tokens = tokens

    def __getitem__(self, index: int) -> int:
        return self._tokens[index % len(self._tokens)]


class Fresh:
    """A model that never says a token twice."""

    def __getitem__(self, index: int) -> int:
        return LONG + index


@dataclass
class Run:
    """A scheduler under test and a record of its steps."""

    limits: Limits
    blocks: int = 4000
    caching: bool = True
    plans: list[Plan] = field(default_factory=list)
    results: list[StepResult] = field(default_factory=list)
    steps: list[StepStatistics] = field(default_factory=list)
    added: int = 0

    def __post_init__(self) -> None:
        self.pool = BlockPool(self.blocks, 16, prefix_caching=self.caching)
        self.scheduler = Scheduler(self.limits, self.pool)

    def add(self, length: int = 20, max_tokens: int = 40, model: Any = None, key: int = -1, **fields: Any) -> Sequence:
        """A request of so many prompt tokens: those of the same `key` begin with the same tokens, others share none."""
        self.added += 1
        first = 1_000_000 * (key if key >= 0 else 1000 + self.added)
        prompt = [first + place for place in range(length)]
        sequence = Sequence(prompt, model or Fresh(), max_tokens, 0.0, **{"ignore_eos": True, **fields})
        self.scheduler.add(sequence)
        return sequence

    def step(self, start: float = 0.0, end: float = 0.0) -> Plan:
        plan = self.scheduler.schedule(start)
        limits = self.limits
        assert len(self.scheduler.running) <= limits.max_num_seqs
        assert plan.total_tokens == sum(plan.tokens.values()) <= limits.max_num_scheduled_tokens
        for sequence in plan.sequences:
            assert sequence.computed + plan.tokens[id(sequence)] <= limits.max_model_len
        self.plans.append(plan)
        self.results.append(self.scheduler.complete(plan, end))
        self.steps.append(statistics.of_step(self.scheduler, plan, self.results[-1]))
        return plan

    def until(self, reached: Callable[[], object]) -> None:
        while not reached():
            self.step()
            assert len(self.plans) < 5000

    def finish(self) -> None:
        self.until(lambda: not self.scheduler.has_work)
        assert self.pool.usage == 0

    @property
    def accepted(self) -> list[tuple[int, int]]:
        return [pair for result in self.results for pair in result.accepted]

    def total(self, name: str) -> int:
        return sum(getattr(step, name) for step in self.steps)


def limits(version: str = "0.26.0", method: str | None = None, runner: str | None = None, **changed: Any) -> Limits:
    """Limits of a release; with a `method` it drafts, on the runner that the release takes for it."""
    fields = {"max_num_seqs": 4, "max_num_scheduled_tokens": 64, "max_model_len": 512, **changed}
    named = release.named(version)
    if method:
        runner = runner or ("V2" if named.speculates_on_v2 else "V1")
        asked = Speculation(method, K, 5, 5, None)
        fields["drafting"] = drafting.of(asked, runner, fields["max_model_len"])
    return Limits(admission=admission.of(named), **fields)


# -- slots and budget ----------------------------------------------------------------------------------------------


def test_slots_bound_the_running_and_the_rest_waits() -> None:
    run = Run(limits(max_num_scheduled_tokens=2048))
    for _ in range(7):
        run.add(max_tokens=5)
    run.step()
    assert (len(run.scheduler.running), len(run.scheduler.waiting)) == (4, 3)
    assert (run.steps[-1].running, run.steps[-1].waiting) == (4, 3)


def test_a_waiting_request_takes_the_slot_in_the_step_after_it_became_free() -> None:
    run = Run(limits(max_num_seqs=1))
    run.add(max_tokens=2)
    late = run.add(max_tokens=1)
    assert [late in run.step().sequences for _ in range(3)] == [False, False, True]


def test_running_requests_come_first_with_their_drafts_then_prompts_in_chunks() -> None:
    run = Run(limits(method="ngram", max_num_scheduled_tokens=32))
    first = run.add(max_tokens=200, model=Round(REPEATING))
    run.until(lambda: len(first.drafts) == K)
    late = run.add(60)
    plan = run.step()
    assert plan.sequences == [first, late]
    assert (plan.tokens[id(first)], plan.tokens[id(late)]) == (1 + K, 32 - 1 - K)
    assert late.output == []
    assert late.drafts == []  # a request that sampled nothing is not searched
    plan = run.step()
    assert plan.tokens[id(late)] == 32 - 1 - K
    plan = run.step()
    assert plan.tokens[id(late)] == 60 - 2 * 26
    assert late.output_length == 1


def test_decodes_take_up_to_seqs_times_one_plus_k() -> None:
    run = Run(limits(method="ngram", max_num_scheduled_tokens=4 * (1 + K)))
    sequences = [run.add(5, 200, Round(REPEATING)) for _ in range(4)]
    run.until(lambda: all(len(sequence.drafts) == K for sequence in sequences))
    assert run.step().total_tokens == 4 * (1 + K)


def test_drafts_are_cut_and_lost_when_the_budget_is_short() -> None:
    run = Run(limits(method="ngram", max_num_scheduled_tokens=8))
    first, second = (run.add(4, 200, Round(REPEATING)) for _ in range(2))
    run.until(lambda: len(first.drafts) == len(second.drafts) == K)
    plan = run.step()
    assert plan.tokens == {id(first): 1 + K, id(second): 2}
    assert run.results[-1].accepted == [(K, K), (1, 1)]  # the cut ones are not counted
    assert len(plan.drafts[id(second)]) == 1
    third = run.add(4)
    object.__setattr__(run.limits, "max_num_scheduled_tokens", 6)
    plan = run.step()
    assert plan.sequences == [first]  # nothing is left for the second, which keeps what it has, nor for the third
    assert len(second.drafts) == K
    assert third in run.scheduler.waiting


def test_a_step_never_reaches_past_the_models_length() -> None:
    run = Run(limits(version="0.33.0", method="ngram", max_model_len=64))
    sequence = run.add(20, 200, Round(REPEATING))
    run.finish()
    assert (len(sequence.tokens), sequence.finished) == (64, "length")
    assert sum(drafted < K for drafted, _ in run.accepted) >= 1  # cut by the length alone


def test_long_prefill_token_threshold_bounds_every_chunk() -> None:
    run = Run(limits(long_prefill_token_threshold=10))
    sequence = run.add(35, 3)
    tokens = [run.step().tokens[id(sequence)] for _ in range(6)]
    assert tokens == [10, 10, 10, 5, 1, 1]


def test_without_chunked_prefill_a_prompt_waits_for_a_budget_that_holds_it_whole() -> None:
    run = Run(limits(chunked_prefill=False, max_num_scheduled_tokens=40))
    run.add(30)
    late = run.add(35)
    small = run.add(3)
    assert run.step().total_tokens == 30
    plan = run.step()
    assert plan.tokens[id(late)] == 35
    assert small.output_length == 1  # in its turn, beside the others


def test_schedule_does_not_depend_on_time() -> None:
    seen = []
    for scale in (0.0, 1.0, 1000.0):
        chance = random.Random(4)
        run = Run(limits(method="ngram"), blocks=34)
        now = 0.0
        shape = []
        for index in range(160):
            if index < 80 and chance.random() < 0.4:
                run.add(chance.randrange(80, 140), chance.randrange(1, 90), Round(REPEATING))
            plan = run.step(now, now + scale)
            now += scale
            shape.append([plan.tokens[id(sequence)] for sequence in plan.sequences])
        seen.append((shape, run.accepted, run.total("preempted")))
    assert seen[0] == seen[1] == seen[2]
    assert seen[0][2] > 0


# -- KV blocks and the prefix cache --------------------------------------------------------------------------------


def test_blocks_hold_what_is_computed_drafts_included_and_nothing_ahead() -> None:
    run = Run(limits(method="ngram", max_num_scheduled_tokens=256))
    sequence = run.add(28, 200, Round(REPEATING))
    most = 0
    while not sequence.finished:
        plan = run.scheduler.schedule(0)
        held = len(sequence.holding.blocks)
        most = max(most, len(plan.drafts.get(id(sequence), ())))
        # Blocks that an earlier draft needed are kept: a request's blocks only grow.
        needed = -(-(sequence.computed + plan.tokens[id(sequence)]) // 16)
        assert needed <= held <= needed + 1
        assert run.pool.usage == held / 3999
        run.scheduler.complete(plan, 0)
    assert most == K
    assert run.pool.usage == 0
    plain = Run(limits())
    plain.add(32, 200)
    plain.step()
    assert plain.pool.usage == 2 / 3999  # the token that was sampled has no place yet
    plain.step()
    assert plain.pool.usage == 3 / 3999


@pytest.mark.parametrize(("length", "hits"), [(15, 0), (16, 0), (17, 16), (32, 16), (33, 32), (40, 32)])
def test_prefix_hits_are_full_blocks_and_leave_one_token_to_compute(length: int, hits: int) -> None:
    run = Run(limits())
    run.add(length, 1, key=1)
    run.finish()
    again = run.add(length, 1, key=1)
    assert run.step().total_tokens == length - hits
    assert again.cached == hits
    assert (run.steps[-1].queried, run.steps[-1].hits) == (length, hits)
    assert run.steps[-1].first == [(length, hits, 0.0)]
    assert run.steps[-1].finished[0].computed_tokens == length - hits


def test_requests_of_one_step_share_a_prefix_and_a_salt_keeps_them_apart() -> None:
    run = Run(limits(max_num_scheduled_tokens=256))
    for salt in (0, 0, 7):
        run.add(40, 5, key=1).holding.salt = salt
    assert list(run.step().tokens.values()) == [40, 8, 40]
    assert run.pool.usage == (3 + 1 + 3) / 3999
    assert (run.steps[-1].queried, run.steps[-1].hits) == (120, 32)


def test_output_is_found_again_too_but_never_a_draft() -> None:
    run = Run(limits(method="ngram"))
    first = run.add(20, 60, Round(REPEATING), key=1)
    run.finish()
    prompt = first.tokens[:]
    again = Sequence(prompt, Fresh(), 1, 0.0)
    run.scheduler.add(again)
    run.finish()
    assert again.cached == (len(prompt) - 1) // 16 * 16  # the last token was sampled and never computed
    wrong = Sequence([*first.tokens[:30], 5, *first.tokens[31:]], Fresh(), 1, 0.0)
    run.scheduler.add(wrong)
    run.finish()
    assert wrong.cached == 16


def test_without_prefix_caching_nothing_is_looked_up() -> None:
    run = Run(limits(), caching=False)
    for _ in range(2):
        run.add(40, 1, key=1)
        run.finish()
    assert [plan.total_tokens for plan in run.plans] == [40, 40]
    assert (run.total("queried"), run.total("hits")) == (0, 0)


def test_least_recently_used_blocks_go_first_and_a_prefix_outlives_its_tail() -> None:
    run = Run(limits(), blocks=1 + 6)
    run.add(33, 1, key=1)  # three blocks, two of them full
    run.finish()
    run.add(33, 1, key=2)
    run.finish()
    assert run.add(33, 1, key=1).cached == 0  # not looked up yet
    run.finish()
    assert run.steps[-1].hits == 32  # the third block of each was never full and was used again first
    run.add(49, 1, key=3)  # four blocks: key 2's, now the older, and one of key 1's unless the partial ones serve
    run.finish()
    one = run.add(33, 1, key=1)
    run.finish()
    two = run.add(33, 1, key=2)
    run.finish()
    assert (one.cached, two.cached) == (32, 0)


def test_equal_blocks_are_kept_apart_and_the_second_serves_when_the_first_is_gone() -> None:
    pool = BlockPool(1 + 3, 16, prefix_caching=True)
    tokens = list(range(16))
    run = Scheduler(limits(), pool)
    twins = [Sequence(tokens, Fresh(), 2, 0.0) for _ in range(2)]  # one block each: 16 tokens hit nothing
    for twin in twins:
        run.add(twin)
    run.complete(run.schedule(0), 0)
    assert [len(twin.holding.blocks) for twin in twins] == [1, 1]
    assert twins[0].holding.blocks != twins[1].holding.blocks
    run.abort(twins[0])
    other = Sequence(list(range(100, 132)), Fresh(), 1, 0.0)
    run.add(other)
    run.complete(run.schedule(0), 0)  # takes the free block and the first twin's
    again = Sequence([*tokens, 1], Fresh(), 1, 0.0)
    assert len(pool.cached_prefix(again.holding, again.tokens)) == 1


def test_cached_blocks_that_nobody_holds_count_when_a_request_is_admitted() -> None:
    """Two of the four free blocks are the request's own prefix: it needs all four."""
    run = Run(limits(max_num_scheduled_tokens=20), blocks=1 + 5)
    run.add(33, 1, key=1)
    run.finish()
    run.add(17, 100)  # holds two, so that three are left
    run.step()
    late = run.add(64, 1, key=1)  # 32 cached, 32 to come: four blocks
    assert late not in run.step().sequences
    assert run.scheduler.waiting[0] is late


# -- preemption ----------------------------------------------------------------------------------------------------


def test_the_latest_is_preempted_recomputes_all_and_finds_its_prefix_again() -> None:
    run = Run(limits(max_num_scheduled_tokens=256), blocks=1 + 7)
    first = run.add(40, 20)
    last = run.add(40, 60)
    run.until(lambda: run.plans and run.plans[-1].preempted)
    assert (first.preemptions, last.preemptions) == (0, 1)
    assert last.computed == 0
    assert run.scheduler.waiting[0] is last
    assert run.plans[-1].sequences == [first]
    assert run.steps[-1].preempted == 1
    length = len(last.tokens)
    assert length == 49  # its fourth block was the one too many
    queried = run.total("queried")
    late = run.add(3, 1)
    run.until(lambda: last in run.scheduler.running)
    assert first.finished
    assert late.finished or late.output_length == 0  # it stood behind the preempted one
    assert run.plans[-1].tokens[id(last)] == length - 48  # its three full blocks were still there
    run.finish()
    assert run.total("queried") - queried == 3  # a preempted request's lookup is not counted again
    assert (run.total("hits"), last.cached) == (0, 0)
    assert last.output == [LONG + place for place in range(60)]


def test_a_step_that_preempts_admits_nobody() -> None:
    run = Run(limits(max_num_scheduled_tokens=256), blocks=1 + 7)
    run.add(40, 60)
    run.add(40, 60)
    late = None
    while not (run.plans and run.plans[-1].preempted):
        if late is None and len(run.plans) == 3:
            late = run.add(80, 1)  # does not fit
        run.step()
    assert late is not None
    small = run.plans[-1]
    assert late not in small.sequences
    assert [sequence.preemptions for sequence in run.scheduler.waiting] == [1, 0]


def test_preemption_drops_drafts_and_changes_no_output() -> None:
    run = Run(limits(method="ngram", max_num_scheduled_tokens=256, max_num_seqs=3), blocks=16)
    sequences = [run.add(20 + place, 90, Round(REPEATING)) for place in range(3)]
    run.finish()
    assert run.total("preempted") > 0
    assert sequences[0].preemptions == 0
    for sequence in sequences:
        assert sequence.output == [REPEATING[place % 7] for place in range(90)]


def test_prompt_tokens_count_once_with_the_first_token_also_over_a_preemption() -> None:
    run = Run(limits(max_num_scheduled_tokens=16), blocks=1 + 7)
    run.add(40, 70)
    late = run.add(56, 2)
    seen = []
    while run.scheduler.has_work:
        run.step()
        seen.append((len(late.output), run.steps[-1].first))
    counted = [first for _, first in seen if first]
    assert counted == [[(40, 0, 0.0)], [(56, late.cached, 0.0)]]
    assert seen[0][1] == []  # a chunk counts nothing
    assert run.total("generated") == 72


# -- when a lookup counts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "times"), [("0.26.0", 6), ("0.32.0", 1), ("0.33.0", 1)])
def test_lookups_of_a_request_that_has_no_room_yet(version: str, times: int) -> None:
    """0.26.0 counts each look at the head of the queue, later releases only that of the step that admits it."""
    run = Run(limits(version, max_num_scheduled_tokens=256), blocks=1 + 4)
    run.add(32, 6)  # three blocks from its second step on
    late = run.add(48, 1)
    run.until(lambda: late.finished)
    looked = sum(1 for plan in run.plans for tokens, _ in plan.lookups if tokens == 48)
    assert len(run.plans) == 7
    assert looked == times + (version == "0.26.0")
    assert run.total("queried") == 32 + 48 * looked


# -- drafts --------------------------------------------------------------------------------------------------------


def test_a_draft_is_verified_in_the_step_after_it_was_made() -> None:
    run = Run(limits(method="ngram"))
    sequence = run.add(3, 60, Round(REPEATING))
    carried = []
    while not sequence.finished:
        drafts = list(sequence.drafts)
        plan = run.step()
        carried.append(len(drafts))
        assert plan.drafts.get(id(sequence), []) == drafts
        assert plan.tokens[id(sequence)] == (1 + len(drafts) if sequence.output_length > 1 else 3)
        assert plan.verifies_drafts == bool(drafts)
    assert carried[:12] == [0] * 12  # the second round's fifth token is the first that completes a match
    assert carried[12:] == [K] * len(carried[12:])


def test_the_first_decode_step_can_carry_a_draft() -> None:
    run = Run(limits(method="ngram"))
    prompt = [*REPEATING, *REPEATING[:4]]
    sequence = Sequence(prompt, Round(REPEATING[4:] + REPEATING[:4]), 20, 0.0)
    run.scheduler.add(sequence)
    run.step()
    assert sequence.drafts == [16, 17, 11, 12, 13]
    run.step()
    assert run.accepted == [(K, K)]
    assert run.results[-1].outputs[0].tokens == [16, 17, 11, 12, 13, 14]


@pytest.mark.parametrize(
    "model", [Round(REPEATING), Round([1, 2, 3, 1, 2, 4]), Fresh()], ids=["right", "wrong", "none"]
)
@pytest.mark.parametrize(
    ("version", "method", "runner"),
    [("0.26.0", "ngram", "V1"), ("0.26.0", "ngram_gpu", "V1"), ("0.33.0", "ngram", "V2"), ("0.33.0", "ngram", "V1")],
)
def test_a_step_emits_one_token_more_than_it_accepts(version: str, method: str, runner: str, model: Any) -> None:
    run = Run(limits(version, method, runner, max_num_scheduled_tokens=256))
    sequences = [run.add(9, 50 + place, model) for place in range(3)]
    run.finish()
    for sequence in sequences:
        assert sequence.output == [model[place] for place in range(sequence.max_tokens)]
    emitted = run.total("generated")
    steps = sum(len(step.intervals) for step in run.steps)
    accepted = sum(taken for _, taken in run.accepted)
    trimmed = 3 + steps + accepted - emitted
    assert 0 <= trimmed <= 3 * K
    padded = method == "ngram_gpu" or runner == "V2"
    if padded:  # every decode step is a draft of K
        assert run.accepted.count((K, 0)) + sum(taken > 0 for _, taken in run.accepted) == steps
        assert {drafted for drafted, _ in run.accepted} == {K}
    elif isinstance(model, Fresh):
        assert run.accepted == []
    else:
        assert 0 < len(run.accepted) < steps
    if isinstance(model, Fresh):
        assert accepted == 0


def test_accepted_counts_before_trimming() -> None:
    run = Run(limits(method="ngram"))
    sequence = run.add(3, 15, Round(REPEATING))
    run.finish()
    assert sequence.output_length == 15
    assert run.accepted == [(K, K)]
    assert len(run.results[-1].outputs[0].tokens) == 3  # of 1 + K
    assert run.total("generated") == 15


def test_what_the_drafters_see_is_one_requests_own_text() -> None:
    run = Run(limits(method="ngram"))
    run.add(20, 7, Round(REPEATING), key=1)
    run.finish()
    run.add(20, 7, Round(REPEATING), key=1)
    run.finish()
    assert run.accepted == []


# -- phantom drafts ------------------------------------------------------------------------------------------------


def cached_head(run: Run, length: int, *, beside: str, running: int = 20) -> tuple[Run, Plan]:
    """One step in which a request of `length` tokens, cached but for its last block, meets what runs beside it."""
    run.add(length, 1, key=1)
    run.finish()
    run.results.clear()
    if beside == "decode":
        run.add(running, 300)
        run.step()
    elif beside == "chunk":
        run.add(run.limits.max_num_scheduled_tokens + 1, 300)
        run.step()
    run.add(length, 1, key=1)
    return run, run.step()


@pytest.mark.parametrize(
    ("version", "length", "beside", "phantoms"),
    [
        ("0.26.0", 33, "decode", True),
        ("0.26.0", 34, "decode", False),
        ("0.26.0", 32, "decode", False),  # the last block is computed again
        ("0.26.0", 33, "nothing", False),
        ("0.26.0", 33, "chunk", False),  # its last token counts as prefill
        ("0.33.0", 33, "decode", True),
        ("0.33.0", 33, "nothing", True),
        ("0.33.0", 1, "nothing", False),  # one token, none of it cached
        ("0.33.0", 33, "chunk", False),
        ("0.33.0", 34, "nothing", False),
        ("0.32.0", 33, "nothing", True),
    ],
)
def test_phantom_drafts(version: str, length: int, beside: str, phantoms: bool) -> None:
    run, plan = cached_head(Run(limits(version, "ngram", "V1")), length, beside=beside)
    (last,) = plan.sequences[-1:]
    uncached = length - (length - 1) // 16 * 16
    assert plan.tokens[id(last)] == uncached + K * phantoms
    assert plan.drafts.get(id(last), []) == [PADDING] * K * phantoms
    assert run.results[-1].accepted == [(K, 0)] * phantoms
    assert last.output_length == 1


def test_no_phantom_drafts_without_speculation() -> None:
    run, plan = cached_head(Run(limits()), 33, beside="decode")
    assert (plan.total_tokens, run.accepted) == (2, [])


@pytest.mark.parametrize(("version", "budget"), [("0.26.0", K + 1), ("0.33.0", K + 1)])
def test_a_request_that_cannot_be_padded_for_lack_of_budget_waits(version: str, budget: int) -> None:
    run, _ = cached_head(Run(limits(version, "ngram", "V1", max_num_scheduled_tokens=64)), 33, beside="decode")
    object.__setattr__(run.limits, "max_num_scheduled_tokens", budget)
    late = run.add(33, 1, key=1)
    run.step()
    assert late in run.scheduler.waiting  # one token is taken by the decode
    object.__setattr__(run.limits, "max_num_scheduled_tokens", budget + 1)
    run.step()
    assert late.finished


def test_a_request_that_cannot_be_padded_for_lack_of_length() -> None:
    """0.26.0 lets it wait as long as others decode; from 0.32.0 on it goes unpadded."""
    for version, room, tokens in (("0.26.0", 0, 1 + K), ("0.26.0", -1, None), ("0.33.0", 1, 1 + K), ("0.33.0", 0, 1)):
        run = Run(limits(version, "ngram", "V1", max_model_len=32 + 1 + K + room))
        run, plan = cached_head(run, 33, beside="decode", running=5)
        late = [sequence for sequence in plan.sequences if sequence.prompt_length == 33]
        assert [plan.tokens[id(sequence)] for sequence in late] == ([] if tokens is None else [tokens]), version


# -- the length cliff ----------------------------------------------------------------------------------------------


def test_length_cliff_turns_everyones_drafts_into_zeros() -> None:
    run = Run(limits(method="ngram", max_model_len=100, max_num_scheduled_tokens=256))
    near = run.add(60, 200)
    run.until(lambda: near.computed == 80)
    other = run.add(10, 200, Round(REPEATING))
    run.until(lambda: near.computed + K == 100)
    assert near.drafts == []  # still in
    assert other.drafts == [REPEATING[(other.output_length + place) % 7] for place in range(K)]
    run.step()
    assert near.drafts == [0] * K
    assert other.drafts == [0] * K
    run.step()
    assert run.results[-1].accepted == [(2, 0), (K, 0)]  # cut to 100 - 1 - 96 tokens; counted, rejected
    run.finish()
    assert (len(near.tokens), len(other.tokens)) == (100, 100)


def test_an_unfinished_prompt_brings_the_cliff_too() -> None:
    run = Run(limits(method="ngram", max_model_len=100, max_num_scheduled_tokens=96))
    other = run.add(5, 200, Round(REPEATING))
    run.until(lambda: len(other.drafts) == K)
    run.add(98, 1)
    run.step()
    assert other.drafts != [0] * K
    run.step()
    assert other.drafts == [0] * K


def test_no_cliff_on_the_v2_runner_nor_with_room_for_two_k() -> None:
    run = Run(limits("0.33.0", "ngram", max_model_len=100))
    run.add(60, 200)
    run.until(lambda: not run.scheduler.has_work)
    assert all(0 not in drafts for plan in run.plans for drafts in plan.drafts.values())
    roomy = Run(limits(method="ngram", max_model_len=20 + 40 + 2 * K))
    sequences = [roomy.add(20, 40, Round(REPEATING)) for _ in range(3)]
    roomy.finish()
    assert all(0 not in drafts for plan in roomy.plans for drafts in plan.drafts.values())
    assert all(sequence.output_length == 40 for sequence in sequences)


# -- finishing -----------------------------------------------------------------------------------------------------


def test_end_and_stop_tokens_and_their_masks() -> None:
    words = [5, 6, 7, 99, 8, 9]
    ended = {"model": Round(words), "end": 99, "ignore_eos": False}
    run = Run(limits())
    plain = run.add(**ended)
    ignoring = run.add(max_tokens=8, **{**ended, "ignore_eos": True})
    masked = run.add(min_tokens=5, **ended)
    stopped = run.add(stop_token_ids=frozenset({7}), **ended)
    run.finish()
    assert (plain.output, plain.finished) == ([5, 6, 7, 99], "stop")
    assert (ignoring.output, ignoring.finished) == ([5, 6, 7, 99, 8, 9, 5, 6], "length")
    assert (masked.output, masked.finished) == ([5, 6, 7, 8, 9, 99], "stop")  # masked for five tokens, then due
    assert (stopped.output, stopped.finished, stopped.stop_reason) == ([5, 6, 7], "stop", 7)
    reasons = Counter(request.reason for step in run.steps for request in step.finished)
    assert reasons == {"stop": 3, "length": 1}


def test_abort_in_any_state_frees_everything_and_counts_nothing() -> None:
    run = Run(limits())
    running, waiting = run.add(), [run.add() for _ in range(6)][-1]
    plan = run.scheduler.schedule(0)
    run.scheduler.abort(running)
    run.scheduler.abort(waiting)
    result = run.scheduler.complete(plan, 0)
    assert running not in [output.sequence for output in result.outputs]
    run.finish()
    assert sum(len(step.finished) for step in run.steps) == 5
    assert running.finished == waiting.finished == "abort"


# -- everything at once --------------------------------------------------------------------------------------------


def check_blocks(run: Run) -> None:
    """Free and held blocks are all there are, and a block has two holders only where their tokens are equal."""
    live = [*run.scheduler.running, *run.scheduler.waiting]
    held: dict[int, tuple[int, ...]] = {}
    for sequence in live:
        blocks = sequence.holding.blocks
        assert len(set(blocks)) == len(blocks)
        assert 0 not in blocks
        for place, block in enumerate(blocks):
            content = tuple(sequence.tokens[: (place + 1) * 16])
            assert held.setdefault(block, content) == content, "shared, but not a prefix of both"
    assert run.pool.free + len(held) == run.blocks - 1
    assert run.pool.usage == len(held) / (run.blocks - 1)
    assert all(not sequence.holding.blocks for sequence in run.scheduler.waiting)


@pytest.mark.parametrize("method", [None, "ngram", "ngram_gpu"])
@pytest.mark.parametrize("version", ["0.26.0", "0.33.0"])
@pytest.mark.parametrize("caching", [True, False])
def test_blocks_never_leak_under_random_arrivals_aborts_and_preemptions(
    version: str, method: str | None, caching: bool
) -> None:
    chance = random.Random(f"{version} {method} {caching}")
    aborted = finished = preempted = 0
    for _ in range(12):
        # 160 tokens fit in ten blocks: one request always does, four rarely.
        run = Run(limits(version, method, max_model_len=160), blocks=1 + chance.randrange(10, 26), caching=caching)
        live: list[Sequence] = []
        while len(run.plans) < 120:
            if chance.random() < 0.3:
                model = chance.choice((Round(REPEATING), Round([1, 2, 3, 1, 2, 4]), Fresh()))
                live.append(run.add(chance.randrange(1, 100), chance.randrange(1, 60), model, key=chance.randrange(3)))
            if live and chance.random() < 0.06:
                victim = live.pop(chance.randrange(len(live)))
                aborted += victim.finished is None
                run.scheduler.abort(victim)
            run.step()
            check_blocks(run)
        run.finish()
        check_blocks(run)
        preempted += run.total("preempted")
        for sequence in live:
            finished += 1
            assert sequence.finished == "length"
            most = min(sequence.max_tokens, 160 - sequence.prompt_length)
            assert sequence.output == [sequence.continuation[place] for place in range(most)]
    assert aborted > 10
    assert preempted > 10
    assert finished > 100
