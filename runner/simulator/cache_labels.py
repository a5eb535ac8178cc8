"""The labels of ``vllm:cache_config_info``: every field of the cache configuration, by release."""

from __future__ import annotations

from typing import Any

from runner.simulator.configuration import Configuration

_ONLY_FIRST = {"calculate_kv_scales": False, "user_specified_mamba_block_size": False}
_UNSET = {
    "is_attention_free": False,
    "kv_cache_dtype_skip_layers": [],
    "kv_offloading_backend": "native",
    "kv_offloading_size": None,
    "kv_sharing_fast_prefill": False,
    "mamba_block_size": None,
    "mamba_cache_dtype": "auto",
    "mamba_cache_mode": "none",
    "mamba_page_size_padded": None,
    "mamba_ssm_cache_dtype": "auto",
    "num_cpu_blocks": None,
    "prefix_match_unit": None,
    "skip_page_size_padded": None,
    "sliding_window": None,
}
_ONLY_LATER = {
    "cache_hit_alignment_tokens": None,
    "enable_mamba_shared_prefix_checkpoint": False,
    "hash_block_size": None,
    "kv_cache_layout": None,
    "prefix_cache_retention_interval": 0,
    "replayssm_buffer_len": 16,
    "swa_bounded_replay": True,
    "use_kda_recoverssm": False,
    "use_replayssm": False,
}


def cache_labels(configuration: Configuration) -> dict[str, Any]:
    """Label to value, in the order of the text."""
    values = configuration.values
    first = configuration.version == "0.26.0"
    described = {
        **_UNSET,
        **(_ONLY_FIRST if first else {**_ONLY_LATER, "effective_attention_block_size": configuration.block_size}),
        "_block_size_resolved": True,
        "block_size": configuration.block_size,
        "cache_dtype": values["kv_cache_dtype"],
        "enable_prefix_caching": configuration.prefix_caching,
        "engine": "0",
        "gpu_memory_utilization": values["gpu_memory_utilization"],
        "kv_cache_max_concurrency": configuration.max_concurrency,
        "kv_cache_memory_bytes": values["kv_cache_memory_bytes"],
        "kv_cache_size_tokens": configuration.kv_cache_tokens,
        "num_gpu_blocks": configuration.num_gpu_blocks,
        "num_gpu_blocks_override": values["num_gpu_blocks_override"],
        "prefix_caching_hash_algo": values["prefix_caching_hash_algo"],
        "user_specified_block_size": values["block_size"] is not None,
    }
    return dict(sorted(described.items()))
