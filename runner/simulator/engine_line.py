"""The line ``Initializing a V1 LLM engine (v0.26.0) with config: ...`` for one configuration."""

from __future__ import annotations

from runner.simulator import wording
from runner.simulator.configuration import Configuration

_STRUCTURED_OUTPUTS = (
    "StructuredOutputsConfig(backend='auto', disable_any_whitespace=False, disable_additional_properties=False, "
    "reasoning_parser='', reasoning_parser_plugin='', enable_in_reasoning=False)"
)


def _is_first(configuration: Configuration) -> bool:
    return configuration.version == "0.26.0"


def _is_gpu(configuration: Configuration) -> bool:
    return configuration.host.device == "GPU"


def operation_priority(configuration: Configuration) -> str:
    """Implementations by operation, as the object prints itself."""
    chosen = list(configuration.host.operations)
    names = wording.of(configuration.release).operations
    return f"IrOpPriorityConfig({', '.join(f'{name}={chosen}' for name in names)})"


def _observability(configuration: Configuration) -> str:
    first = _is_first(configuration)
    drafts = "" if first else "per_request_spec_decode_metrics='none', "
    buckets = "" if first else "custom_histogram_buckets=None, "
    return (
        "ObservabilityConfig(show_hidden_metrics_for_version=None, otlp_traces_endpoint=None, "
        f"collect_detailed_traces=None, {drafts}kv_cache_metrics=False, kv_cache_metrics_sample=0.01, {buckets}"
        "cudagraph_metrics=False, enable_layerwise_nvtx_tracing=False, enable_mfu_metrics=False, "
        "enable_mm_processor_stats=False, enable_logging_iteration_details=False, jit_monitor_mode='warn', "
        "jit_monitor_verbose=False)"
    )


def _passes(configuration: Configuration) -> dict[str, bool]:
    names = ["fuse_norm_quant", "fuse_act_quant", "fuse_attn_quant"]
    names += ["enable_sp", "fuse_gemm_comms"] if _is_first(configuration) else []
    names += ["fuse_allreduce_rms", "enable_qk_norm_rope_fusion", "fuse_rope_kvcache_cat_mla", "fuse_act_padding",
              "fuse_qk_norm_rope_kvcache"]  # fmt: skip
    return {name: name in ("fuse_norm_quant", "fuse_act_quant") for name in names}


def _inductor(configuration: Configuration) -> dict[str, bool]:
    asserts = ("size_asserts", "alignment_asserts", "scalar_asserts") if _is_first(configuration) else ()
    kernels = ("combo_kernels", "benchmark_combo_kernel") if _is_gpu(configuration) else ()
    return {"enable_auto_functionalized_v2": False, **dict.fromkeys(asserts, False), **dict.fromkeys(kernels, True)}


def _kernels(configuration: Configuration) -> str:
    priority = operation_priority(configuration)
    if _is_first(configuration):
        return (
            f"KernelConfig(ir_op_priority={priority}, enable_flashinfer_autotune=True, enable_cutedsl_warmup=True, "
            "enable_bf16x3_router_gemm=False, moe_backend='auto', linear_backend='auto')"
        )
    return (
        f"KernelConfig(ir_op_priority={priority}, enable_flashinfer_autotune=True, "
        "enable_rocm_segmented_attn_autotune=False, enable_cutedsl_warmup=True, "
        f"enable_jit_warmup={not configuration.values['enforce_eager']}, moe_backend='auto', "
        "sparse_indexer_topk_backend='auto', linear_backend='auto', linear_backend_per_quant=None)"
    )


def message(configuration: Configuration) -> str:
    """The text after the log header."""
    return f"Initializing a V1 LLM engine (v{configuration.version}) with config: {_config(configuration)}"


