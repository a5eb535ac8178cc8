"""N-gram drafters: what is proposed for one growing sequence, by the rules of two generations of vLLM.

All look for m, the largest length of a window for which the last m tokens of the sequence (prompt and output) also
occur ending earlier in it; overlap with the suffix itself is allowed. What followed that place is the draft.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

PADDING = -1  # a draft token that never matches


@dataclass(frozen=True, slots=True)
class Lookup:
    """What bounds a drafter. `minimum` and `maximum`: the window of m; `tokens`: K; lengths in tokens."""

    minimum: int
    maximum: int
    tokens: int
    max_model_len: int


class Drafter(Protocol):
    """Drafts for one sequence that only grows."""

    def propose(self, tokens: Sequence[int]) -> list[int]:
        """Draft tokens, K at most. `tokens` extends what earlier calls were given."""


class _Occurrences:
    """For every m of the window the place behind each m-gram's earliest occurrence, in constant time a token."""

    def __init__(self, lookup: Lookup) -> None:
        self._lengths = range(lookup.maximum, lookup.minimum - 1, -1)
        self._ends: dict[int, dict[tuple[int, ...], int]] = {m: {} for m in self._lengths}
        self._noted = 0

    def after_suffix(self, tokens: Sequence[int]) -> int | None:
        """Index of the token that followed the suffix where it occurred before; None if it never did."""
        length = len(tokens)
        for m in self._lengths:
            ends = self._ends[m]
            # Only grams that end before the last token: a suffix must not match itself.
            for end in range(max(m, self._noted), length):
                self._note(ends, tuple(tokens[end - m : end]), end)
        self._noted = length
        for m in self._lengths:
            found = self._ends[m].get(tuple(tokens[-m:])) if m <= length else None
            if found is not None:
                return found
        return None

    def _note(self, ends: dict[tuple[int, ...], int], gram: tuple[int, ...], end: int) -> None:
        ends.setdefault(gram, end)


class _LatestOccurrences(_Occurrences):
    def _note(self, ends: dict[tuple[int, ...], int], gram: tuple[int, ...], end: int) -> None:
        ends[gram] = end


class EarliestMatch:
    """Method ``ngram`` on Model Runner V1: the earliest occurrence, cut at the end of the sequence and at the model's
    length. No occurrence, no draft. Source: vLLM 0.26.0, ``v1/spec_decode/ngram_proposer.py``.
    """

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._occurrences = _Occurrences(lookup)

    def propose(self, tokens: Sequence[int]) -> list[int]:
        start = self._occurrences.after_suffix(tokens)
        if start is None:
            return []
        most = max(0, min(self._lookup.tokens, self._lookup.max_model_len - len(tokens)))
        return list(tokens[start : start + most])


class PaddedEarliestMatch(EarliestMatch):
    """Method ``ngram_gpu`` on Model Runner V1: K drafts every time, those that were not found never match.

    Source: vLLM 0.26.0, ``v1/core/sched/async_scheduler.py``, which books K before it knows what was found.
    """

    def propose(self, tokens: Sequence[int]) -> list[int]:
        found = super().propose(tokens)
        return found + [PADDING] * (self._lookup.tokens - len(found))


class LatestMatch:
    """Both methods on Model Runner V2: the latest occurrence, K drafts every time; the last token fills what was not
    found, and may by chance be right. Source: vLLM 0.33.0, ``gpu/spec_decode/ngram/speculator.py``.
    """

    def __init__(self, lookup: Lookup) -> None:
        self._tokens = lookup.tokens
        self._occurrences = _LatestOccurrences(lookup)

    def propose(self, tokens: Sequence[int]) -> list[int]:
        start = self._occurrences.after_suffix(tokens)
        found = [] if start is None else list(tokens[start : start + self._tokens])
        return found + [tokens[-1]] * (self._tokens - len(found))
