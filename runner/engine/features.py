"""The effective side features of an arm: what the engine does besides its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from .exposition import Exposition
from .log import SPECULATIVE_KEY, LogEvidence
from .printed import read_value
from .server_info import ServerInfo
from .sources import SERVER_INFO


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


def features(
    log: LogEvidence | None, exposition: Exposition | None = None, info: ServerInfo | None = None
) -> dict[str, Feature]:
    """The effective side features of an arm, one for each name of ``FEATURES``.

    ``exposition`` is for later versions: none of today's features can be read from a scrape. Where the log and the
    server's configuration tell two values, nothing tells: the value is None, and the quote has both.
    """
    logged = _NONE if log is None else _of_log(log)
    informed = _NONE if info is None else _of_info(info)
    found = {name: _one(logged[name], informed[name]) for name in FEATURES}
    if logged[MODEL_RUNNER].value is not None:
        found[MODEL_RUNNER] = logged[MODEL_RUNNER]  # the other is what was asked for, and this is what came of it
    return found


_NONE: Final = dict.fromkeys(FEATURES, _NOTHING)


def _one(logged: Feature, informed: Feature) -> Feature:
    if logged.value is None or informed.value in (None, logged.value):
        return logged if logged.value is not None else informed
    return Feature(None, f"{logged.quote}; {informed.quote}", f"{logged.source} and {informed.source} disagree")


def _of_log(log: LogEvidence) -> dict[str, Feature]:
    return {
        ASYNC_SCHEDULING: _logged(log, "async_scheduling"),
        MODEL_RUNNER: _logged(log, "model_runner"),
        MAX_NUM_BATCHED_TOKENS: _token_budget(log),
        UNSUPPORTED_SAMPLING: _unsupported_sampling(log),
    }


def _of_info(info: ServerInfo) -> dict[str, Feature]:
    """What the server's configuration states. It has no word for a runner that nobody forced, and none for options
    without effect."""
    method = info.speculative.method if info.speculative else None
    # The budget of a step is stated beside the batch's with speculation; without it they are one.
    budget = info.max_num_scheduled_tokens
    if budget is None and method not in _SLOT_METHODS and not info.drafting.get("parallel_drafting"):
        budget = info.max_num_batched_tokens
    field = "max_num_batched_tokens" if info.max_num_scheduled_tokens is None else "max_num_scheduled_tokens"
    return {
        ASYNC_SCHEDULING: _informed(info.async_scheduling, "async_scheduling", info.async_scheduling == "enabled"),
        MODEL_RUNNER: _informed(info.forced_runner, "VLLM_USE_V2_MODEL_RUNNER", info.forced_runner == "V2"),
        MAX_NUM_BATCHED_TOKENS: _informed(budget, field, budget),
        UNSUPPORTED_SAMPLING: _NOTHING,
    }


def _informed(value: str | int | None, field: str, stated: object) -> Feature:
    return _NOTHING if value is None else Feature(value, f"{SERVER_INFO}: {field}: {stated}", SERVER_INFO)


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
