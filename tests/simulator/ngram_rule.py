"""The N-gram rule said as plainly as possible, independent of the engine, and a request replayed by it."""

from __future__ import annotations

from collections.abc import Sequence


def brute_force(tokens: Sequence[int], low: int, high: int, k: int, limit: int) -> list[int]:
    """The rule of the reference page, said as plainly as possible."""
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


def replay(prompt: list[int], output: list[int], low: int, high: int, k: int) -> tuple[int, int, list[int]]:
    """(drafts, draft tokens, accepted per position) of one greedy request, from its token ids alone.

    Exact but for the tokens past the end, which the client does not see: none may be proposed there.
    """
    done = 1
    drafts = drafted = 0
    positions = [0] * k
    while done < len(output):
        draft = brute_force(prompt + output[:done], low, high, k, 4096)
        accepted = 0
        while accepted < len(draft) and done + accepted < len(output) and draft[accepted] == output[done + accepted]:
            positions[accepted] += 1
            accepted += 1
        drafts += bool(draft)
        drafted += len(draft)
        done += accepted + 1
    return drafts, drafted, positions
