"""Is the condition in force? Judgement over what the engine logged and exposed.

An option that was given need not be one that works: vLLM logs the arguments before it builds its
configuration.
So each argument is looked for twice, as parsed and as configured, and "nothing tells" is ``unknown``,
never a pass.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any, Final, Literal

from . import metrics
from .exposition import Exposition, delta
from .log import LogEvidence, Repr, read_value
from .reply import load_json

# ------------------------------------------------------------------------------------------------------
# Side features


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
    given = (log.non_default_args or {}).get("speculative_config")
    return isinstance(given, dict) and bool(given.get("parallel_drafting"))


def _unsupported_sampling(log: LogEvidence) -> Feature:
    if log.unsupported_sampling:
        return _logged(log, "unsupported_sampling")
    if log.engine_config is not None and log.startup_complete:
        # the engine warns while it starts; it started, from the beginning of the log to the end, and did not
        return Feature((), None, "a complete start-up log without the warning")
    return _NOTHING


# ------------------------------------------------------------------------------------------------------
# Arguments


class InForce(StrEnum):
    """Verdict on one argument."""

    IN_FORCE = "in-force"
    DIFFERS = "differs"
    IGNORED = "ignored"
    """Parsed as wanted, and the engine's configuration was not built from it."""
    MISSING = "missing"
    """Not among the parsed arguments, where it would have to be."""
    UNKNOWN = "unknown"
    """Nothing tells; not a pass."""


class Absent(StrEnum):
    """The type of ``ABSENT``: nothing was found. Not None, which an engine may print."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT


@dataclass(frozen=True, slots=True)
class ArgumentEvidence:
    """One argument, wanted against found. ``parsed`` and ``configured`` may be ``ABSENT``."""

    name: str
    wanted: object
    parsed: object
    configured: object
    verdict: InForce
    reason: str
    quote: str | None = None


# argparse destination to the key of the engine's configuration line, where they differ
_CONFIG_KEYS: Final[Mapping[str, str]] = {"max_model_len": "max_seq_len"}
# argparse destination to the label of the cache_config_info series
_CACHE_LABELS: Final[Mapping[str, str]] = {
    "block_size": "block_size",
    "gpu_memory_utilization": "gpu_memory_utilization",
    "kv_cache_memory_bytes": "kv_cache_memory_bytes",
    "kv_cache_dtype": "cache_dtype",
    "enable_prefix_caching": "enable_prefix_caching",
    "num_gpu_blocks_override": "num_gpu_blocks_override",
    "prefix_caching_hash_algo": "prefix_caching_hash_algo",
}
_SPECULATIVE: Final = "speculative_config"
# argparse destination to the field of SpeculativeConfig
_FLAT_SPECULATIVE: Final[Mapping[str, str]] = {
    "spec_method": "method",
    "spec_model": "model",
    "spec_tokens": "num_speculative_tokens",
}
_HIDDEN: Final = "***"
# methods whose configuration line prints the model that the author named
_MODEL_PRINTED: Final = frozenset({"draft_model", "eagle", "eagle3", "medusa", "mlp_speculator", "dflash", "dspark"})


def judge(
    wanted: Mapping[str, object], log: LogEvidence | None, exposition: Exposition | None
) -> list[ArgumentEvidence]:
    """One verdict for each wanted argument (``arguments.wanted``), in its order.

    Without a log everything is unknown. An argument that is not among the parsed ones may equal vLLM's
    default, which it does not print: unknown, unless the configuration tells. One that was parsed as
    wanted and that no line of the configuration shows is in force by what was parsed. Speculation has a
    reader of its own: its default is None, so it must have been parsed, and its configuration is always
    printed.
    """
    return [
        (_judge_speculative if _is_speculative(name) else _judge_plain)(name, value, log, exposition)
        for name, value in wanted.items()
    ]


def _judge_plain(name: str, value: object, log: LogEvidence | None, exposition: Exposition | None) -> ArgumentEvidence:
    configured, where, quote = _configured(name, log, exposition)
    parsed: object = ABSENT
    if log is not None and log.non_default_args is not None:
        parsed = log.non_default_args.get(name, ABSENT)
    fits = None if parsed is ABSENT else same(value, parsed)
    resolved = None if configured is ABSENT else _same_resolved(name, value, configured)

    def verdict(found: InForce, reason: str) -> ArgumentEvidence:
        return ArgumentEvidence(name, value, parsed, configured, found, reason, quote)

    if log is None:
        return verdict(InForce.UNKNOWN, "there is no log")
    if fits is False:
        return verdict(InForce.DIFFERS, f"vLLM parsed {parsed!r}")
    if resolved is True:
        return verdict(InForce.IN_FORCE, f"{where} shows it")
    if resolved is False and fits is True:
        return verdict(InForce.IGNORED, f"parsed as wanted, but {where} shows {configured!r}")
    if resolved is False:
        return verdict(InForce.DIFFERS, f"{where} shows {configured!r}")
    if fits is True:
        return verdict(InForce.IN_FORCE, "parsed as wanted; the engine's configuration does not show this option")
    return verdict(InForce.UNKNOWN, _why_unknown(parsed, log))


def _why_unknown(parsed: object, log: LogEvidence) -> str:
    if log.non_default_args is None:
        return "the log has no line of non-default args"
    if parsed is not ABSENT:
        return f"vLLM prints it as {parsed!r}, which cannot be compared"
    return "not among the non-default args: it equals vLLM's default, or it was not given"


def _configured(name: str, log: LogEvidence | None, exposition: Exposition | None) -> tuple[object, str, str | None]:
    """The value in the engine's configuration or ABSENT, where it stands, and the quote."""
    if log is not None:
        if name == "async_scheduling" and log.async_scheduling is not None:
            return log.async_scheduling == "enabled", "the log", log.quotes.get("async_scheduling")
        if name == "max_num_batched_tokens" and log.max_num_batched_tokens is not None:
            return log.max_num_batched_tokens, "the log", log.quotes.get("max_num_batched_tokens")
        key = _CONFIG_KEYS.get(name, name)
        printed = (log.engine_config or {}).get(key)
        if printed is not None:
            return read_value(printed), "the engine's configuration line", f"{key}={printed}"[:300]
    label = _CACHE_LABELS.get(name)
    if label is not None and exposition is not None:
        values = exposition.label_values(metrics.CACHE_CONFIG_INFO, label)
        if len(values) == 1:
            (value,) = values
            return read_value(value), metrics.CACHE_CONFIG_INFO, f'{label}="{value}"'
    return ABSENT, "", None


