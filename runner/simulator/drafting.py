"""How an engine drafts, chosen once from its options and its model runner."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from runner.simulator.ngram import Drafter, EarliestMatch, LatestMatch, Lookup, PaddedEarliestMatch
from runner.simulator.sequence import Sequence
from runner.simulator.speculation import Speculation


class Drafting:
    """Model Runner V2: a kernel drafts for each request by itself."""

    def __init__(self, lookup: Lookup, make: Callable[[Lookup], Drafter]) -> None:
        self._lookup = lookup
        self._make = make

    @property
    def tokens(self) -> int:
        """K."""
        return self._lookup.tokens

    def drafter(self) -> Drafter:
        """A drafter for one new request."""
        return self._make(self._lookup)

    def draft(self, sampled: Iterable[Sequence], longest: int) -> None:
        """Give every request that sampled in this step its drafts for the next one.

        `longest`: tokens of the longest sequence in the step, its drafts and unfinished prompts counted.
        """
        for sequence in sampled:
            assert sequence.drafter is not None
            sequence.drafts = sequence.drafter.propose(sequence.tokens)


class V1Drafting(Drafting):
    """Model Runner V1, with its length cliff: one sequence too near the limit, and the drafts of all are K zeros.

    Source: vLLM 0.26.0, ``gpu_model_runner.py``, ``_input_fits_in_drafter``.
    """

    def draft(self, sampled: Iterable[Sequence], longest: int) -> None:
        if longest + self.tokens <= self._lookup.max_model_len:
            super().draft(sampled, longest)
            return
        for sequence in sampled:
            sequence.drafts = [0] * self.tokens


def of(speculation: Speculation, runner: str, max_model_len: int) -> Drafting:
    """The drafting of an engine; `runner` is "V1" or "V2"."""
    lookup = Lookup(speculation.prompt_lookup_min, speculation.prompt_lookup_max, speculation.tokens, max_model_len)
    if runner == "V2":
        return Drafting(lookup, LatestMatch)
    return V1Drafting(lookup, PaddedEarliestMatch if speculation.method == "ngram_gpu" else EarliestMatch)
