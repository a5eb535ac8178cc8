"""KV blocks, the prefix cache, when a lookup counts, and preemption."""

from __future__ import annotations

import pytest
from scheduler_run import LONG, REPEATING, Fresh, K, Round, Run, limits

from runner.simulator.kv_cache import BlockPool
from runner.simulator.scheduler import Scheduler
from runner.simulator.sequence import Sequence

# -- KV blocks and the prefix cache ----------------------------------------------------------------------------------


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


def test_blocks_that_cannot_be_found_again_are_used_again_first() -> None:
    run = Run(limits(), blocks=1 + 5)
    run.add(33, 1, key=1)  # ends first: two full blocks and a partial one
    run.add(17, 2, key=2)  # one full block and a partial one, given back last
    run.finish()
    run.add(17, 1)  # gets the two partial ones
    run.finish()
    hits = []
    for length, key in ((33, 1), (17, 2)):
        run.add(length, 1, key=key)
        run.finish()
        hits.append(run.steps[-1].hits)
    assert hits == [32, 16]


def test_equal_blocks_are_kept_apart_and_the_second_serves_when_the_first_is_gone() -> None:
    pool = BlockPool(1 + 4, 16, prefix_caching=True)
    tokens = list(range(16))
    run = Scheduler(limits(), pool)
    twins = [Sequence(tokens, Fresh(), 2, 0.0) for _ in range(2)]  # one block each: 16 tokens hit nothing
    for twin in twins:
        run.add(twin)
    run.complete(run.schedule(0), 0)
    assert [len(twin.holding.blocks) for twin in twins] == [1, 1]
    first, second = (twin.holding.blocks[0] for twin in twins)
    assert first != second
    run.abort(twins[0])
    other = Sequence(list(range(100, 132)), Fresh(), 2, 0.0)
    run.add(other)
    run.complete(run.schedule(0), 0)  # the second twin takes one of the two free blocks, the other the rest
    assert first in other.holding.blocks
    again = Sequence([*tokens, 1], Fresh(), 1, 0.0)
    assert pool.cached_prefix(again.holding, again.tokens) == [second]


def test_cached_blocks_that_nobody_holds_count_when_a_request_is_admitted() -> None:
    """Two of the three free blocks are the request's own prefix. It needs two more: there is room for the first chunk,
    but not for the whole.
    """
    run = Run(limits(max_num_scheduled_tokens=17), blocks=1 + 5)
    run.add(33, 1, key=1)
    run.finish()
    run.add(17, 100)  # holds two, so that three are left
    run.step()
    late = run.add(64, 1, key=1)  # 32 cached, 32 to come: four blocks
    assert late not in run.step().sequences
    assert run.scheduler.waiting[0] is late


# -- preemption ------------------------------------------------------------------------------------------------------


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


# -- when a lookup counts --------------------------------------------------------------------------------------------


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
