"""The N-gram rules said as plainly as possible, independent of the engine, and a request replayed by them."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def brute_force(tokens: Sequence[int], low: int, high: int, k: int, limit: int) -> list[int]:
    """Model Runner V1: the earliest place, cut at the end of the sequence and at the model's length."""
    n = len(tokens)
    k = min(k, limit - n)
    if k <= 0:
        return []
    for m in range(high, low - 1, -1):
        if m > n:
            continue
        suffix = list(tokens[n - m :])
        for start in range(n - m):
            if list(tokens[start : start + m]) == suffix:
                return list(tokens[start + m : start + m + k])
    return []


def brute_force_v2(tokens: Sequence[int], low: int, high: int, k: int) -> list[int]:
    """Model Runner V2: the latest place, always k drafts, the last token where there is nothing to copy."""
    n = len(tokens)
    copied: list[int] = []
    for m in range(low, high + 1):  # a longer match replaces a shorter one, a later place an earlier one
        for start in range(n - m):
            if list(tokens[start : start + m]) == list(tokens[n - m : n]):
                copied = list(tokens[start + m : start + m + k])
    while len(copied) < k:
        copied.append(tokens[n - 1])
    return copied


def replay(
    prompt: list[int], output: list[int], k: int, propose: Callable[[list[int]], list[int]]
) -> tuple[int, int, list[int]]:
    """(drafts, draft tokens, accepted per position) of one greedy request, from its token ids alone.

    A draft past the end counts as rejected: what the model would have said there, the client does not see.
    """
    done = 1
    drafts = drafted = 0
    positions = [0] * k
    while done < len(output):
        draft = propose(prompt + output[:done])
        accepted = 0
        while accepted < len(draft) and done + accepted < len(output) and draft[accepted] == output[done + accepted]:
            positions[accepted] += 1
            accepted += 1
        drafts += bool(draft)
        drafted += len(draft)
        done += accepted + 1
    return drafts, drafted, positions
