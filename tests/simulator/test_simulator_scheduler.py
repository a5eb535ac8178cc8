"""The pure scheduler: slots, the token budget, chunks, ends, and everything at once."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from scheduler_run import REPEATING, Fresh, K, Round, Run, limits

from runner.simulator.sequence import Sequence

# -- slots and budget ------------------------------------------------------------------------------------------------


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


# -- finishing -------------------------------------------------------------------------------------------------------


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


# -- everything at once ----------------------------------------------------------------------------------------------


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
