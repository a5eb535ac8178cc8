"""The names we read of vLLM's ``/metrics``, in one place (vLLM 0.26.0 to 0.33.0: none was renamed).

Sample names, as they stand in the exposition: a counter ``x`` is exposed as ``x_total``.
"""

from __future__ import annotations

from typing import Final

MODEL_LABEL: Final = "model_name"
"""First served model name; on all ``vllm:`` series but ``cache_config_info``."""
ENGINE_LABEL: Final = "engine"
"""Data-parallel rank, ``"0"`` ...; figures of one server are the sums over it."""

# Histograms: seconds. Quantiles of short runs are meaningless (lowest bucket 0.3 s): use the delta of sum
# and count.
E2E_SUM: Final = "vllm:e2e_request_latency_seconds_sum"
"""Seconds from arrival to the last token, summed over finished requests."""
E2E_COUNT: Final = "vllm:e2e_request_latency_seconds_count"
"""Finished requests."""
TTFT_SUM: Final = "vllm:time_to_first_token_seconds_sum"
"""Seconds from arrival at the frontend to the first token."""
TTFT_COUNT: Final = "vllm:time_to_first_token_seconds_count"
"""Requests that got a first token."""
ITL_SUM: Final = "vllm:inter_token_latency_seconds_sum"
"""Seconds between engine steps of a request: one sample per step, NOT per token."""
ITL_COUNT: Final = "vllm:inter_token_latency_seconds_count"
"""Decode steps, summed over requests."""
TPOT_SUM: Final = "vllm:request_time_per_output_token_seconds_sum"
"""Decode seconds / (tokens - 1) of each request; one-token requests add 0."""
TPOT_COUNT: Final = "vllm:request_time_per_output_token_seconds_count"
"""Finished requests."""
QUEUE_SUM: Final = "vllm:request_queue_time_seconds_sum"
"""Seconds from queued to first scheduled."""
QUEUE_COUNT: Final = "vllm:request_queue_time_seconds_count"
"""Finished requests."""
PREFILL_SUM: Final = "vllm:request_prefill_time_seconds_sum"
"""Seconds from first scheduled to the first token."""
PREFILL_COUNT: Final = "vllm:request_prefill_time_seconds_count"
"""Finished requests."""
DECODE_SUM: Final = "vllm:request_decode_time_seconds_sum"
"""Seconds from the first to the last token."""
DECODE_COUNT: Final = "vllm:request_decode_time_seconds_count"
"""Finished requests."""
ITERATION_TOKENS_SUM: Final = "vllm:iteration_tokens_total_sum"
"""Tokens of all steps: prompt computed + emitted. A histogram in spite of its name."""
ITERATION_TOKENS_COUNT: Final = "vllm:iteration_tokens_total_count"
"""Engine steps."""

# Gauges.
RUNNING: Final = "vllm:num_requests_running"
"""Requests in the running batch after the last step."""
WAITING: Final = "vllm:num_requests_waiting"
"""Requests in the queues."""
WAITING_BY_REASON: Final = "vllm:num_requests_waiting_by_reason"
"""The same by label ``reason``: ``capacity`` (slots, KV blocks and token budget alike) or ``deferred``."""
REASON_LABEL: Final = "reason"
"""Label of ``WAITING_BY_REASON``."""
KV_USAGE: Final = "vllm:kv_cache_usage_perc"
"""Share of the KV cache in use, 0 to 1 (not percent)."""
CACHE_CONFIG_INFO: Final = "vllm:cache_config_info"
"""Always 1; the labels are the CacheConfig's fields as text, ``engine`` among them, no model name."""

