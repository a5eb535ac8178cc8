"""Drafts step by step, and their two distortions: phantom drafts and the length cliff."""

from __future__ import annotations

from typing import Any

import pytest
from scheduler_run import REPEATING, Fresh, K, Round, Run, limits

from runner.simulator.ngram import PADDING
from runner.simulator.scheduler import Plan
from runner.simulator.sequence import Sequence

# -- drafts ----------------------------------------------------------------------------------------------------------


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


# -- phantom drafts --------------------------------------------------------------------------------------------------


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


# -- the length cliff ------------------------------------------------------------------------------------------------


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
