"""Where an engine's configuration can be seen, and what each place shows of one argument."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from . import metrics, server_info
from .exposition import Exposition
from .log import LogEvidence
from .printed import Repr, read_value
from .served import MODELS_PATH, ServedModel
from .server_info import ServerInfo

LOG: Final = "the log"
LOG_CONFIGURATION: Final = "the engine's configuration line"
SERVER_INFO: Final = server_info.PATH
MODELS: Final = MODELS_PATH


@dataclass(frozen=True, slots=True)
class Sources:
    """What was read of one engine; None where there is no such source."""

    log: LogEvidence | None
    exposition: Exposition | None
    info: ServerInfo | None = None
    models: tuple[ServedModel, ...] | None = None


@dataclass(frozen=True, slots=True)
class Shown:
    """A value of the engine's configuration as one source shows it; ``quote`` in the source's own words."""

    value: object
    source: str
    quote: str | None


# argparse destination to the key of the engine's configuration line, where they differ
_CONFIG_KEYS: Final[Mapping[str, str]] = {"max_model_len": "max_seq_len"}
# what vLLM may print as it resolved it: offline, a name becomes the path of its snapshot
_RESOLVED: Final = frozenset({"model", "tokenizer"})
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
# argparse destination to the field of the configuration's sections, where they differ
_FIELDS: Final[Mapping[str, str]] = {"kv_cache_dtype": "cache_dtype", "scheduling_policy": "policy"}


def shown(name: str, sources: Sources) -> list[Shown]:
    """What the sources show of an argument (by its destination), the most telling first."""
    found = (
        _logged(name, sources.log),
        _labelled(name, sources.exposition),
        _informed(name, sources.info),
        _served(name, sources.models),
    )
    return [one for one in found if one is not None]


def _logged(name: str, log: LogEvidence | None) -> Shown | None:
    if log is None:
        return None
    if name == "async_scheduling" and log.async_scheduling is not None:
        return Shown(log.async_scheduling == "enabled", LOG, log.quotes.get("async_scheduling"))
    if name == "max_num_batched_tokens" and log.max_num_batched_tokens is not None:
        return Shown(log.max_num_batched_tokens, LOG, log.quotes.get("max_num_batched_tokens"))
    key = _CONFIG_KEYS.get(name, name)
    printed = (log.engine_config or {}).get(key)
    if printed is None:
        return None
    value = read_value(printed)
    if name in _RESOLVED and isinstance(value, str):
        value = Repr(value)
    return Shown(value, LOG_CONFIGURATION, f"{key}={printed}"[:300])


def _labelled(name: str, exposition: Exposition | None) -> Shown | None:
    label = _CACHE_LABELS.get(name)
    values = exposition.label_values(metrics.CACHE_CONFIG_INFO, label) if label and exposition else frozenset()
    if len(values) != 1:
        return None
    (value,) = values
    return Shown(read_value(value), metrics.CACHE_CONFIG_INFO, f'{label}="{value}"')


def _informed(name: str, info: ServerInfo | None) -> Shown | None:
    field = _FIELDS.get(name, name)
    if info is None or field not in info.options:
        return None
    value = info.options[field]
    return Shown(value, SERVER_INFO, f"{field}: {value}"[:300])


def _served(name: str, models: tuple[ServedModel, ...] | None) -> Shown | None:
    """Of the model itself, under all of its names; an adapter's entry says nothing of the engine."""
    own = [one for one in models or () if one.parent is None]
    if name == "served_model_name":
        names = [one.id for one in own]
        return Shown(names, MODELS, f"id: {', '.join(names)}"[:300]) if names else None
    field = {"model": "root", "max_model_len": "max_model_len"}.get(name)
    values = {getattr(one, field) for one in own} if field is not None else set()
    if len(values) != 1 or None in values:
        return None
    (value,) = values
    return Shown(value, MODELS, f"{field}: {value}"[:300])
