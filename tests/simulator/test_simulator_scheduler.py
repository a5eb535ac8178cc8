"""The pure scheduler: limits, budgets, prefix caching, preemption, distortions, independence of time."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from runner.simulator import chat_template
from runner.simulator.continuation import Continuation
from runner.simulator.kv_cache import BlockPool
from runner.simulator.scheduler import Limits, Plan, Scheduler
from runner.simulator.sequence import Sequence


@dataclass
class Run:
    """A scheduler under test and a record of its steps."""

    limits: Limits
    blocks: int = 4000
    caching: bool = True
    plans: list[Plan] = field(default_factory=list)
    accepted: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.pool = BlockPool(self.blocks, 16, prefix_caching=self.caching)
        self.scheduler = Scheduler(self.limits, self.pool)

    def add(self, text: str = "Hello", max_tokens: int = 40, **fields: object) -> Sequence:
        prompt = chat_template.render([("user", text)])
        sequence = Sequence(prompt, Continuation(prompt, text), max_tokens, 0.0, **fields)  # type: ignore[arg-type]
        self.scheduler.add(sequence)
        return sequence

    def step(self, start: float = 0.0, end: float = 0.0) -> Plan:
        plan = self.scheduler.schedule(start)
        limits = self.limits
        assert len(self.scheduler.running) <= limits.max_num_seqs
        assert plan.total_tokens == sum(plan.tokens.values()) <= limits.max_num_scheduled_tokens
        assert 0 <= self.pool.free < self.blocks
        self.plans.append(plan)
        self.accepted += self.scheduler.complete(plan, end).accepted
        return plan

    def finish(self, most: int = 5000) -> None:
        while self.scheduler.has_work:
            self.step()
            assert len(self.plans) < most
        assert self.pool.usage == 0


def limits(**changed: int | bool) -> Limits:
    return Limits(**{"max_num_seqs": 4, "max_num_scheduled_tokens": 64, "max_model_len": 512, **changed})  # type: ignore[arg-type]


@pytest.mark.parametrize("drafts", [0, 5])
def test_invariants_and_output_under_random_load(drafts: int) -> None:
    chance = random.Random(drafts)
    run = Run(limits(drafts=drafts))
    sequences: list[Sequence] = []
    for index in range(40):
        text = chance.choice(("Hello", f"repeat 3 times: a b c d e f g h {index % 3}", f"tell me {index}" * 9))
        sequences.append(run.add(text, chance.randrange(1, 60)))
        for _ in range(chance.randrange(4)):
            run.step()
    run.finish()
    for sequence in sequences:
        assert sequence.finished in ("stop", "length")
        assert sequence.output_length <= sequence.max_tokens
        if sequence.finished == "length":
            assert sequence.output_length == sequence.max_tokens


def test_drafting_does_not_change_the_text() -> None:
    outputs = []
    for drafts in (0, 5):
        run = Run(limits(drafts=drafts))
        sequences = [
            run.add(text, 80)
            for text in ("repeat 4 times: a b c d e f g h", "Hello", "세 번 반복: 가나 다라 마바 사아")
        ]
        run.finish()
        outputs.append([sequence.output for sequence in sequences])
    assert outputs[0] == outputs[1]
    assert len(outputs[0][0]) > 30


def test_slots_are_used_and_the_rest_waits() -> None:
    run = Run(limits(max_num_scheduled_tokens=2048))
    for index in range(7):
        run.add(f"prompt {index}", 5)
    run.step()
    assert (len(run.scheduler.running), len(run.scheduler.waiting)) == (4, 3)


def test_running_requests_come_before_waiting_ones() -> None:
    run = Run(limits(drafts=5, max_num_scheduled_tokens=32))
    first = run.add("repeat 9 times: a b c d e f g h", 200)
    while not first.drafts:
        run.step()
    late = run.add("Hello " * 40)
    carried = 1 + len(first.drafts)
    plan = run.step()
    assert plan.sequences == [first, late]
    assert plan.tokens[id(first)] == carried
    assert plan.tokens[id(late)] == 32 - carried  # a chunk: the rest of the budget
    assert late.output_length == 0


def test_drafts_are_cut_when_the_budget_ends() -> None:
    run = Run(limits(drafts=5, max_num_scheduled_tokens=100))
    sequence = run.add("repeat 9 times: a b c d e f g h", 200)
    while len(sequence.drafts) < 5:
        run.step()
    object.__setattr__(run.limits, "max_num_scheduled_tokens", 3)
    plan = run.step()
    assert plan.total_tokens == 3
    assert run.accepted[-1][0] == 2


def test_prefix_cache_hits_are_full_blocks_and_leave_one_token() -> None:
    run = Run(limits())
    run.add("Hello", 1)
    run.finish()
    again = run.add("Hello", 1)
    run.finish()
    length = again.prompt_length
    assert again.cached == (length - 1) // 16 * 16 > 0
    other = run.add("Hello", 1)
    other.holding.salt = 7
    run.finish()
    assert other.cached == 0
    without = Run(limits(), caching=False)
    without.add("Hello", 1)
    without.finish()
    assert without.add("Hello", 1) and without.step().total_tokens == length


def test_preemption_when_blocks_run_out() -> None:
    run = Run(limits(max_num_scheduled_tokens=256, max_num_seqs=3), blocks=14, caching=False)
    sequences = [run.add(f"number {index}", 90, ignore_eos=True) for index in range(3)]
    run.finish()
    assert sum(plan.preempted for plan in run.plans) > 0
    assert [sequence.output_length for sequence in sequences] == [90, 90, 90]
    assert sequences[0].preemptions == 0  # the latest comers give way


def phantom(padding: str, *, others: bool) -> tuple[Run, int]:
    run = Run(limits(drafts=5, max_num_scheduled_tokens=256))
    text = "Hello" + padding
    run.add(text, 1)
    run.finish()
    if others:
        run.add("Something else entirely", 60)
        run.step()
    run.accepted.clear()
    run.add(text, 1)
    return run, run.step().total_tokens


def test_phantom_drafts_need_one_uncached_token_and_running_decodes() -> None:
    lengths = {len(chat_template.render([("user", "Hello" + "!" * count)])) % 16: count for count in range(16)}
    run, tokens = phantom("!" * lengths[1], others=True)
    assert run.accepted == [(5, 0)]
    assert tokens == 1 + 6
    run, tokens = phantom("!" * lengths[1], others=False)
    assert (run.accepted, tokens) == ([], 1)
    run, tokens = phantom("!" * lengths[2], others=True)
    assert (run.accepted, tokens) == ([], 1 + 2)


def test_length_cliff_zeroes_the_drafts_of_everyone() -> None:
    run = Run(limits(drafts=5, max_model_len=120, max_num_scheduled_tokens=256))
    near = run.add("Hello", 200, ignore_eos=True)
    other = run.add("repeat 9 times: a b", 200, ignore_eos=True)
    while len(near.tokens) < 117:
        run.step()
    assert near.drafts == [0] * 5
    if other.finished is None:
        assert other.drafts == [0] * 5
    run.finish()
    assert len(near.tokens) == 120
    assert near.finished == "length"


def test_ngram_gpu_pads_every_decode_step() -> None:
    run = Run(limits(drafts=5, pad_drafts=True))
    sequence = run.add("Hello", 20)
    run.finish()
    assert run.accepted == [(5, 0)] * (sequence.output_length - 1)


def test_schedule_does_not_depend_on_time() -> None:
    seen = []
    for scale in (0.0, 1.0, 1000.0):
        chance = random.Random(4)
        run = Run(limits(drafts=5))
        now = 0.0
        shape = []
        for index in range(120):
            if index < 60 and chance.random() < 0.4:
                run.add(f"repeat 3 times: a b c d e f {index}", chance.randrange(1, 50))
            plan = run.step(now, now + scale)
            now += scale
            shape.append([plan.tokens[id(sequence)] for sequence in plan.sequences])
        seen.append((shape, run.accepted))
    assert seen[0] == seen[1] == seen[2]


def test_abort_frees_everything() -> None:
    run = Run(limits())
    running, waiting = run.add("a"), [run.add(f"b{index}") for index in range(6)][-1]
    plan = run.scheduler.schedule(0)
    run.scheduler.abort(running)
    run.scheduler.abort(waiting)
    result = run.scheduler.complete(plan, 0)
    assert running not in [output.sequence for output in result.outputs]
    run.finish()


def test_min_tokens_and_stop_tokens() -> None:
    run = Run(limits())
    long = run.add("repeat 1 times: a", 200, min_tokens=120)
    plain = run.add("repeat 1 times: a b", 200)
    run.finish()
    assert long.finished == "stop"
    assert long.output_length == 121  # masked for 120 tokens, then due
    assert plain.output_length < 40
    third = plain.output[2]
    stopped = run.add("repeat 1 times: a b", 200, stop_token_ids=frozenset({third}))
    run.finish()
    assert stopped.output == plain.output[:3]
    assert stopped.stop_reason == third
