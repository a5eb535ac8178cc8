"""Is the condition in force? Judgement over what the engine logged and exposed.

An option that was given need not be one that works: vLLM logs the arguments before it builds its configuration.
So each argument is looked for twice, as parsed and as configured, and "nothing tells" is ``unknown``, never a pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from . import metrics
from .exposition import Exposition
from .log import SPECULATIVE_KEY, LogEvidence
from .printed import read_value
from .values import as_mapping, same, same_resolved


class InForce(StrEnum):
    """Verdict on one argument."""

    IN_FORCE = "in-force"
    """The engine's configuration shows it."""
    PARSED = "parsed"
    """Parsed as wanted; no line of the configuration and no series shows this option at all."""
    DIFFERS = "differs"
    IGNORED = "ignored"
    """Parsed as wanted, and the engine's configuration was not built from it."""
    MISSING = "missing"
    """Not among the parsed arguments, where it would have to be."""
    UNKNOWN = "unknown"
    """Nothing tells; not a pass."""


CONTRADICTING: Final = (InForce.DIFFERS, InForce.IGNORED, InForce.MISSING)
"""Verdicts that speak against measuring under the condition."""


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
# argparse destination to the field of SpeculativeConfig
_FLAT_SPECULATIVE: Final[Mapping[str, str]] = {
    "spec_method": "method",
    "spec_model": "model",
    "spec_tokens": "num_speculative_tokens",
}
# methods whose configuration line prints the model that the author named
_MODEL_PRINTED: Final = frozenset({"draft_model", "eagle", "eagle3", "medusa", "mlp_speculator", "dflash", "dspark"})


def judge(
    wanted: Mapping[str, object], log: LogEvidence | None, exposition: Exposition | None
) -> list[ArgumentEvidence]:
    """One verdict for each wanted argument (``arguments.wanted``), in its order.

    Without a log everything is unknown. An argument that is not among the parsed ones may equal vLLM's
    default, which it does not print: unknown, unless the configuration tells. One that was parsed as
    wanted and that nothing shows beyond that is ``parsed``, which is less than in force. Speculation has a
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
    resolved = None if configured is ABSENT else same_resolved(name, value, configured)

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
    if fits is True and configured is not ABSENT:
        return verdict(InForce.UNKNOWN, f"parsed as wanted; {where} shows {configured!r}, which may be its resolution")
    if fits is True:
        return verdict(InForce.PARSED, "parsed as wanted; the engine's configuration does not show this option")
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
    return name in _FLAT_SPECULATIVE or name.partition(".")[0] == SPECULATIVE_KEY


def _speculative_fields(name: str, value: object) -> dict[str, object]:
    """The fields of SpeculativeConfig that one argument sets: flat, dotted or whole."""
    if name in _FLAT_SPECULATIVE:
        return {_FLAT_SPECULATIVE[name]: value}
    if "." in name:
        return {name.partition(".")[2].replace("-", "_"): value}
    mapping = as_mapping(value)
    return {} if mapping is None else {str(key).replace("-", "_"): item for key, item in mapping.items()}


def _judge_speculative(
    name: str, value: object, log: LogEvidence | None, exposition: Exposition | None
) -> ArgumentEvidence:
    found: dict[str, object] = {}
    for key, item in ((log.non_default_args if log else None) or {}).items():
        if _is_speculative(key) and item is not None:
            found |= _speculative_fields(key, item)
    asked = _speculative_fields(name, value)
    whole = name == SPECULATIVE_KEY
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
