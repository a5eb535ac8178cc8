"""What a reader found, as a table: each field a value or absent, never a zero in place of what was not said."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from . import metrics
from .evidence import ABSENT, Absent
from .exposition import Delta, Exposition, MixedModelsError, delta
from .features import UNSUPPORTED_SAMPLING, features
from .log import LogEvidence
from .reply import Reply
from .server_info import ServerInfo


@dataclass(frozen=True, slots=True)
class Fact:
    """One field. ``value`` is ``ABSENT`` where the source does not say; ``why``: then, why, where that is known;
    ``quote``: the line it was read from."""

    name: str
    value: object | Absent
    quote: str | None = None
    why: str | None = None


def _fact(name: str, value: object, quote: str | None = None) -> Fact:
    return Fact(name, ABSENT if value is None else value, quote if value is not None else None)


def log_facts(log: LogEvidence) -> list[Fact]:
    """The fields of a log. Two of them say so where there is none: ``speculative`` off, options without effect."""
    speculative = "off" if log.speculative_off else log.speculative
    options = features(log)[UNSUPPORTED_SAMPLING].value
    quoted = log.quotes.get
    return [
        _fact("version", log.version, quoted("version")),
        _fact("non_default_args", log.non_default_args, quoted("non_default_args")),
        _fact("engine_config", log.engine_config, quoted("engine_config")),
        _fact("speculative", speculative, quoted("speculative")),
        *(
            _fact(name, getattr(log, name), quoted(name))
            for name in (
                "async_scheduling",
                "async_reason",
                "model_runner",
                "model_runner_reason",
                "max_num_batched_tokens",
                "max_num_scheduled_tokens",
            )
        ),
        _fact("unsupported_sampling", "none" if options == () else options, quoted("unsupported_sampling")),
        *(_fact(name, getattr(log, name), quoted(name)) for name in _SIZES),
        _fact("startup_complete", log.startup_complete or None, quoted("startup_complete")),
        *(Fact("error", words) for words in log.errors),
        *([Fact("more errors", log.more_errors)] if log.more_errors else []),
    ]


_SIZES: Final = ("kv_cache_tokens", "max_concurrency", "model_memory_gib")


def server_info_facts(info: ServerInfo) -> list[Fact]:
    """The fields of a server info."""
    speculative = "off" if info.speculative_off else info.speculative
    rest = [one.name for one in fields(ServerInfo) if one.compare and not one.name.startswith("speculative")]
    return [_fact("speculative", speculative), *(_fact(name, getattr(info, name)) for name in rest)]


_TOTALS: Final = (
    ("running", metrics.RUNNING),
    ("waiting", metrics.WAITING),
    ("finished requests", metrics.REQUEST_SUCCESS),
    ("prompt tokens", metrics.PROMPT_TOKENS),
    ("generated tokens", metrics.GENERATION_TOKENS),
    ("decode steps", metrics.ITL_COUNT),
    ("preemptions", metrics.PREEMPTIONS),
    ("drafts", metrics.SPEC_DRAFTS),
    ("draft tokens", metrics.SPEC_DRAFT_TOKENS),
    ("accepted tokens", metrics.SPEC_ACCEPTED_TOKENS),
)
_COUNTERS: Final = tuple(entry for entry in _TOTALS if entry[0] not in ("running", "waiting"))


def scrape_facts(scrape: Exposition) -> list[Fact]:
    """Whose scrape it is, and the sums that a comparison rests on."""
    models = scrape.label_values(metrics.RUNNING, metrics.MODEL_LABEL)
    engines = scrape.label_values(metrics.RUNNING, metrics.ENGINE_LABEL)
    return [
        _fact("model", ", ".join(sorted(models)) or None),
        _fact("engines", len(engines) or None),
        _fact("process start", scrape.total(metrics.PROCESS_START)),
        *(_sum(scrape, label, name) for label, name in _TOTALS),
    ]


def _sum(scrape: Exposition, label: str, name: str) -> Fact:
    try:
        return _fact(label, scrape.total(name), name)
    except MixedModelsError as error:
        return Fact(label, ABSENT, why=str(error))


def window_facts(before: Exposition, after: Exposition) -> list[Fact]:
    """The changes between two scrapes of one process."""
    return [_change(label, delta(before, after, name), name) for label, name in _COUNTERS]


def _change(label: str, found: Delta, name: str) -> Fact:
    if found.value is None:
        return Fact(label, ABSENT, why=None if found.reason == "absent" else f"{found.reason}: {found.detail}")
    return Fact(label, found.value, name)


def reply_facts(reply: Reply) -> list[Fact]:
    """What became of one reply, and its tokens by each way of counting."""
    usage = reply.usage
    return [
        Fact("verdict", f"{reply.verdict}: {reply.detail}" if reply.detail else str(reply.verdict)),
        _fact("model", reply.model),
        _fact("finish reason", reply.finish_reason),
        _fact("prompt tokens", usage.prompt if usage else None),
        _fact("completion tokens", usage.completion if usage else None),
        _fact("cached tokens", usage.cached if usage else None),
        _fact("prompt token ids", None if reply.prompt_token_ids is None else len(reply.prompt_token_ids)),
        _fact("token ids", None if reply.token_ids is None else len(reply.token_ids)),
        _fact("tokens by event", None if reply.events_tokens is None else sum(reply.events_tokens)),
        _fact("events with tokens", len(reply.event_ns) or None),
    ]


def token_counts(reply: Reply) -> set[int]:
    """The completion's tokens by every way of counting that the reply allows: more than one is a contradiction."""
    ways = (
        reply.usage.completion if reply.usage else None,
        None if reply.token_ids is None else len(reply.token_ids),
        None if reply.events_tokens is None else sum(reply.events_tokens),
    )
    return {way for way in ways if way is not None}
