"""N-gram drafts as vLLM 0.26.0 proposes them (method ``ngram``).

Rule: let m be the largest length in [minimum, maximum] for which the last m tokens also occur ending
earlier in the same sequence (overlap allowed). The draft is what followed the *earliest* such occurrence,
at most k tokens, cut at the end of the sequence. No occurrence, no draft.
"""

from __future__ import annotations

from collections.abc import Sequence


def propose(tokens: Sequence[int], minimum: int, maximum: int, k: int, max_model_len: int) -> list[int]:
    """Draft tokens for a whole sequence (prompt and output): 0 to k of them.

    Reads the sequence reversed: the longest suffix match that ends at position i is the longest common
    prefix of the reversed sequence and of its own tail, which the Z-function gives in linear time.
    """
    length = len(tokens)
    k = min(k, max_model_len - length)
    if length < minimum or k <= 0:
        return []
    start = _match_end(tokens, minimum, maximum)
    return [] if start is None else list(tokens[start : start + k])


def _match_end(tokens: Sequence[int], minimum: int, maximum: int) -> int | None:
    length = len(tokens)
    text = tokens[::-1]
    best = minimum - 1
    end = None
    z = [0] * length
    left = right = 0
    for i in range(1, length):
        reach = min(right - i, z[i - left]) if i < right else 0
        while i + reach < length and text[reach] == text[i + reach]:
            reach += 1
        if i + reach > right:
            left, right = i, i + reach
        z[i] = reach
        matched = min(reach, maximum)
        # ">=": a later i is an earlier place in the sequence, which wins a tie.
        if matched > best or (matched == best and end is not None):
            best, end = matched, length - i
    return end


class Index:
    """The same proposal for a sequence that only grows, in constant time per token.

    Keeps the earliest end of every m-gram for each m of the window; ``propose`` agrees with :func:`propose`
    (tests/simulator compares the two).
    """

    def __init__(self, minimum: int, maximum: int) -> None:
        self._lengths = range(maximum, minimum - 1, -1)
        self._minimum = minimum
        self._first_end: dict[int, dict[tuple[int, ...], int]] = {m: {} for m in self._lengths}
        self._indexed = 0

    def propose(self, tokens: Sequence[int], k: int, max_model_len: int) -> list[int]:
        """Draft tokens; `tokens` must extend what earlier calls were given."""
        length = len(tokens)
        for m in self._lengths:
            ends = self._first_end[m]
            # Only grams that end before the last token: a suffix must not match itself.
            for end in range(max(m, self._indexed), length):
                ends.setdefault(tuple(tokens[end - m : end]), end)
        self._indexed = length
        k = min(k, max_model_len - length)
        if k <= 0 or length < self._minimum:
            return []
        for m in self._lengths:
            found = self._first_end[m].get(tuple(tokens[-m:])) if m <= length else None
            if found is not None:
                return list(tokens[found : found + k])
        return []
