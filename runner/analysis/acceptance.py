"""Speculative decoding by its counters: drafts, acceptance, positions."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from runner.analysis.counters import summed_delta
from runner.analysis.value import Absent, Value, ratio
from runner.engine import metrics
from runner.record.record import Record, Round


@dataclass(frozen=True, slots=True)
class Drafting:
    """Counters summed over rounds: request-steps with a draft, draft tokens, accepted draft tokens."""

    drafts: Value
    draft_tokens: Value
    accepted: Value

    @property
    def rate(self) -> Value:
        """Acceptance rate: accepted ÷ draft tokens. Absent when nothing was drafted, for 0 ÷ 0 is not 0."""
        if self.contradiction is not None:
            return self.contradiction
        return Absent("no-drafts") if self.draft_tokens == 0 else ratio(self.accepted, self.draft_tokens)

    @property
    def contradiction(self) -> Absent | None:
        """Counters that cannot all be true (vLLM: a draft has a token at least, and no more is accepted than was
        drafted); no figure is made of them."""
        for less, more in ((self.accepted, self.draft_tokens), (self.drafts, self.draft_tokens)):
            if not isinstance(less, Absent) and not isinstance(more, Absent) and less > more:
                return Absent("counters-contradict")
        return None

    @property
    def accepted_per_draft(self) -> Value:
        """Accepted ÷ drafts; the acceptance length of vLLM's log is one more."""
        if self.contradiction is not None:
            return self.contradiction
        return Absent("no-drafts") if self.drafts == 0 else ratio(self.accepted, self.drafts)

    @property
    def tokens_per_draft(self) -> Value:
        """Draft tokens ÷ drafts."""
        return Absent("no-drafts") if self.drafts == 0 else ratio(self.draft_tokens, self.drafts)


def drafting(rounds: Sequence[Round]) -> Drafting:
    """The three counters' changes, summed over rounds."""
    return Drafting(
        drafts=summed_delta(rounds, metrics.SPEC_DRAFTS),
        draft_tokens=summed_delta(rounds, metrics.SPEC_DRAFT_TOKENS),
        accepted=summed_delta(rounds, metrics.SPEC_ACCEPTED_TOKENS),
    )


def accepted_per_position(rounds: Sequence[Round]) -> dict[int, Value] | Absent:
    """Per draft position (0 first), how many drafts had it accepted, summed over rounds.

    A position's counter counts every draft accepted at least that far: the values fall with the position, from the
    drafts on. Counters that rise contradict themselves, and none of them is shown.
    """
    positions = {
        int(value)
        for round_ in rounds
        if round_.after is not None
        for value in round_.after.label_values(metrics.SPEC_ACCEPTED_PER_POS, metrics.POSITION_LABEL)
    }
    if not positions:
        return Absent("series-absent", {"name": metrics.SPEC_ACCEPTED_PER_POS})
    counts = {
        position: summed_delta(rounds, metrics.SPEC_ACCEPTED_PER_POS, **{metrics.POSITION_LABEL: str(position)})
        for position in sorted(positions)
    }
    falling = [summed_delta(rounds, metrics.SPEC_DRAFTS), *counts.values()]
    for before, after in itertools.pairwise(falling):
        if not isinstance(before, Absent) and not isinstance(after, Absent) and after > before:
            return dict.fromkeys(counts, Absent("counters-contradict"))
    return counts


def tokens_per_decode_step(rounds: Sequence[Round]) -> Value:
    """(Δgeneration tokens − Δfirst tokens) ÷ Δdecode steps: the gain of speculation that needs no draft counter
    and has one meaning in every version (a decode step is one sample of the inter-token histogram)."""
    generated, first, steps = (
        summed_delta(rounds, name) for name in (metrics.GENERATION_TOKENS, metrics.TTFT_COUNT, metrics.ITL_COUNT)
    )
    if isinstance(generated, Absent) or isinstance(first, Absent):
        return generated if isinstance(generated, Absent) else first
    return ratio(generated - first, steps)


def speculates(record: Record, arm: str) -> bool:
    """Whether an arm speculates: its engine says so, or exposes draft counters, which it does not while speculation
    is off. Counters alone do not decide: an engine that speculates and lacks a series must not look like one that
    does not."""
    return any(
        (engine.evidence is not None and engine.evidence.speculation is not None)
        or any(
            round_.after is not None and round_.after.total(metrics.SPEC_DRAFTS) is not None for round_ in engine.rounds
        )
        for engine in record.of_arm(arm)
    )


def speculation_known(record: Record) -> bool:
    """Whether of every arm something tells if it speculates: only then can it be said that none does."""
    return all(
        speculates(record, arm.id)
        or any(one.evidence is not None and one.evidence.speculation_source for one in record.of_arm(arm.id))
        for arm in record.plan.arms
    )
