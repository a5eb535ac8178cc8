"""The engine's effective configuration: arguments + environment + the simulated host.

Sources: vllm-project/vllm 0.26.0, 0.32.0 and 0.33.0, ``config/``, ``platforms/cpu.py`` and ``engine/arg_utils.py``,
for defaults and messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runner.simulator import speculation
from runner.simulator.profile import Host, Profile
from runner.simulator.refusal import NotSimulated
from runner.simulator.release import Release
from runner.simulator.speculation import Speculation

GIB = 2**30
# What was recorded or read: nothing is known of the other combinations' drafts.
IMITATED = {"GPU": ("0.26.0", "0.33.0"), "CPU": ("0.26.0", "0.32.0")}
# Methods that an explicit --async-scheduling may be combined with, in each release's words.
_ASYNC_METHODS = {
    "0.26.0": "EAGLE/MTP/Draft Model/NGram GPU/DSpark",
    "0.32.0": "EAGLE/MTP/Draft Model/NGram GPU/DSpark/DFlash",
}


@dataclass(frozen=True, slots=True)
class Configuration:
    """What the engine really runs with. `values` are the effective argument values."""

    release: Release
    profile: Profile
    values: Mapping[str, Any]
    model: str
    served_model_names: tuple[str, ...]
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    max_num_scheduled_tokens: int
    block_size: int
    num_gpu_blocks: int
    kv_cache_bytes: int
    prefix_caching: bool
    chunked_prefill: bool
    speculation: Speculation | None
    async_scheduling: bool  # as decided from the arguments, and as the API server says
    async_refused: bool  # auto turned it off because of the method
    runner: str  # "V1" or "V2"
    runner_fallback: str | None  # what V2 does not yet support; None if V2 is used or something else rules it out
    development: bool

    @property
    def host(self) -> Host:
        return self.profile.host

    @property
    def version(self) -> str:
        return self.release.version

    @property
    def async_in_force(self) -> bool:
        """Whether the engine schedules ahead. The CPU platform turns it off after it was decided, without a word."""
        return self.async_scheduling and self.host.device != "CPU"

    @property
    def activation_bytes(self) -> int:
        """Peak activation memory of a step with every token that the batch may hold."""
        return self.host.activation_bytes(self.max_num_batched_tokens)

    @property
    def kv_cache_tokens(self) -> int:
        return self.num_gpu_blocks * self.block_size

    @property
    def max_concurrency(self) -> float:
        """Requests of full length that the KV cache holds."""
        return self.num_gpu_blocks / -(-self.max_model_len // self.block_size)


def build(
    values: Mapping[str, Any], environment: Mapping[str, str], release: Release, profile: Profile
) -> Configuration:
    """Configuration of one engine. Raises ValueError in vLLM's words for what vLLM refuses."""
    host = profile.host
    _refuse_unknown(release, host)
    drafting = speculation.from_arguments(values)
    max_model_len = values["max_model_len"]
    if max_model_len is None or max_model_len == -1:
        max_model_len = host.model_max_length
    elif max_model_len < 1:
        raise ValueError(_out_of_range("ModelConfig", "max_model_len", max_model_len, "greater than or equal to -1"))
    elif max_model_len > host.model_max_length and environment.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN") != "1":
        raise ValueError(
            f"User-specified max_model_len ({max_model_len}) is greater than the derived max_model_len "
            f"(max_position_embeddings={host.model_max_length}.0 or model_max_length=None in model's config.json). "
            "To allow overriding this maximum, set the env var VLLM_ALLOW_LONG_MAX_MODEL_LEN=1."
        )
    _check_ranges(values)
    batched, seqs = _batch_limits(values, host)
    if values["enable_chunked_prefill"] is False and batched < max_model_len:
        raise ValueError(
            f"max_num_batched_tokens ({batched}) is smaller than max_model_len ({max_model_len}). This effectively "
            "limits the maximum sequence length to max_num_batched_tokens and makes vLLM reject longer sequences. "
            "Please increase max_num_batched_tokens or decrease max_model_len."
        )
    runner, fallback = _runner(drafting, release, host, environment.get("VLLM_USE_V2_MODEL_RUNNER"))
    asynchronous, refused = _async_scheduling(values["async_scheduling"], drafting, release, runner)
    block_size = values["block_size"] or host.block_size
    kv_bytes, blocks = _kv_blocks(values, block_size, max_model_len, host, batched)
    names = values["served_model_name"] or [values["model"]]
    return Configuration(
        release=release,
        profile=profile,
        values=values,
        model=values["model"],
        served_model_names=tuple(names),
        max_model_len=max_model_len,
        max_num_seqs=seqs,
        max_num_batched_tokens=batched,
        max_num_scheduled_tokens=values["max_num_scheduled_tokens"] or batched,
        block_size=block_size,
        num_gpu_blocks=blocks,
        kv_cache_bytes=kv_bytes,
        prefix_caching=values["enable_prefix_caching"] is not False,
        chunked_prefill=values["enable_chunked_prefill"] is not False,
        speculation=drafting,
        async_scheduling=asynchronous,
        async_refused=refused,
        runner=runner,
        runner_fallback=fallback,
        development=environment.get("VLLM_SERVER_DEV_MODE", "0") == "1",
    )


