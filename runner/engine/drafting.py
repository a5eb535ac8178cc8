"""Did the engine speculate? By its counters, and by whether it must have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from . import metrics
from .exposition import Exposition, delta


@dataclass(frozen=True, slots=True)
class CountersMoved:
    """Whether the engine drafted in a window.

    ``absent``: the counters are in neither scrape (speculation off). ``unknown``: no change can be told
    (a reset, a counter in one scrape only, several models); ``detail`` says which. Figures are None where not
    known.
    """

    state: Literal["moved", "flat", "absent", "unknown"]
    drafts: float | None
    draft_tokens: float | None
    accepted_tokens: float | None
    detail: str = ""


def speculation_counters(before: Exposition, after: Exposition, /, **labels: str) -> CountersMoved:
    """Whether the draft counters moved between two scrapes, over the series that carry ``labels``."""
    names = (metrics.SPEC_DRAFTS, metrics.SPEC_DRAFT_TOKENS, metrics.SPEC_ACCEPTED_TOKENS)
    drafts, tokens, accepted = (delta(before, after, name, **labels) for name in names)
    figures = (drafts.value, tokens.value, accepted.value)
    if drafts.value is None:
        return CountersMoved("absent" if drafts.reason == "absent" else "unknown", *figures, drafts.detail)
    return CountersMoved("moved" if drafts.value > 0 else "flat", *figures)


RECURRING: Final = 64
"""Characters of a recurring text in which any tokenizer finds an n-gram that recurs."""
_VARIED: Final = 8
# Methods that draft at every decode step, whatever the text.
_ALWAYS: Final = frozenset({"draft_model", "eagle", "eagle3", "mtp", "medusa", "mlp_speculator", "dflash", "dspark"})
_LOOKUP: Final = frozenset({"ngram", "ngram_gpu"})


def certainly_drafts(method: str, texts: Sequence[tuple[str, str]]) -> Literal[True] | None:
    """Whether speculation by ``method`` must have drafted for one of these (prompt, output) pairs.

    True makes flat counters a failure; None is "cannot be known" (no method's silence can be proved from
    text).

    ngram: ``RECURRING`` characters of an output stand earlier in its prompt or output. A draft-model-like
    method: an output is longer than any one token. Both with at least 8 different characters among them, for
    vocabularies have single tokens for long runs of blanks, dashes and the like.
    """
    if method in _LOOKUP:
        must: Callable[[str, str], bool] = _recurs
    elif method in _ALWAYS or method.endswith("_mtp"):
        must = _long
    else:
        return None
    return True if any(must(prompt, output) for prompt, output in texts) else None


def _long(prompt: str, output: str) -> bool:
    return len(output) >= RECURRING and len(set(output)) >= _VARIED


def _recurs(prompt: str, output: str) -> bool:
    seen = {prompt[at : at + RECURRING] for at in range(len(prompt) - RECURRING + 1)}
    for at in range(len(output) - RECURRING + 1):
        window = output[at : at + RECURRING]
        if window in seen and len(set(window)) >= _VARIED:
            return True
        seen.add(window)
    return False
