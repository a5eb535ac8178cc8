"""``GET /server_info?config_format=json``: the effective configuration, in the sections that vLLM answers
with.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

from runner.simulator import engine_line
from runner.simulator.configuration import Configuration


def as_json(configuration: Configuration, environment: Mapping[str, str]) -> dict[str, Any]:
    """The document; sections that do not exist in the embedded engine are absent."""
    return {
        "vllm_config": {
            "model_config": _model(configuration),
            "cache_config": _cache(configuration),
            "parallel_config": _parallel(configuration),
            "scheduler_config": _scheduler(configuration),
            "device_config": {"device": "cuda"},
            "load_config": {
                "load_format": configuration.values["load_format"],
                "download_dir": configuration.values["download_dir"],
            },
            "lora_config": None,
            "speculative_config": _speculative(configuration),
            "compilation_config": _compilation(configuration),
            "additional_config": configuration.values["additional_config"],
        },
        "vllm_env": {
            name: value == "1" if value in ("0", "1") else value
            for name, value in sorted(environment.items())
            if name.startswith("VLLM_")
        },
        "system_env": {
            "os": platform.platform(),
            "python_version": platform.python_version(),
            "is_cuda_available": "True",
            "nvidia_gpu_models": f"GPU 0: {configuration.host.name} (embedded engine)",
            "vllm_version": configuration.version,
        },
    }


def as_text(configuration: Configuration) -> dict[str, Any]:
    """The configuration as the engine's log line shows it."""
    _, _, text = engine_line.message(configuration).partition("with config: ")
    return {"vllm_config": text}


def _model(configuration: Configuration) -> dict[str, Any]:
    values = configuration.values
    names = (
        "tokenizer_mode", "trust_remote_code", "seed", "revision", "code_revision", "tokenizer_revision",
        "quantization", "enforce_eager", "max_logprobs", "disable_sliding_window", "disable_cascade_attn",
        "skip_tokenizer_init", "config_format", "hf_overrides", "generation_config",
        "override_generation_config", "enable_sleep_mode", "model_impl",
    )  # fmt: skip
    dtype = "bfloat16" if values["dtype"] == "auto" else values["dtype"]
    return {
        "model": configuration.model,
        "runner": values["runner"],
        "tokenizer": values["tokenizer"] or configuration.model,
        "dtype": f"torch.{dtype}",
        "max_model_len": configuration.max_model_len,
        "served_model_name": configuration.served_model_names[0],
        **{name: values[name] for name in names},
    }


def _cache(configuration: Configuration) -> dict[str, Any]:
    values = configuration.values
    return {
        "block_size": configuration.block_size,
        "user_specified_block_size": values["block_size"] is not None,
        "gpu_memory_utilization": values["gpu_memory_utilization"],
        "cache_dtype": values["kv_cache_dtype"],
        "num_gpu_blocks_override": values["num_gpu_blocks_override"],
        "enable_prefix_caching": configuration.prefix_caching,
        "prefix_caching_hash_algo": values["prefix_caching_hash_algo"],
        "num_gpu_blocks": configuration.num_gpu_blocks,
        "kv_cache_size_tokens": configuration.kv_cache_tokens,
        "kv_cache_max_concurrency": configuration.max_concurrency,
        "kv_cache_memory_bytes": values["kv_cache_memory_bytes"],
    }


def _parallel(configuration: Configuration) -> dict[str, Any]:
    values = configuration.values
    return {
        "pipeline_parallel_size": values["pipeline_parallel_size"],
        "tensor_parallel_size": values["tensor_parallel_size"],
        "data_parallel_size": values["data_parallel_size"],
        "distributed_executor_backend": values["distributed_executor_backend"] or "uni",
        "world_size": 1,
        "rank": 0,
    }


def _scheduler(configuration: Configuration) -> dict[str, Any]:
    values = configuration.values
    return {
        "runner_type": "generate",
        "max_num_batched_tokens": configuration.max_num_batched_tokens,
        "max_num_scheduled_tokens": configuration.max_num_scheduled_tokens,
        "max_num_seqs": configuration.max_num_seqs,
        "long_prefill_token_threshold": values["long_prefill_token_threshold"],
        "enable_chunked_prefill": configuration.chunked_prefill,
        "policy": values["scheduling_policy"],
        "async_scheduling": configuration.async_scheduling,
        "stream_interval": values["stream_interval"],
    }


def _speculative(configuration: Configuration) -> dict[str, Any] | None:
    drafting = configuration.speculation
    if drafting is None:
        return None
    return {
        "num_speculative_tokens": drafting.tokens,
        "model": drafting.model or drafting.method,
        "method": drafting.method,
        "prompt_lookup_max": drafting.prompt_lookup_max,
        "prompt_lookup_min": drafting.prompt_lookup_min,
        "parallel_drafting": False,
        "rejection_sample_method": "standard",
        "draft_sample_method": "greedy",
    }


def _compilation(configuration: Configuration) -> dict[str, Any]:
    eager = configuration.values["enforce_eager"]
    return {
        "mode": 0 if eager else 3,
        "cudagraph_mode": 0 if eager else [2, 1],
        "cudagraph_capture_sizes": engine_line.capture_sizes(configuration),
        "compile_ranges_endpoints": [configuration.max_num_batched_tokens],
    }
