"""The line ``Initializing a V1 LLM engine (v0.26.0) with config: ...`` for one configuration."""

from __future__ import annotations

from runner.simulator.configuration import Configuration

_STRUCTURED_OUTPUTS = (
    "StructuredOutputsConfig(backend='auto', disable_any_whitespace=False, disable_additional_properties=False, "
    "reasoning_parser='', reasoning_parser_plugin='', enable_in_reasoning=False)"
)
_OBSERVABILITY = (
    "ObservabilityConfig(show_hidden_metrics_for_version=None, otlp_traces_endpoint=None, "
    "collect_detailed_traces=None, kv_cache_metrics=False, kv_cache_metrics_sample=0.01, cudagraph_metrics=False, "
    "enable_layerwise_nvtx_tracing=False, enable_mfu_metrics=False, enable_mm_processor_stats=False, "
    "enable_logging_iteration_details=False, jit_monitor_mode='warn', jit_monitor_verbose=False)"
)
_PASSES = (
    "{'fuse_norm_quant': True, 'fuse_act_quant': True, 'fuse_attn_quant': False, 'enable_sp': False, "
    "'fuse_gemm_comms': False, 'fuse_allreduce_rms': False, 'enable_qk_norm_rope_fusion': False, "
    "'fuse_rope_kvcache_cat_mla': False, 'fuse_act_padding': False, 'fuse_qk_norm_rope_kvcache': False}"
)
_INDUCTOR = (
    "{'enable_auto_functionalized_v2': False, 'size_asserts': False, 'alignment_asserts': False, "
    "'scalar_asserts': False, 'combo_kernels': True, 'benchmark_combo_kernel': True}"
)
_KERNELS = (
    "KernelConfig(ir_op_priority=IrOpPriorityConfig(rms_norm=['vllm_c', 'native'], "
    "fused_add_rms_norm=['vllm_c', 'native']), enable_flashinfer_autotune=True, enable_cutedsl_warmup=True, "
    "enable_bf16x3_router_gemm=False, moe_backend='auto', linear_backend='auto')"
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
        "disable_custom_all_reduce": values["disable_custom_all_reduce"],
        "quantization": values["quantization"],
        "quantization_config": None,
        "enforce_eager": values["enforce_eager"],
        "enable_return_routed_experts": False,
        "kv_cache_dtype": values["kv_cache_dtype"],
        "device_config": "cuda",
        "structured_outputs_config": _STRUCTURED_OUTPUTS,
        "observability_config": _OBSERVABILITY,
        "seed": values["seed"],
        "served_model_name": configuration.served_model_names[0],
        "enable_prefix_caching": configuration.prefix_caching,
        "enable_chunked_prefill": configuration.chunked_prefill,
        "pooler_config": None,
        "compilation_config": _compilation(configuration),
        "kernel_config": _KERNELS,
    }
    return ", ".join(f"{name}={value}" for name, value in fields.items())


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
    graphs = "<CUDAGraphMode.NONE: 0>" if eager else "<CUDAGraphMode.FULL_AND_PIECEWISE: (2, 1)>"
    return (
        f"{{'mode': {mode}, 'debug_dump_path': None, 'cache_dir': '', 'compile_cache_save_format': 'binary', "
        f"'backend': 'inductor', 'custom_ops': {['all'] if eager else ['none']}, 'ir_enable_torch_wrap': "
        f"{not eager}, 'splitting_ops': [], 'compile_mm_encoder': False, 'cudagraph_mm_encoder': False, "
        "'encoder_cudagraph_token_budgets': [], 'encoder_cudagraph_max_vision_items_per_batch': 0, "
        "'encoder_cudagraph_max_frames_per_batch': None, 'compile_sizes': [], "
        f"'compile_ranges_endpoints': [{configuration.max_num_batched_tokens}], "
        f"'inductor_compile_config': {_INDUCTOR}, 'inductor_passes': {{}}, 'cudagraph_mode': {graphs}, "
        f"'cudagraph_num_of_warmups': {0 if eager else 1}, 'cudagraph_capture_sizes': {sizes}, "
        "'cudagraph_copy_inputs': False, 'cudagraph_specialize_lora': True, 'use_inductor_graph_partition': False, "
        f"'pass_config': {_PASSES}, 'max_cudagraph_capture_size': {max(sizes, default=0)}, "
        "'dynamic_shapes_config': {'type': <DynamicShapesType.BACKED: 'backed'>, 'evaluate_guards': False, "
        "'assume_32_bit_indexing': False}, 'local_cache_dir': None, 'fast_moe_cold_start': False, "
        "'static_all_moe_layers': []}"
    )
