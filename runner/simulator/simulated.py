"""Which flags of ``vllm serve`` the embedded engine acts on, which it refuses, and which it only takes.

All other flags are parsed as vLLM parses them, are shown among the non-default arguments, and do nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from runner.simulator.arguments import Arguments
from runner.simulator.refusal import NotSimulated

# What these say is done (the flag groups are: server, names, limits, KV cache, scheduler, speculation, replies).
SIMULATED = frozenset({
    "model_tag", "model", "config", "host", "port", "api_key", "disable_uvicorn_access_log",
    "disable_access_log_for_endpoints", "disable_log_stats", "served_model_name",
    "max_model_len", "max_num_seqs", "max_num_batched_tokens", "max_num_scheduled_tokens",
    "block_size", "gpu_memory_utilization", "kv_cache_memory_bytes", "num_gpu_blocks_override",
    "enable_prefix_caching", "enable_chunked_prefill", "long_prefill_token_threshold", "async_scheduling",
    "speculative_config", "spec_method", "spec_model", "spec_tokens",
    "stream_interval", "enable_prompt_tokens_details", "enable_per_request_metrics",
    "enable_server_load_tracking", "enable_force_include_usage",
})  # fmt: skip

# With these a real engine is another machine, another scheduler or another server than the one that is simulated,
# so that every figure would be another one. Values beside the default that mean the same as the default follow.
REFUSED: Mapping[str, tuple[Any, ...]] = {
    **dict.fromkeys((
        "headless", "grpc", "uds", "ssl_keyfile", "ssl_certfile", "middleware", "tokens_only",
        "nnodes", "node_rank", "pipeline_parallel_size", "tensor_parallel_size", "decode_context_parallel_size",
        "prefill_context_parallel_size", "data_parallel_size", "data_parallel_rank", "data_parallel_start_rank",
        "data_parallel_hybrid_lb", "data_parallel_external_lb", "data_parallel_multi_port_external_lb",
        "enable_expert_parallel", "enable_dbo", "ubatch_size", "enable_elastic_ep", "enable_eplb", "enable_hc_sp",
        "enable_batch_sharded_sampling", "worker_cls", "worker_extension_cls",
        "lora_modules", "default_mm_loras",
        "kv_offloading_size", "cpu_offload_gb", "offload_group_size", "kv_transfer_config", "ec_transfer_config",
        "kv_sharing_fast_prefill", "prefix_cache_retention_interval",
        "scheduler_cls", "scheduling_policy", "scheduler_reserve_full_isl", "max_num_partial_prefills",
        "max_long_partial_prefills", "long_prefill_token_threshold_adaptive", "watermark",
        "prefill_schedule_interval", "max_num_active_seqs", "max_num_queued_reqs", "max_num_queued_tokens",
        "diffusion_config", "watermark_config", "logits_processors",
    ), ()),
    "api_server_count": (1,),
    "data_parallel_size_local": (1,),
    "enable_lora": (False,),
    "runner": ("generate",),
    "convert": ("none",),
}  # fmt: skip

# These change how long a real step takes; here the profile alone says that.
WITHOUT_A_PRICE = frozenset({
    "dtype", "quantization", "quantization_config", "kv_cache_dtype", "attention_backend", "attention_config",
    "compilation_config", "optimization_level", "performance_mode", "cudagraph_capture_sizes",
    "max_cudagraph_capture_size", "kernel_config", "moe_backend", "linear_backend", "disable_sliding_window",
    "numa_bind",
})  # fmt: skip


def refuse(given: Arguments) -> None:
    """Raise NotSimulated for the first argument that would make a simulated figure a lie."""
    for name, same in REFUSED.items():
        value = given.values.get(name)
        if name in given.defaults and value != given.defaults[name] and value not in same:
            raise NotSimulated(f"The embedded engine does not simulate {flag(name)} (given: {value!r}).")


def remarks(given: Arguments) -> Iterator[str]:
    """A sentence for each argument that is taken although no simulated time depends on it."""
    for name in given.non_default:
        if name in WITHOUT_A_PRICE:
            yield f"embedded engine: {flag(name)} is taken, but no simulated time depends on it"


def flag(destination: str) -> str:
    """The flag of a destination, as a person types it."""
    return "--" + destination.replace("_", "-")
