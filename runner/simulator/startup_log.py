"""What vLLM 0.26.0 prints while it starts, in its order, for one configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from runner.simulator import engine_line, log
from runner.simulator.configuration import GIB, Configuration

SILENT_BATCHED_TOKENS = 2048  # the scheduler's own default: vLLM does not mention it
LOADING_SECONDS = 0.97  # what the simulated loader says of itself


def banner(version: str, model: str) -> None:
    """vLLM's logo with version and model."""
    logo = (
        "",
        "       █     █     █▄   ▄█",
        f" ▄▄ ▄█ █     █     █ ▀▄▀ █  version {version}",
        f"  █▄█▀ █     █     █     █  model   {model}",
        "   ▀▀  ▀▀▀▀▀ ▀▀▀▀▀ ▀     ▀",
        "",
    )
    log.api("INFO", "api_utils.py:345", "\n".join(logo))


def non_default_arguments(non_default: Mapping[str, Any]) -> None:
    """The line that shows what was parsed, before anything is built from it."""
    log.api("INFO", "api_utils.py:273", f"non-default args: {dict(non_default)}")


def resolved(configuration: Configuration) -> None:
    """The API server's lines on the configuration that it built."""
    log.api("INFO", "model.py:623", f"Resolved architecture: {configuration.host.architecture}")
    log.api("INFO", "model.py:1788", f"Using max model len {configuration.max_model_len}")
    # vLLM is silent when the value is its scheduler's own default.
    if configuration.chunked_prefill and configuration.max_num_batched_tokens != SILENT_BATCHED_TOKENS:
        log.api(
            "INFO",
            "scheduler.py:252",
            f"Chunked prefill is enabled with max_num_batched_tokens={configuration.max_num_batched_tokens}.",
        )
    drafting = configuration.speculation
    if configuration.async_refused and drafting:
        log.api(
            "WARNING",
            "vllm.py:1077",
            f"Async scheduling not supported with {drafting.method}-based speculative decoding and will be disabled.",
        )
    _scheduling_and_compilation("APIServer", configuration)
    _runner_fallback("APIServer", configuration)
    log.api("INFO", "compilation.py:329", "Enabled custom fusions: norm_quant, act_quant")


def _scheduling_and_compilation(role: log.Role, configuration: Configuration) -> None:
    state = "enabled" if configuration.async_scheduling else "disabled"
    log.write(role, "INFO", "vllm.py:1109", f"Asynchronous scheduling is {state}.")
    drafting = configuration.speculation
    if drafting and configuration.async_scheduling:
        log.write(
            role,
            "WARNING",
            "vllm.py:1133",
            "Disabling cascade attention (not yet compatible with async speculative decoding).",
        )
    eager = configuration.values["enforce_eager"]
    if eager:
        log.write(
            role,
            "WARNING",
            "vllm.py:1163",
            "Enforce eager set, disabling torch.compile and CUDAGraphs. This is equivalent to setting "
            "-cc.mode=none -cc.cudagraph_mode=none",
        )
        log.write(
            role,
            "WARNING",
            "vllm.py:1213",
            "Inductor compilation was disabled by user settings, optimizations settings that are only active "
            "during inductor compilation will be ignored.",
        )
    log.write(
        role,
        "INFO",
        "kernel.py:295",
        "Final IR op priority after setting platform defaults: IrOpPriorityConfig(rms_norm=['vllm_c', 'native'], "
        "fused_add_rms_norm=['vllm_c', 'native'])",
    )
    if drafting and configuration.max_num_scheduled_tokens < 8192:
        log.write(
            role,
            "WARNING",
            "vllm.py:1718",
            f"max_num_scheduled_tokens is set to {configuration.max_num_scheduled_tokens} based on the speculative "
            "decoding settings. This may lead to suboptimal performance. Consider increasing "
            "max_num_batched_tokens to accommodate the additional draft token slots, or decrease "
            "num_speculative_tokens or max_num_seqs.",
        )
    if eager:
        log.write(role, "INFO", "vllm.py:1392", "Cudagraph is disabled under eager mode")