def _check_ranges(values: Mapping[str, Any]) -> None:
    """Bounds of vLLM's own configuration classes, for the values that the scheduler and the KV cache use."""
    for kind, name, lowest in (
        ("SchedulerConfig", "max_num_batched_tokens", 1),
        ("SchedulerConfig", "max_num_scheduled_tokens", 1),
        ("SchedulerConfig", "long_prefill_token_threshold", 0),
        ("SchedulerConfig", "stream_interval", 1),
        ("CacheConfig", "block_size", 1),
        ("CacheConfig", "num_gpu_blocks_override", 1),
        ("CacheConfig", "kv_cache_memory_bytes", 1),
    ):
        value = values[name]
        if value is not None and value < lowest:
            raise ValueError(_out_of_range(kind, name, value, f"greater than or equal to {lowest}"))
    share = values["gpu_memory_utilization"]
    if not 0 < share <= 1:  # NaN too
        bound = "less than or equal to 1" if share > 1 else "greater than 0"
        raise ValueError(_out_of_range("CacheConfig", "gpu_memory_utilization", share, bound))


def _out_of_range(kind: str, name: str, value: object, bound: str) -> str:
    """pydantic's words."""
    error = bound.replace(" or equal to", "_equal").replace(" than", "").rsplit(" ", 1)[0].replace(" ", "_")
    return (
        f"1 validation error for {kind}\n{name}\n  Input should be {bound} [type={error}, input_value={value!r}, "
        f"input_type={type(value).__name__}]"
    )


def _batch_limits(values: Mapping[str, Any], host: Host) -> tuple[int, int]:
    batched = values["max_num_batched_tokens"] or host.default_batched_tokens
    given = values["max_num_seqs"]
    if given is not None and given < 1:
        raise ValueError(
            "1 validation error for SchedulerConfig\nmax_num_seqs\n"
            f"  Input should be greater than or equal to 1 [type=greater_than_equal, input_value={given}, "
            "input_type=int]"
        )
    seqs = given or min(host.default_num_seqs, batched)
    if batched < seqs:
        raise ValueError(f"max_num_batched_tokens ({batched}) must be greater than or equal to max_num_seqs ({seqs}).")
    return batched, seqs


def _refuse_unknown(release: Release, host: Host) -> None:
    known = IMITATED[host.device]
    if release.version not in known:
        raise NotSimulated(
            f"The embedded engine does not imitate vLLM {release.version} on a {host.device}: how it drafts there was "
            f"neither recorded nor read. On a {host.device} it imitates {' and '.join(known)}."
        )


def _runner(drafting: Speculation | None, release: Release, host: Host, forced: str | None) -> tuple[str, str | None]:
    """The model runner, and what V2 does not yet support of what was asked."""
    if forced == "0":
        return "V1", None
    if not host.triton:
        if forced == "1":
            raise ValueError("Model Runner V2 requires Triton.")
        return "V1", None
    if drafting is None or release.speculates_on_v2:
        return "V2", None
    unsupported = "ngram/ngram_gpu speculative decoding"
    if forced == "1":
        raise ValueError(f"Model Runner V2 does not yet support: {unsupported}")
    return "V1", unsupported


def _async_scheduling(
    asked: bool | None, drafting: Speculation | None, release: Release, runner: str
) -> tuple[bool, bool]:
    """(on, turned off because of the method). A method that drafts on the CPU needs each step's result first."""
    unsupported = drafting is not None and drafting.method in speculation.WITHOUT_ASYNC and runner == "V1"
    if asked is None:
        return (not unsupported, unsupported)
    if asked and unsupported:
        assert drafting is not None
        if release.version in _ASYNC_METHODS:
            methods = _ASYNC_METHODS[release.version]
            raise ValueError(
                f"Currently, async scheduling is only supported with {methods} kind of speculative decoding"
            )
        raise ValueError(
            "Async scheduling is not supported by the V1 model runner "
            f"with {drafting.method}-based speculative decoding."
        )
    return asked, False


def _kv_blocks(
    values: Mapping[str, Any], block_size: int, max_model_len: int, host: Host, batched: int
) -> tuple[int, int]:
    available = values["kv_cache_memory_bytes"]
    if available is None:
        requested = int(host.memory_bytes * values["gpu_memory_utilization"])
        available = requested - host.weight_bytes - host.activation_bytes(batched) - host.non_torch_bytes
    if available <= 0:
        raise ValueError(
            "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing "
            "the engine."
        )
    blocks = values["num_gpu_blocks_override"] or available // (block_size * host.kv_bytes_per_token)
    # One block is never handed out.
    if (blocks - 1) * block_size < max_model_len:
        needed = max_model_len * host.kv_bytes_per_token
        raise ValueError(
            f"To serve at least one request with the models's max seq len ({max_model_len}), "
            f"({needed / GIB:.2f} GiB KV cache is needed, which is larger than the available KV cache memory "
            f"({available / GIB:.2f} GiB). Based on the available memory, the estimated maximum model length "
            f"is {(blocks - 1) * block_size}. Try increasing `gpu_memory_utilization` or decreasing "
            "`max_model_len` when initializing the engine."
        )
    return available, blocks
