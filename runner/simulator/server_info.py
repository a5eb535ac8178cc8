"""``GET /server_info?config_format=json``: the effective configuration, in the sections that vLLM answers with.

``server_info.json`` beside this module is the answer of 0.26.0 to a command of defaults, without what it said of its
host; the configuration's own values are laid over it. Later releases were never recorded and answer with its keys.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from runner.simulator import engine_line
from runner.simulator.configuration import Configuration


def as_json(configuration: Configuration, environment: Mapping[str, str]) -> dict[str, Any]:
    """The document. What it would say of a host without a model in it is null."""
    document: dict[str, Any] = json.loads(files("runner.simulator").joinpath("server_info.json").read_text("utf-8"))
    config = document["vllm_config"]
    gpu = configuration.host.device == "GPU"
    for section, values in (
        ("model_config", _model(configuration)),
        ("cache_config", _cache(configuration)),
        ("parallel_config", _parallel(configuration)),
        ("scheduler_config", _scheduler(configuration)),
        ("device_config", {"device": "cuda" if gpu else "cpu"}),
        ("load_config", {name: configuration.values[name] for name in ("load_format", "download_dir")}),
        ("compilation_config", _compilation(configuration)),
    ):
        config[section] |= values
    config["kernel_config"]["ir_op_priority"] = {
        name: list(configuration.host.operations) for name in config["kernel_config"]["ir_op_priority"]
    }
    config["speculative_config"] = _speculative(configuration, config)
    config["additional_config"] = configuration.values["additional_config"]
    config["instance_id"] = str(time.time_ns())
    document["vllm_env"] = _environment(document["vllm_env"], environment)
    document["system_env"] |= {
        "os": platform.platform(),
        "python_version": platform.python_version(),
        "is_cuda_available": str(gpu),
        "nvidia_gpu_models": f"GPU 0: {configuration.host.name} (embedded engine)" if gpu else None,
        "vllm_version": configuration.version,
    }
    return document


def _environment(defaults: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    given = {name: _typed(text, defaults.get(name)) for name, text in environment.items() if name.startswith("VLLM_")}
    return dict(sorted({**defaults, **given}.items()))


def _typed(text: str, default: Any) -> Any:
    if isinstance(default, bool) or (default is None and text in ("0", "1")):
        return text == "1"
    return type(default)(text) if isinstance(default, int | float) else text


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
        "distributed_executor_backend": values["distributed_executor_backend"]
        or ("uni" if configuration.host.worker == "EngineCore" else "mp"),
        "disable_nccl_for_dp_synchronization": configuration.async_scheduling,
        "world_size": 1,
        "rank": 0,
    }


def _scheduler(configuration: Configuration) -> dict[str, Any]:
    values = configuration.values
    return {
        "runner_type": "generate",
        "max_num_batched_tokens": configuration.max_num_batched_tokens,
        # Unset unless asked for or set by the speculative options.
        "max_num_scheduled_tokens": (
            configuration.max_num_scheduled_tokens if configuration.speculation else values["max_num_scheduled_tokens"]
        ),
        "max_num_seqs": configuration.max_num_seqs,
        "max_num_encoder_input_tokens": configuration.max_num_batched_tokens,
        "encoder_cache_size": configuration.max_num_batched_tokens,
        "long_prefill_token_threshold": values["long_prefill_token_threshold"],
        "enable_chunked_prefill": configuration.chunked_prefill,
        "policy": values["scheduling_policy"],
        "async_scheduling": configuration.async_in_force,  # the platform's turn comes before this is asked
        "stream_interval": values["stream_interval"],
    }


def _speculative(configuration: Configuration, config: Mapping[str, Any]) -> dict[str, Any] | None:
    drafting = configuration.speculation
    if drafting is None:
        return None
    # Without a draft model the target stands in for it.
    models, parallel = config["model_config"], config["parallel_config"]
    return {
        **config["speculative_config"],
        "num_speculative_tokens": drafting.tokens,
        "model": drafting.model or drafting.method,
        "method": drafting.method,
        "prompt_lookup_max": drafting.prompt_lookup_max,
        "prompt_lookup_min": drafting.prompt_lookup_min,
        "target_model_config": models,
        "target_parallel_config": parallel,
        "draft_model_config": models,
        "draft_parallel_config": parallel,
    }


def _compilation(configuration: Configuration) -> dict[str, Any]:
    eager = configuration.values["enforce_eager"]
    return {
        "mode": 0 if eager else 3,
        "cudagraph_mode": 0 if eager else [2, 1],
        "cudagraph_capture_sizes": engine_line.capture_sizes(configuration),
        "compile_ranges_endpoints": [configuration.max_num_batched_tokens],
    }