def _runner_fallback(role: log.Role, configuration: Configuration) -> None:
    if configuration.runner_fallback:
        log.write(
            role,
            "WARNING",
            "vllm.py:584",
            f"Model Runner V2 does not yet support {configuration.runner_fallback}; using the V1 model runner instead.",
        )


def engine(configuration: Configuration) -> None:
    """The engine core's lines up to the loaded weights."""
    log.core("INFO", "core.py:116", engine_line.message(configuration))
    _runner_fallback("EngineCore", configuration)
    log.core(
        "INFO",
        "parallel_state.py:1946",
        "rank 0 in world size 1 is assigned as DP rank 0, PP rank 0, PCP rank 0, TP rank 0, EP rank N/A, EPLB rank N/A",
    )
    drafting = configuration.speculation
    first = configuration.runner == "V1"
    if drafting and first:
        log.core(
            "WARNING",
            "__init__.py:204",
            "min_p and logit_bias parameters won't work with speculative decoding.",
        )
    if first:
        log.core("INFO", "gpu_model_runner.py:5250", f"Starting to load model {configuration.model}...")
    else:
        log.core("INFO", "gpu_worker.py:378", "Using V2 Model Runner")
        log.core("INFO", "model_runner.py:284", "Loading model from scratch...")
    log.core("INFO", "cuda.py:482", "Using FLASH_ATTN attention backend out of potential backends: "
             "['FLASH_ATTN', 'TRITON_ATTN', 'FLEX_ATTENTION'].")  # fmt: skip
    log.core("INFO", "default_loader.py:430", f"Loading weights took {LOADING_SECONDS:.2f} seconds")
    if drafting and first:
        log.core("INFO", "gpu_model_runner.py:5274", "Loading drafter model...")
    weights = f"{configuration.host.weight_bytes / GIB:.2f}"
    if first:
        log.core(
            "INFO",
            "gpu_model_runner.py:5347",
            f"Model loading took {weights} GiB memory and {LOADING_SECONDS + 0.26:.6f} seconds",
        )
    else:
        log.core(
            "INFO",
            "model_runner.py:305",
            f"Model loading took {weights} GiB and {LOADING_SECONDS + 0.26:.6f} seconds",
        )


def _device(configuration: Configuration) -> str:
    # 0.26.0 says GPU on every device.
    return "GPU" if configuration.version == "0.26.0" else configuration.host.device


def memory(configuration: Configuration, seconds: float) -> None:
    """The KV cache lines and the end of the engine's initialisation (`seconds` long)."""
    values = configuration.values
    kv_gib = configuration.kv_cache_bytes / GIB
    if values["kv_cache_memory_bytes"] is None:
        log.core("INFO", "gpu_worker.py:560", f"Available KV cache memory: {kv_gib:.2f} GiB")
    if values["num_gpu_blocks_override"]:
        profiled = configuration.kv_cache_bytes // (configuration.block_size * configuration.host.kv_bytes_per_token)
        log.core(
            "INFO",
            "kv_cache_utils.py:1010",
            f"Overriding num_gpu_blocks={profiled} with num_gpu_blocks_override={values['num_gpu_blocks_override']}",
        )
    log.core(
        "INFO",
        "kv_cache_utils.py:2177",
        f"{_device(configuration)} KV cache size: {configuration.kv_cache_tokens:,} tokens",
    )
    log.core(
        "INFO",
        "kv_cache_utils.py:2178",
        f"Maximum concurrency for {configuration.max_model_len:,} tokens per request: "
        f"{configuration.max_concurrency:.2f}x",
    )
    if not values["enforce_eager"]:
        source = "gpu_model_runner.py:6844" if configuration.runner == "V1" else "model_runner.py:747"
        log.core("INFO", source, "Graph capturing finished in 3 secs, took 0.31 GiB")
    if values["kv_cache_memory_bytes"] is None:
        _memory_prose(configuration)
    log.core("INFO", "core.py:347", f"init engine (profile, create kv cache, warmup model) took {seconds:.2f} s")
    _scheduling_and_compilation("EngineCore", configuration)
    log.core("INFO", "compilation.py:329", "Enabled custom fusions: norm_quant, act_quant")