# ------------------------------------------------------------------------------------------------------
# Speculation


def _is_speculative(name: str) -> bool:
    return name in _FLAT_SPECULATIVE or name.partition(".")[0] == _SPECULATIVE


def _speculative_fields(name: str, value: object) -> dict[str, object]:
    """The fields of SpeculativeConfig that one argument sets: flat, dotted or whole."""
    if name in _FLAT_SPECULATIVE:
        return {_FLAT_SPECULATIVE[name]: value}
    if "." in name:
        return {name.partition(".")[2].replace("-", "_"): value}
    mapping = _as_mapping(value)
    return {} if mapping is None else {str(key).replace("-", "_"): item for key, item in mapping.items()}


def _judge_speculative(
    name: str, value: object, log: LogEvidence | None, exposition: Exposition | None
) -> ArgumentEvidence:
    found: dict[str, object] = {}
    for key, item in ((log.non_default_args if log else None) or {}).items():
        if _is_speculative(key) and item is not None:
            found |= _speculative_fields(key, item)
    asked = _speculative_fields(name, value)
    whole = name == _SPECULATIVE
    parsed: object = (found or ABSENT) if whole else next((found[key] for key in asked if key in found), ABSENT)
    configured = _configured_speculation(log, asked, whole=whole)
    verdict, reason = _speculative_verdict(asked, found, log)
    quote = log.quotes.get("speculative") if log else None
    return ArgumentEvidence(name, value, parsed, configured, verdict, reason, quote)


def _configured_speculation(log: LogEvidence | None, asked: Mapping[str, object], *, whole: bool) -> object:
    if log is None or (log.speculative is None and not log.speculative_off):
        return ABSENT
    if log.speculative is None:
        return None
    printed = {
        "method": log.speculative.method,
        "model": log.speculative.model,
        "num_speculative_tokens": log.speculative.tokens,
    }
    return printed if whole else next((printed[key] for key in asked if key in printed), ABSENT)


def _speculative_verdict(
    asked: Mapping[str, object], found: Mapping[str, object], log: LogEvidence | None
) -> tuple[InForce, str]:
    if log is None:
        return InForce.UNKNOWN, "there is no log"
    if not asked:
        return InForce.UNKNOWN, "the wanted value is no speculative configuration"
    if log.non_default_args is None:
        return InForce.UNKNOWN, "the log has no line of non-default args"
    if lacking := [key for key in asked if key not in found]:
        return InForce.MISSING, f"not among the non-default args: {', '.join(lacking)}"
    for key, item in asked.items():
        if same(item, found[key]) is False:
            return InForce.DIFFERS, f"vLLM parsed {key} {found[key]!r}"
    if log.speculative_off:
        return (
            InForce.IGNORED,
            "parsed as wanted, but the engine's configuration says speculative_config=None",
        )
    if log.speculative is None:
        return InForce.UNKNOWN, "parsed as wanted; the log has no line of the engine's configuration"
    if unlike := _unlike_configured(asked, log):
        return InForce.DIFFERS, unlike
    if uncertain := [key for key, item in asked.items() if same(item, found[key]) is None]:
        return InForce.UNKNOWN, f"what vLLM printed cannot be compared: {', '.join(uncertain)}"
    return InForce.IN_FORCE, "parsed as wanted, and the engine's configuration shows the speculation"