def _config(configuration: Configuration) -> str:
    values = configuration.values
    tokenizer = values["tokenizer"] or configuration.model
    dtype = {"auto": "bfloat16", "half": "float16", "float": "float32"}.get(values["dtype"], values["dtype"])
    fields = {
        "model": repr(configuration.model),
        "speculative_config": configuration.speculation,
        "tokenizer": repr(tokenizer),
        "skip_tokenizer_init": values["skip_tokenizer_init"],
        "tokenizer_mode": values["tokenizer_mode"],
        "revision": values["revision"],
        "tokenizer_revision": values["tokenizer_revision"],
        "trust_remote_code": values["trust_remote_code"],
        "dtype": f"torch.{dtype}",
        "max_seq_len": configuration.max_model_len,
        "download_dir": values["download_dir"],
        "load_format": values["load_format"],
        "tensor_parallel_size": values["tensor_parallel_size"],
        "pipeline_parallel_size": values["pipeline_parallel_size"],
        "data_parallel_size": values["data_parallel_size"],
        "decode_context_parallel_size": 1,
        "dcp_comm_backend": "ag_rs",
        "disable_custom_all_reduce": values["disable_custom_all_reduce"] or not _is_gpu(configuration),
        "quantization": values["quantization"],
        "quantization_config": None,
        "enforce_eager": values["enforce_eager"],
        **_auxiliary_output(configuration),
        "kv_cache_dtype": values["kv_cache_dtype"],
        "device_config": "cuda" if _is_gpu(configuration) else "cpu",
        "structured_outputs_config": _STRUCTURED_OUTPUTS,
        "observability_config": _observability(configuration),
        "seed": values["seed"],
        "served_model_name": configuration.served_model_names[0],
        "enable_prefix_caching": configuration.prefix_caching,
        "enable_chunked_prefill": configuration.chunked_prefill,
        "pooler_config": None,
        "compilation_config": _compilation(configuration),
        "kernel_config": _kernels(configuration),
    }
    return ", ".join(f"{name}={value}" for name, value in fields.items())


def _auxiliary_output(configuration: Configuration) -> dict[str, object]:
    if _is_first(configuration):
        return {"enable_return_routed_experts": False}
    return {"aux_output_config": "AuxOutputConfig(enable_return_routed_experts=False, max_bytes=None)"}


def capture_sizes(configuration: Configuration) -> list[int]:
    """CUDA graph sizes up to min(max_num_seqs * (1 + K) * 2, 512); none when eager."""
    if configuration.values["enforce_eager"]:
        return []
    drafts = configuration.speculation.tokens if configuration.speculation else 0
    limit = min(configuration.max_num_seqs * (1 + drafts) * 2, 512)
    sizes = [1, 2, 4, *range(8, 256, 8), *range(256, 513, 16)]
    return [size for size in sizes if size <= limit]


def _compilation(configuration: Configuration) -> str:
    eager = configuration.values["enforce_eager"]
    sizes = capture_sizes(configuration)
    mode = "<CompilationMode.NONE: 0>" if eager else "<CompilationMode.VLLM_COMPILE: 3>"
    gpu = _is_gpu(configuration)
    replay = "" if _is_first(configuration) else (
        "'cudagraph_decoder_replay': True, 'decoder_replay_cudagraph_capture_sizes': [], "
        "'decoder_replay_trim_threshold': 768, "
    )  # fmt: skip
    graphs = "<CUDAGraphMode.NONE: 0>" if eager else "<CUDAGraphMode.FULL_AND_PIECEWISE: (2, 1)>"
    return (
        f"{{'mode': {mode}, 'debug_dump_path': None, 'cache_dir': '', 'compile_cache_save_format': 'binary', "
        f"'backend': 'inductor', 'custom_ops': {['all'] if eager else ['none']}, 'ir_enable_torch_wrap': "
        f"{not eager}, 'splitting_ops': [], 'compile_mm_encoder': False, 'cudagraph_mm_encoder': False, "
        "'encoder_cudagraph_token_budgets': [], 'encoder_cudagraph_max_vision_items_per_batch': 0, "
        "'encoder_cudagraph_max_frames_per_batch': None, "
        f"{replay}'compile_sizes': {[] if gpu else None}, "
        f"'compile_ranges_endpoints': [{configuration.max_num_batched_tokens}], "
        f"'inductor_compile_config': {_inductor(configuration)}, 'inductor_passes': {{}}, 'cudagraph_mode': {graphs}, "
        f"'cudagraph_num_of_warmups': {0 if eager else 1}, 'cudagraph_capture_sizes': {sizes}, "
        "'cudagraph_copy_inputs': False, 'cudagraph_specialize_lora': True, 'use_inductor_graph_partition': False, "
        f"'pass_config': {_passes(configuration)}, "
        f"'max_cudagraph_capture_size': {max(sizes, default=0) if gpu else None}, "
        "'dynamic_shapes_config': {'type': <DynamicShapesType.BACKED: 'backed'>, 'evaluate_guards': False, "
        "'assume_32_bit_indexing': False}, 'local_cache_dir': None, 'fast_moe_cold_start': False, "
        "'static_all_moe_layers': []}"
    )
