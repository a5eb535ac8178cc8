"""The drafters against an independent statement of their rules, and drafts against a server's counters."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from ngram_rule import brute_force, brute_force_v2, replay
from simulator_process import EngineProcess

from runner.simulator.ngram import PADDING, EarliestMatch, LatestMatch, Lookup, PaddedEarliestMatch

REPEATED = [1, 2, 3, 4, 5, 9, 8, 7, 6, 1, 2, 3, 4, 5, 30, 31, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("tokens", "earliest", "latest"),
    [
        (REPEATED, [9, 8, 7, 6, 1], [30, 31, 1, 2, 3]),
        ([7] * 8, [7] * 3, [7] * 5),
        ([1, 2, 3, 4], [], [4] * 5),
        ([1, 2, 3, 4, 5], [], [5] * 5),
        ([1, 2, 3, 4, 5, 6], [], [6] * 5),
        ([1, 2, 3, 4, 5, 9, 1, 2, 3, 4, 5], [9, 1, 2, 3, 4], [9, 1, 2, 3, 4]),
        ([9, 1, 2, 3, 4, 5, 8, 8, 8, 1, 2, 3, 4, 5], [8, 8, 8, 1, 2], [8, 8, 8, 1, 2]),
    ],
)
def test_reference_examples(tokens: list[int], earliest: list[int], latest: list[int]) -> None:
    lookup = Lookup(5, 5, 5, 4096)
    assert EarliestMatch(lookup).propose(tokens) == brute_force(tokens, 5, 5, 5, 4096) == earliest
    assert LatestMatch(lookup).propose(tokens) == brute_force_v2(tokens, 5, 5, 5) == latest
    assert PaddedEarliestMatch(lookup).propose(tokens) == earliest + [PADDING] * (5 - len(earliest))


def test_drafters_equal_brute_force_on_100_000_sequences() -> None:
    """Growing ones and fresh ones, 0 to 40 tokens of small alphabets, any window, K and limit."""
    chance = random.Random(20)
    checked = matched = differing = 0
    while checked < 100_000:
        low = chance.randrange(1, 6)
        high = chance.randrange(low, 7)
        k = chance.randrange(1, 8)
        limit = chance.choice((4096, chance.randrange(1, 45)))
        alphabet = chance.choice((1, 2, 2, 3, 3, 6))
        lookup = Lookup(low, high, k, limit)
        earliest, padded, latest = EarliestMatch(lookup), PaddedEarliestMatch(lookup), LatestMatch(lookup)
        tokens = [chance.randrange(alphabet) for _ in range(chance.choice((0, 1, chance.randrange(41))))]
        while True:
            old = brute_force(tokens, low, high, k, limit)
            assert earliest.propose(tokens) == old, (tokens, lookup)
            assert padded.propose(tokens) == old + [PADDING] * (k - len(old)), (tokens, lookup)
            if tokens:
                new = brute_force_v2(tokens, low, high, k)
                assert latest.propose(tokens) == new, (tokens, lookup)
                differing += bool(old) and new[: len(old)] != old
            checked += 1
            matched += bool(old)
            if len(tokens) >= 40:
                break
            tokens = tokens + [chance.randrange(alphabet) for _ in range(chance.randrange(1, 9))]
    assert matched > 30_000
    assert differing > 5_000


@pytest.mark.parametrize("version", ["0.26.0", "0.33.0"])
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
    start: Callable[..., EngineProcess], flags: tuple[str, ...], low: int, high: int, k: int, version: str
) -> None:
    def propose(tokens: list[int]) -> list[int]:
        if version == "0.33.0":
            return brute_force_v2(tokens, low, high, k)
        return brute_force(tokens, low, high, k, 4096)

    engine = start(*flags, SIMULATOR_VERSION=version).ready()
    drafts = drafted = steps = 0
    positions = [0] * k
    prompts = [
        "Please repeat this three times: one two three four five six seven eight nine ten.",
        "Hello there!",
    ]
    for prompt in (*prompts, "다음을 네 번 반복해줘: 하나 둘 셋 넷 다섯 여섯 일곱 여덟 아홉 열"):
        body = engine.chat(prompt, return_token_ids=True).json()
        found = replay(body["prompt_token_ids"], body["choices"][0]["token_ids"], k, propose)
        drafts += found[0]
        drafted += found[1]
        positions = [x + y for x, y in zip(positions, found[2], strict=True)]
        steps += body["usage"]["completion_tokens"] - 1 - sum(found[2])
    assert drafts > 5
    assert sum(positions) > 5
    if version == "0.33.0":
        assert (drafts, drafted) == (steps, k * steps)  # no decode step without K drafts
    else:
        assert drafts < steps
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
    seen = replay(prompt, output[: done + 1], 5, lambda tokens: brute_force(tokens, 5, 5, 5, 4096))
    assert engine.metric("spec_decode_num_accepted_tokens_total") - before == sum(seen[2]) + accepted - 1