def _unlike_configured(asked: Mapping[str, object], log: LogEvidence) -> str | None:
    """How the printed configuration differs from what was asked; None if in nothing that it prints."""
    printed = log.speculative
    if printed is None:
        return None
    method = asked.get("method")
    # vLLM rewrites its model-specific names to the general one
    if (
        method is not None
        and str(method) != printed.method
        and not (printed.method == "mtp" and str(method).endswith("_mtp"))
    ):
        return f"the engine speculates by the method {printed.method!r}"
    tokens = asked.get("num_speculative_tokens")
    if tokens is not None and same(tokens, printed.tokens) is not True:
        return f"the engine drafts {printed.tokens} tokens"
    model = asked.get("model")
    if model is not None and printed.method in _MODEL_PRINTED and model != printed.model:
        return f"the engine drafts with the model {printed.model!r}"
    return None


# ------------------------------------------------------------------------------------------------------
# Comparison of values

_SUFFIXES: Final[Mapping[str, int]] = {
    **{letter: 1000**power for power, letter in enumerate("kmgt", 1)},
    **{letter: 1024**power for power, letter in enumerate("KMGT", 1)},
}


def same(wanted: object, found: object) -> bool | None:
    """Whether a found value is the wanted one, in any representation; None where it cannot be told.

    Tolerated: ``[x]`` and x; ``"4k"`` = 4000 and ``"4K"`` = 4096 (vLLM's own suffixes); ``"0.30"`` = 0.3;
    keys of mappings with ``-`` or ``_``; a mapping as JSON text; a comma list as text. A boolean equals a
    boolean (or its printed word) only.
    """
    if isinstance(found, Repr) or found == _HIDDEN:
        return None
    mapping, other = _as_mapping(wanted), _as_mapping(found)
    if mapping is not None or other is not None:
        return None if mapping is None or other is None else _same_mapping(mapping, other)
    if isinstance(wanted, list | tuple) or isinstance(found, list | tuple):
        return _same_list(wanted, found)
    if isinstance(wanted, bool) or isinstance(found, bool):
        return _as_bool(wanted) is not None and _as_bool(wanted) == _as_bool(found)
    if wanted is None or found is None:
        return wanted is found
    number, other_number = _as_number(wanted), _as_number(found)
    if number is not None and other_number is not None:
        return number == other_number
    return str(wanted) == str(found)


def _same_resolved(name: str, wanted: object, configured: object) -> bool | None:
    """``same`` for a value that the engine may have resolved from the wanted one."""
    if wanted == "auto" or (name == "max_model_len" and wanted == -1):
        return None  # the engine's choice: any value is what was wanted
    if name == "dtype":
        return _dtype(wanted) == _dtype(configured)
    if name == "served_model_name" and isinstance(wanted, list | tuple) and wanted:
        return same(wanted[0], configured)  # the configuration has the first name only
    return same(wanted, configured)


def _dtype(value: object) -> str:
    name = str(value).removeprefix("torch.")
    return {"half": "float16", "float": "float32"}.get(name, name)


def _as_mapping(value: object) -> Mapping[Any, object] | None:
    if isinstance(value, Mapping):
        return value
    if isinstance(value, str) and value.lstrip().startswith("{"):
        for read in (load_json, ast.literal_eval):
            try:
                parsed = read(value)
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                continue
            if isinstance(parsed, dict):
                return parsed
    return None


def _same_mapping(wanted: Mapping[Any, object], found: Mapping[Any, object]) -> bool | None:
    left = {str(key).replace("-", "_"): value for key, value in wanted.items()}
    right = {str(key).replace("-", "_"): value for key, value in found.items()}
    if left.keys() != right.keys():
        return False
    return _all(same(value, right[key]) for key, value in left.items())


def _same_list(wanted: object, found: object) -> bool | None:
    left, right = _as_list(wanted, found), _as_list(found, wanted)
    if len(left) != len(right):
        return False
    return _all(same(item, other) for item, other in zip(left, right, strict=True))


def _as_list(value: object, other: object) -> list[object]:
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, str) and isinstance(other, list | tuple) and len(other) > 1:
        return list(value.split(","))
    return [value]


def _all(verdicts: Any) -> bool | None:
    """Like all(), with None (cannot be told) weaker than False."""
    known = list(verdicts)
    return False if False in known else None if None in known else True


def _as_bool(value: object) -> bool | None:
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value.lower()) if isinstance(value, str) else None


def _as_number(value: object) -> Decimal | None:
    if isinstance(value, int | float):
        return Decimal(repr(float(value)) if isinstance(value, float) else value)
    if not isinstance(value, str):
        return None
    text = value.strip()
    factor = _SUFFIXES.get(text[-1:], 1)
    if not re.fullmatch(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", text if factor == 1 else text[:-1]):
        return None
    try:
        return Decimal(text if factor == 1 else text[:-1]) * factor
    except InvalidOperation:
        return None


# ------------------------------------------------------------------------------------------------------
# Did it speculate?


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
