"""The effective side features of an arm: what the engine does besides its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from .exposition import Exposition
from .log import SPECULATIVE_KEY, LogEvidence
from .printed import read_value


@dataclass(frozen=True, slots=True)
class Feature:
    """A side feature of an arm as it is in effect.

    ``value`` None is absent: nothing tells. An empty tuple is known to be none. ``source``: where it was
    read.
    """

    value: str | int | tuple[str, ...] | None
    quote: str | None
    source: str | None


ASYNC_SCHEDULING: Final = "async-scheduling"
MODEL_RUNNER: Final = "model-runner"
MAX_NUM_BATCHED_TOKENS: Final = "max-num-batched-tokens"
UNSUPPORTED_SAMPLING: Final = "unsupported-sampling"

FEATURES: Final[Mapping[str, tuple[str, ...] | Literal["integer", "options"]]] = {
    ASYNC_SCHEDULING: ("enabled", "disabled"),
    MODEL_RUNNER: ("V1", "V2"),
    MAX_NUM_BATCHED_TOKENS: "integer",
    UNSUPPORTED_SAMPLING: "options",
}
"""Known side features to their values: these words, an integer (tokens), or names of request options."""

_NOTHING: Final = Feature(None, None, None)
# Methods whose drafts take slots of the token budget (0.26.0): without the warning the effective one is
# not known.
_SLOT_METHODS: Final = frozenset({"draft_model", "dflash", "dspark"})


def features(log: LogEvidence | None, exposition: Exposition | None = None) -> dict[str, Feature]:
    """The effective side features of an arm, one for each name of ``FEATURES``.

    ``exposition`` is for later versions: none of today's features can be read from a scrape.
    """
    if log is None:
        return dict.fromkeys(FEATURES, _NOTHING)
    return {
        ASYNC_SCHEDULING: _logged(log, "async_scheduling"),
        MODEL_RUNNER: _logged(log, "model_runner"),
        MAX_NUM_BATCHED_TOKENS: _token_budget(log),
        UNSUPPORTED_SAMPLING: _unsupported_sampling(log),
    }


def _logged(log: LogEvidence, field: str) -> Feature:
    value = getattr(log, field)
    return _NOTHING if value is None else Feature(value, log.quotes.get(field), "log")


def _token_budget(log: LogEvidence) -> Feature:
    """Tokens a step may schedule.

    The warning's value is the effective one; where it equals what the other arm batches, the warning alone
    is no difference. The INFO line of the batched tokens is not printed at the default of the platform;
    then the parsed argument tells, and at last the upper end of the compile ranges, which is built from
    the same number (not with methods whose drafts extend it).
    """
    if log.max_num_scheduled_tokens is not None:
        return _logged(log, "max_num_scheduled_tokens")
    method = log.speculative.method if log.speculative else None
    if method in _SLOT_METHODS or _drafts_in_parallel(log):
        return _NOTHING
    if log.max_num_batched_tokens is not None:
        return _logged(log, "max_num_batched_tokens")
    parsed = (log.non_default_args or {}).get("max_num_batched_tokens")
    if isinstance(parsed, int) and not isinstance(parsed, bool):
        return Feature(parsed, f"non-default args: 'max_num_batched_tokens': {parsed}", "non-default args")
    if method in (None, "ngram"):
        compilation = read_value((log.engine_config or {}).get("compilation_config", ""))
        ends = compilation.get("compile_ranges_endpoints") if isinstance(compilation, dict) else None
        if isinstance(ends, list) and ends and all(isinstance(end, int) for end in ends):
            return Feature(max(ends), f"compile_ranges_endpoints: {ends}", "engine config")
    return _NOTHING


def _drafts_in_parallel(log: LogEvidence) -> bool:
    given = (log.non_default_args or {}).get(SPECULATIVE_KEY)
    return isinstance(given, dict) and bool(given.get("parallel_drafting"))


def _unsupported_sampling(log: LogEvidence) -> Feature:
    if log.unsupported_sampling:
        return _logged(log, "unsupported_sampling")
    if log.engine_config is not None and log.startup_complete:
        # the engine warns while it starts; it started, from the beginning of the log to the end, and did not
        return Feature((), None, "a complete start-up log without the warning")
    return _NOTHING
