"""Slots, KV blocks, prompts and the token budget move queue, knee and latency: closed loops of the scheduler against
the article's step times, in virtual time. Sections are those of vLLM's behaviour as the module docstrings cite it."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from statistics import mean

import pytest

from runner.analysis.knee import GridPoint, Knee, find_knee
from runner.simulator import chat_template, profile, step_time
from runner.simulator.continuation import Continuation
from runner.simulator.kv_cache import BlockPool
from runner.simulator.scheduler import Limits, Plan, Scheduler
from runner.simulator.sequence import Sequence

GRID = [1, 4, 8, 16, 32]
TURNAROUND = 0.002  # seconds from a reply to the same client's next request
SHORT = "Which way do the geese fly?"
TIMING = step_time.of(profile.load("article").step_time, runner="V2", asynchronous=True, proposes_on_cpu=False)


@dataclass(frozen=True)
class Setup:
    """One engine and what its clients ask for."""

    slots: int = 16
    blocks: int = 4800
    budget: int = 2048
    caching: bool = False
    prompt: str = SHORT
    tokens: int = 64

    @property
    def prompt_tokens(self) -> int:
        return len(chat_template.render([("user", self.prompt)]))


@dataclass
class Loop:
    """A closed loop that has run: per step (running, waiting, cache usage) after scheduling, and per request."""

    steps: list[tuple[int, int, float]] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)
    requests: list[Sequence] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def throughput(self) -> float:
        return len(self.requests) / self.seconds

    @property
    def latency(self) -> float:
        """Mean seconds from arrival to the last token."""
        return mean((one.last_token_at or 0.0) - one.arrived_at for one in self.requests)

    @property
    def steady(self) -> list[tuple[int, int, float]]:
        """The steps while every client has a request under way: without the ramp at each end."""
        most = max(running + waiting for running, waiting, _ in self.steps)
        return [step for step in self.steps if step[0] + step[1] == most]

    @property
    def preempted(self) -> int:
        return sum(plan.preempted for plan in self.plans)


def closed_loop(setup: Setup, clients: int, requests: int) -> Loop:
    limits = Limits(max_num_seqs=setup.slots, max_num_scheduled_tokens=setup.budget, max_model_len=4096)
    scheduler = Scheduler(limits, BlockPool(setup.blocks, 16, prefix_caching=setup.caching))
    prompt = chat_template.render([("user", setup.prompt)])
    loop = Loop()
    arrivals = [0.0] * min(clients, requests)
    sent = len(arrivals)
    now = 0.0
    while arrivals or scheduler.has_work:
        if not scheduler.has_work:
            now = max(now, arrivals[0])
        while arrivals and arrivals[0] <= now:
            words = Continuation(prompt, setup.prompt)
            one = Sequence(prompt, words, setup.tokens, heapq.heappop(arrivals), ignore_eos=True)
            loop.requests.append(one)
            scheduler.add(one)
        plan = scheduler.schedule(now)
        loop.plans.append(plan)
        loop.steps.append((len(scheduler.running), len(scheduler.waiting), scheduler.pool.usage))
        now += TIMING.seconds(plan.total_tokens, len(plan.sequences))
        for output in scheduler.complete(plan, now).outputs:
            if output.finish and sent < requests:
                heapq.heappush(arrivals, now + TURNAROUND)
                sent += 1
    loop.seconds = now
    assert len(loop.requests) == requests and all(one.output_length == setup.tokens for one in loop.requests)
    return loop


def over_the_grid(setup: Setup) -> dict[int, Loop]:
    return {level: closed_loop(setup, level, 8 * level) for level in GRID}


def knee(loops: dict[int, Loop]) -> object:
    return find_knee(
        [
            GridPoint(level, loop.throughput, sorted(waiting for _, waiting, _ in loop.steady)[len(loop.steady) // 2])
            for level, loop in loops.items()
        ]
    )


@pytest.mark.parametrize("slots", [8, 16])
def test_slots_bound_what_runs_and_the_knee_is_where_they_end(slots: int) -> None:
    loops = over_the_grid(Setup(slots=slots))
    for level, loop in loops.items():
        assert max(running for running, _, _ in loop.steps) == min(level, slots)
        assert max(waiting for _, waiting, _ in loop.steady) == max(0, level - slots)
        assert loop.preempted == 0
    assert knee(loops) == Knee(slots, 2 * slots)


def test_beyond_the_slots_latency_grows_as_the_clients_do() -> None:
    loops = over_the_grid(Setup(slots=8))
    # Little: clients = throughput x (latency + turnaround), and beyond the knee the throughput stands still.
    assert loops[32].throughput == pytest.approx(loops[8].throughput, rel=0.03)
    assert loops[32].latency / loops[8].latency == pytest.approx(4, rel=0.15)  # the first wave waits less
    assert loops[8].latency / loops[4].latency < 1.1
    sixteen = over_the_grid(Setup(slots=16))
    assert sixteen[16].latency < 0.6 * loops[16].latency
    assert sixteen[16].throughput > 1.7 * loops[16].throughput


def test_a_longer_prompt_costs_its_tokens_and_no_step_more_within_the_budget() -> None:
    short, long = Setup(), Setup(prompt=" ".join([SHORT] * 100))
    extra = long.prompt_tokens - short.prompt_tokens
    assert 500 < extra < 2000
    one, other = closed_loop(short, 1, 1), closed_loop(long, 1, 1)
    assert len(one.steps) == len(other.steps) == short.tokens
    assert other.latency - one.latency == pytest.approx(TIMING.per_token * extra)
    # All who run beside it wait for its prefill: the loss grows with the concurrency.
    losses = [
        closed_loop(long, level, 8 * level).latency / closed_loop(short, level, 8 * level).latency
        for level in (1, 4, 16)
    ]
    assert losses == sorted(losses) and losses[-1] > 1.1 * losses[0]


def test_a_prompt_beyond_the_budget_takes_more_steps() -> None:
    long = Setup(prompt=" ".join([SHORT] * 100), budget=256)
    loop = closed_loop(long, 1, 1)
    assert len(loop.steps) == -(-long.prompt_tokens // 256) + long.tokens - 1
    assert max(plan.total_tokens for plan in loop.plans) == 256


def test_the_token_budget_makes_requests_wait_where_slots_and_blocks_are_free() -> None:
    long = Setup(prompt=" ".join([SHORT] * 100))
    first = closed_loop(long, 8, 8)
    within = long.budget // long.prompt_tokens  # whole prompts in one step; one more is begun with what is left
    assert 1 <= within < 7
    running, waiting, usage = first.steps[0]
    assert (running, waiting) == (within + 1, 8 - within - 1)
    assert usage < 0.2
    assert closed_loop(Setup(), 8, 8).steps[0][:2] == (8, 0)


def test_a_cached_prompt_costs_as_little_as_a_short_one() -> None:
    text = " ".join([SHORT] * 100)
    cached, computed = (closed_loop(Setup(prompt=text, caching=caching), 4, 32) for caching in (True, False))
    late = [one.cached for one in cached.requests[4:]]
    length = Setup(prompt=text).prompt_tokens
    assert set(late) == {(length - 1) // 16 * 16}
    assert {one.cached for one in computed.requests} == {0}
    assert cached.latency < computed.latency


def test_blocks_instead_of_slots_bound_what_runs() -> None:
    """Outputs that fit the prompt's last block: what is admitted is never thrown out again."""
    setup = Setup(prompt=" ".join([SHORT] * 20), tokens=4)
    assert setup.prompt_tokens % 16 + setup.tokens <= 17 and setup.prompt_tokens % 16 > 0
    each = -(-setup.prompt_tokens // 16)
    tight = Setup(slots=16, blocks=1 + 5 * each, prompt=setup.prompt, tokens=setup.tokens)  # one is never handed out
    loops = over_the_grid(tight)
    for level, loop in loops.items():
        assert max(running for running, _, _ in loop.steps) == min(level, 5)
        assert max(waiting for _, waiting, _ in loop.steady) == max(0, level - 5)
        assert max(usage for _, _, usage in loop.steps) == pytest.approx(min(level, 5) / 5)
        assert loop.preempted == 0
    assert loops[8].throughput < 1.1 * loops[4].throughput * 5 / 4
    assert knee(loops) == Knee(4, 8)  # the grid's last point without a queue
    assert knee(over_the_grid(setup)) == Knee(16, 32)


def test_outputs_that_grow_out_of_the_blocks_preempt_and_stay_the_same() -> None:
    roomy, tight = (closed_loop(Setup(blocks=blocks, tokens=100), 16, 64) for blocks in (4800, 34))
    assert (roomy.preempted, tight.preempted > 0) == (0, True)
    assert max(usage for _, _, usage in tight.steps) > 0.95
    assert max(running for running, _, _ in tight.steps) < 16 and max(waiting for _, waiting, _ in tight.steady) > 0
    assert {tuple(one.output) for one in tight.requests} == {tuple(one.output) for one in roomy.requests}
    assert tight.latency > 1.5 * roomy.latency
