"""What a server says of its own configuration: ``GET /server_info?config_format=json``, in development mode only.

It is the one source that states async scheduling and the batch sizes as they are in effect, whatever the log says
(0.33.0 logs nothing where async scheduling is on). Nothing in it names the model runner: what an environment
variable chose is told as such, the engine's own choice is not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from .log import SPECULATIVE_KEY, Speculative
from .printed import Repr
from .reply import load_json, one_line

PATH: Final = "/server_info"
"""Where the document is; with ``?config_format=json``, for the text form is another one."""


class ServerInfoError(ValueError):
    """The text is no server info; the message says why."""


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """A field is None where the document does not state it; absent is no default.

    ``speculative``: with the model as the document gives it (0.26.0 writes the method's name for ngram);
    ``speculative_off``: the document states that there is none. ``prompt_lookup``: shortest and longest suffix that
    is looked up. ``max_num_scheduled_tokens`` is stated with speculation only. ``forced_runner``: what
    ``VLLM_USE_V2_MODEL_RUNNER`` asked for; the document has no word for what the engine chose by itself.
    ``options``: the fields of all sections but speculation's, by name, those alone whose name stands in one section;
    text is a ``Repr``, for it may be what the engine made of another word. ``drafting``: speculation's own fields.
    ``environment``: vLLM's variables that have a value; None without that section.
    """

    version: str | None = None
    model: str | None = None
    speculative: Speculative | None = None
    speculative_off: bool = False
    prompt_lookup: tuple[int, int] | None = None
    async_scheduling: Literal["enabled", "disabled"] | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    max_num_scheduled_tokens: int | None = None
    max_model_len: int | None = None
    block_size: int | None = None
    kv_cache_tokens: int | None = None
    prefix_caching: bool | None = None
    enforce_eager: bool | None = None
    forced_runner: Literal["V1", "V2"] | None = None
    options: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    drafting: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    environment: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)


def read_server_info(text: str | bytes) -> ServerInfo:
    """Read the document.

    Raises ServerInfoError for what is no JSON, for the text form of the same path, and for any other document.
    """
    try:
        document = load_json(text)
    except ValueError as error:
        raise ServerInfoError(one_line(f"no JSON: {error}")) from error
    config = document.get("vllm_config") if isinstance(document, Mapping) else None
    if isinstance(config, str):
        raise ServerInfoError("the text form of the configuration; ask with ?config_format=json")
    if not isinstance(config, Mapping):
        raise ServerInfoError("no vllm_config in it")
    model, cache = _section(config, "model_config"), _section(config, "cache_config")
    scheduler, environment = _section(config, "scheduler_config"), _section(document, "vllm_env")
    asynchronous = _boolean(scheduler, "async_scheduling")
    runner = _boolean(environment, "VLLM_USE_V2_MODEL_RUNNER")
    return ServerInfo(
        version=_text(_section(document, "system_env"), "vllm_version"),
        model=_text(model, "model"),
        speculative=_speculative(config),
        speculative_off=SPECULATIVE_KEY in config and config[SPECULATIVE_KEY] is None,
        prompt_lookup=_prompt_lookup(config),
        async_scheduling=None if asynchronous is None else "enabled" if asynchronous else "disabled",
        max_num_seqs=_count(scheduler, "max_num_seqs"),
        max_num_batched_tokens=_count(scheduler, "max_num_batched_tokens"),
        max_num_scheduled_tokens=_count(scheduler, "max_num_scheduled_tokens"),
        max_model_len=_count(model, "max_model_len"),
        block_size=_count(cache, "block_size"),
        kv_cache_tokens=_count(cache, "kv_cache_size_tokens"),
        prefix_caching=_boolean(cache, "enable_prefix_caching"),
        enforce_eager=_boolean(model, "enforce_eager"),
        forced_runner=None if runner is None else "V2" if runner else "V1",
        options=_options(config),
        drafting=_values(_section(config, SPECULATIVE_KEY)),
        environment=_section(document, "vllm_env") if "vllm_env" in document else None,
    )


def _options(config: Mapping[str, Any]) -> dict[str, Any]:
    """An argument's destination is a field's name in the section of its class; one that several sections have could
    be any of theirs."""
    sections = [_section(config, name) for name in config if name != SPECULATIVE_KEY]
    count = Counter(name for section in sections for name in section)
    plain = {name: value for name, value in config.items() if name != SPECULATIVE_KEY and count[name] == 0}
    return _values({**plain, **{name: section[name] for section in sections for name in section if count[name] == 1}})


def _values(section: Mapping[str, Any]) -> dict[str, Any]:
    return {name: Repr(value) if isinstance(value, str) else value for name, value in section.items()}


def _speculative(config: Mapping[str, Any]) -> Speculative | None:
    section = config.get(SPECULATIVE_KEY)
    if not isinstance(section, Mapping):
        return None
    return Speculative(_text(section, "method"), _text(section, "model"), _count(section, "num_speculative_tokens"))


def _prompt_lookup(config: Mapping[str, Any]) -> tuple[int, int] | None:
    section = _section(config, SPECULATIVE_KEY)
    shortest, longest = _count(section, "prompt_lookup_min"), _count(section, "prompt_lookup_max")
    return None if shortest is None or longest is None else (shortest, longest)


def _section(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = document.get(name)
    return section if isinstance(section, Mapping) else {}


def _text(section: Mapping[str, Any], name: str) -> str | None:
    value = section.get(name)
    return value if isinstance(value, str) else None


def _count(section: Mapping[str, Any], name: str) -> int | None:
    value = section.get(name)
    return value if type(value) is int else None


def _boolean(section: Mapping[str, Any], name: str) -> bool | None:
    value = section.get(name)
    return value if isinstance(value, bool) else None