def _memory_prose(configuration: Configuration) -> None:
    host = configuration.host
    total = host.memory_bytes / GIB
    share = configuration.values["gpu_memory_utilization"]
    fit = configuration.kv_cache_bytes - int(0.15 * GIB)
    full = int(host.memory_bytes * 0.99) - host.weight_bytes - configuration.activation_bytes - host.non_torch_bytes
    log.core(
        "INFO",
        "gpu_worker.py:857",
        f"Free memory on device ({total - 0.4:.2f}/{total:.2f} GiB) on startup. Desired GPU memory utilization is "
        f"({share}, {total * share:.2f} GiB). Actual usage is {host.weight_bytes / GIB:.2f} GiB for weight, "
        f"{configuration.activation_bytes / GIB:.2f} GiB for peak activation, "
        f"{host.non_torch_bytes / GIB:.2f} GiB for non-torch memory, and 0.0 GiB for CUDAGraph memory. "
        "Replace gpu_memory_utilization config with "
        f"`--kv-cache-memory={fit}` ({fit / GIB:.2f} GiB) to fit into requested memory, or "
        f"`--kv-cache-memory={full}` ({full / GIB:.2f} GiB) to fully utilize gpu memory. Current kv cache memory in "
        f"use is {configuration.kv_cache_bytes / GIB:.2f} GiB.",
    )


def serving(configuration: Configuration, address: str, routes: Iterable[tuple[str, str]]) -> None:
    """The last lines before uvicorn's own: tasks, address, and the routes (path, methods) that exist."""
    log.api("INFO", "api_server.py:673", "Supported tasks: ['generate']")
    if configuration.development:
        log.api(
            "WARNING",
            "__init__.py:36",
            "SECURITY WARNING: Development endpoints are enabled! This should NOT be used in production!",
        )
    log.api(
        "INFO",
        "hf.py:540",
        "Detected the chat template content format to be 'string'. You can set `--chat-template-content-format` to "
        "override this.",
    )
    log.api("INFO", "api_server.py:677", f"Starting vLLM server on {address}")
    log.api("INFO", "launcher.py:37", "Available routes are:")
    for path, methods in routes:
        log.api("INFO", "launcher.py:46", f"Route: {path}, Methods: {methods}")


def shutdown() -> None:
    """The lines between the signal and uvicorn's farewell."""
    for source, text in (
        ("launcher.py:100", "API server: shutdown triggered"),
        ("launcher.py:116", "API server: stopping engine client mode=abort timeout=0s"),
        ("core_client.py:655", "MPClient: start timeout=0s"),
        ("core_client.py:657", "MPClient: stopping engine manager"),
    ):
        log.api("INFO", source, f"[shutdown] {text}")
    for source, text in (
        ("core.py:1313", "EngineCore: trigger received signal=SIGTERM"),
        ("core.py:1432", "EngineCore: start mode=abort timeout=0s"),
        ("core.py:1463", "EngineCore: request processing complete; starting resource teardown"),
        ("core.py:1326", "EngineCore: exiting busy loop"),
    ):
        log.core("INFO", source, f"[shutdown] {text}")
    for source, text in (
        ("core_client.py:659", "MPClient: engine manager stopped"),
        ("core_client.py:662", "MPClient: complete"),
        ("launcher.py:125", "API server: engine client stopped"),
        ("launcher.py:128", "API server: signalling HTTP server shutdown"),
        ("launcher.py:149", "API server: shutting down FastAPI HTTP server"),
    ):
        log.api("INFO", source, f"[shutdown] {text}")