# Counters.
REQUEST_SUCCESS: Final = "vllm:request_success_total"
"""Finished requests by ``finished_reason``; a client that went away is counted nowhere."""
FINISHED_REASON_LABEL: Final = "finished_reason"
"""``stop``, ``length``, ``abort``, ``error`` or ``repetition``."""
GENERATION_TOKENS: Final = "vllm:generation_tokens_total"
"""Tokens emitted, after the cut at stop or ``max_tokens``."""
PROMPT_TOKENS: Final = "vllm:prompt_tokens_total"
"""Full prompt length, added at the first output token."""
PROMPT_TOKENS_CACHED: Final = "vllm:prompt_tokens_cached_total"
"""Prompt tokens that came from a cache."""
PREFIX_CACHE_QUERIES: Final = "vllm:prefix_cache_queries_total"
"""Prompt tokens looked up in the prefix cache."""
PREFIX_CACHE_HITS: Final = "vllm:prefix_cache_hits_total"
"""Those of them that were found."""
PREEMPTIONS: Final = "vllm:num_preemptions_total"
"""Requests thrown out of the running batch for want of KV blocks."""

# Speculation: these do not exist at all while speculation is off; absent is not 0.
SPEC_DRAFTS: Final = "vllm:spec_decode_num_drafts_total"
"""Request-steps that verified at least one draft token."""
SPEC_DRAFT_TOKENS: Final = "vllm:spec_decode_num_draft_tokens_total"
"""Draft tokens verified."""
SPEC_ACCEPTED_TOKENS: Final = "vllm:spec_decode_num_accepted_tokens_total"
"""Draft tokens accepted, before the cut at stop; without the bonus token."""
SPEC_ACCEPTED_PER_POS: Final = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
"""The same by label ``position``, ``"0"`` to K-1."""
POSITION_LABEL: Final = "position"
"""Label of ``SPEC_ACCEPTED_PER_POS``."""

PROCESS_START: Final = "process_start_time_seconds"
"""Unix seconds at which the server process started; absent with several API servers."""
PREFIX: Final = "vllm:"
"""What every name of vLLM's own begins with."""

UNREAD: Final[frozenset[str]] = frozenset(
    PREFIX + name
    for name in (
        # no figure of ours: caches that text alone never uses, sleeping, shapes of requests, utilisation
        "engine_sleep_state",
        "external_prefix_cache_queries",
        "external_prefix_cache_hits",
        "mm_cache_queries",
        "mm_cache_hits",
        "prompt_tokens_by_source",
        "request_prompt_tokens",
        "request_generation_tokens",
        "request_max_num_generation_tokens",
        "request_params_max_tokens",
        "request_params_n",
        "request_prefill_kv_computed_tokens",
        "request_inference_time_seconds",  # the sum of prefill and decode, which are read
        "estimated_flops_per_gpu",
        "estimated_read_bytes_per_gpu",
        "estimated_write_bytes_per_gpu",
        # with an option of their own only
        "lora_requests_info",
        "corrupted_requests",
        "kv_block_lifetime_seconds",
        "kv_block_idle_before_evict_seconds",
        "kv_block_reuse_gap_seconds",
        "tool_call_parser_invocations",
        # of later releases (0.32.0 on)
        "admission_rejections",
        "prompt_tokens_cached_by_source",
        "request_num_preemptions",
        "num_requests_kv_fetch_by_stage",
        "watermark_requests",
    )
)
"""Families that vLLM exposes and that we do not read, by name without ``_total``."""

_PARTS: Final = ("_total", "_sum", "_count", "_bucket", "_created")


def _family(sample: str) -> str:
    part = next((part for part in _PARTS if sample.endswith(part)), "")
    return sample.removesuffix(part)


READ: Final[frozenset[str]] = frozenset(
    _family(name)
    for name in list(vars().values())
    if isinstance(name, str) and name.startswith(PREFIX) and name != PREFIX
)
"""Families that we read, by the same name."""


def stranger(sample: str) -> bool:
    """Whether a sample's name is one of vLLM's of which nothing is known here: neither read nor left unread."""
    return sample.startswith(PREFIX) and not {sample, _family(sample)} & (READ | UNREAD)
