"""The N-gram matcher against an independent statement of the rule, and drafts against a server's counters."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from ngram_rule import brute_force, replay
from simulator_process import EngineProcess

from runner.simulator import ngram


@pytest.mark.parametrize(
    ("tokens", "draft"),
    [
        ([1, 2, 3, 4, 5, 9, 8, 7, 6, 1, 2, 3, 4, 5, 30, 31, 1, 2, 3, 4, 5], [9, 8, 7, 6, 1]),
        ([7] * 8, [7] * 3),
        ([1, 2, 3, 4, 5], []),
        ([1, 2, 3, 4, 5, 6], []),
    ],
)
def test_reference_examples(tokens: list[int], draft: list[int]) -> None:
    assert ngram.propose(tokens, 5, 5, 5, 4096) == draft
    assert brute_force(tokens, 5, 5, 5, 4096) == draft


def test_matcher_equals_brute_force() -> None:
    chance = random.Random(20)
    drafted = 0
    for _ in range(25_000):
        tokens = [chance.randrange(chance.choice((2, 3, 6))) for _ in range(chance.randrange(1, 26))]
        low = chance.randrange(1, 6)
        high = chance.randrange(low, 7)
        k = chance.randrange(1, 7)
        limit = chance.choice((4096, len(tokens) + 2))
        expected = brute_force(tokens, low, high, k, limit)
        assert ngram.propose(tokens, low, high, k, limit) == expected, (tokens, low, high, k)
        drafted += bool(expected)
    assert drafted > 5_000


def test_growing_index_equals_matcher() -> None:
    chance = random.Random(21)
    for _ in range(1_500):
        low = chance.randrange(1, 6)
        high = chance.randrange(low, 7)
        index = ngram.Index(low, high)
        tokens: list[int] = []
        while len(tokens) < 40:
            tokens += [chance.randrange(3) for _ in range(chance.randrange(1, 5))]
            assert index.propose(tokens, 5, 4096) == brute_force(tokens, low, high, 5, 4096)


@pytest.mark.parametrize(
    ("flags", "low", "high", "k"),
    [
        (("--spec-method", "ngram", "--spec-tokens", "5"), 5, 5, 5),
        (("--spec-method=ngram", "--spec_tokens=3"), 5, 5, 3),
        (
            (
                "--speculative-config.method=ngram",
                "--speculative_config.num_speculative_tokens=4",
                "--speculative-config.prompt_lookup_max",
                "4",
                "--speculative-config.prompt-lookup-min=2",
            ),
            2,
            4,
            4,
        ),
    ],
)
def test_counters_equal_replay(
    start: Callable[..., EngineProcess], flags: tuple[str, ...], low: int, high: int, k: int
) -> None:
    engine = start(*flags).ready()
    drafts = drafted = 0
    positions = [0] * k
    prompts = [
        "Please repeat this three times: one two three four five six seven eight nine ten.",
        "Hello there!",
    ]
    for prompt in (*prompts, "다음을 네 번 반복해줘: 하나 둘 셋 넷 다섯 여섯 일곱 여덟 아홉 열"):
        body = engine.chat(prompt, return_token_ids=True).json()
        found = replay(body["prompt_token_ids"], body["choices"][0]["token_ids"], low, high, k)
        drafts += found[0]
        drafted += found[1]
        positions = [x + y for x, y in zip(positions, found[2], strict=True)]
    assert drafts > 5
    assert engine.metric("spec_decode_num_drafts_total") == drafts
    assert engine.metric("spec_decode_num_draft_tokens_total") == drafted
    assert engine.metric("spec_decode_num_accepted_tokens_total") == sum(positions)
    for position, count in enumerate(positions):
        name = "spec_decode_num_accepted_tokens_per_pos_total"
        assert engine.metric(name, position=str(position)) == count


def test_accepted_counts_before_trimming(start: Callable[..., EngineProcess]) -> None:
    """max_tokens inside an accepted draft: the client gets fewer tokens than the counter says."""
    engine = start("--spec-method", "ngram", "--spec-tokens", "5").ready()
    whole = engine.chat(return_token_ids=True).json()
    prompt, output = whole["prompt_token_ids"], whole["choices"][0]["token_ids"]
    done = 1
    while True:  # find the first step that accepts at least 3
        draft = brute_force(prompt + output[:done], 5, 5, 5, 4096)
        accepted = next((i for i, token in enumerate(draft) if token != output[done + i]), len(draft))
        if accepted >= 3:
            break
        done += accepted + 1
    before = engine.metric("spec_decode_num_accepted_tokens_total")
    cut = engine.chat(max_tokens=done + 1).json()
    assert cut["usage"]["completion_tokens"] == done + 1
    assert cut["choices"][0]["finish_reason"] == "length"
    seen = replay(prompt, output[: done + 1], 5, 5, 5)
    assert engine.metric("spec_decode_num_accepted_tokens_total") - before == sum(seen[2]) + accepted - 1
