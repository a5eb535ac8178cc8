"""What vLLM prints while it starts, in its order, for one configuration.

Lines that tell of the host alone (libraries, file system, thread binding) are the profile's; those that depend on the
release have their words in :mod:`runner.simulator.wording`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from typing import Any

from runner.simulator import engine_line, log, wording
from runner.simulator.configuration import GIB, Configuration
from runner.simulator.profile import Profile
from runner.simulator.release import Release

SILENT_BATCHED_TOKENS = 2048  # the scheduler's own default: vLLM does not mention it
LOADING_SECONDS = 0.97  # what the simulated loader says of itself


def _line(configuration: Configuration, role: str, level: str, name: str, message: str) -> None:
    log.write(role, level, wording.of(configuration.release).source[name], message)


def _host_lines(profile: Profile, version: str, place: str, **values: str) -> None:
    clock = time.strftime("%m%d %H:%M:%S.000000")
    places = {"moment": f"{clock} {os.getpid()}", "clock": clock, **values}
    for line in profile.host.host_lines(version, place):
        role, level, source, text = (_filled(part, places) for part in line)
        log.write(role, level, source, text)


def _filled(text: str, places: Mapping[str, str]) -> str:
    # Not str.format: braces of other kinds stand in these lines.
    for name, value in places.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def banner(release: Release, profile: Profile, model: str) -> None:
    """vLLM's logo with version and model."""
    _host_lines(profile, release.version, "import")
    logo = (
        "",
        "       █     █     █▄   ▄█",
        f" ▄▄ ▄█ █     █     █ ▀▄▀ █  version {release.version}",
        f"  █▄█▀ █     █     █     █  model   {model}",
        "   ▀▀  ▀▀▀▀▀ ▀▀▀▀▀ ▀     ▀",
        "",
    )
    log.api("INFO", wording.of(release).source["banner"], "\n".join(logo))


def non_default_arguments(release: Release, profile: Profile, non_default: Mapping[str, Any]) -> None:
    """The line that shows what was parsed, before anything is built from it."""
    log.api("INFO", wording.of(release).source["arguments"], f"non-default args: {dict(non_default)}")
    _host_lines(profile, release.version, "arguments")


def resolved(configuration: Configuration) -> None:
    """The API server's lines on the configuration that it built."""
    words = wording.of(configuration.release)
    role = "APIServer"
    _line(configuration, role, "INFO", "architecture", f"Resolved architecture: {configuration.host.architecture}")
    _line(configuration, role, "INFO", "length", f"Using max model len {configuration.max_model_len}")
    batched = configuration.max_num_batched_tokens
    # vLLM is silent when the value is its scheduler's own default.
    if configuration.chunked_prefill and batched != SILENT_BATCHED_TOKENS:
        text = f"Chunked prefill is enabled with max_num_batched_tokens={batched}."
        _line(configuration, role, "INFO", "chunked", text)
    drafting = configuration.speculation
    if configuration.async_refused and drafting:
        text = words.async_refused.format(method=drafting.method)
        _line(configuration, role, "WARNING", "async-refused", text)
    _scheduling(role, configuration, asynchronous=configuration.async_scheduling)
    _runner_fallback(role, configuration)
    _line(configuration, role, "INFO", "fusions", "Enabled custom fusions: norm_quant, act_quant")


def _scheduling(role: str, configuration: Configuration, *, asynchronous: bool) -> None:
    words = wording.of(configuration.release)
    drafting = configuration.speculation
    if words.states_async:
        state = "enabled" if asynchronous else "disabled"
        _line(configuration, role, "INFO", "async", f"Asynchronous scheduling is {state}.")
        if drafting and asynchronous:
            text = "Disabling cascade attention (not yet compatible with async speculative decoding)."
            _line(configuration, role, "WARNING", "cascade", text)
    eager = configuration.values["enforce_eager"]
    if eager:
        _line(configuration, role, "WARNING", "eager", words.eager)
        _line(configuration, role, "WARNING", "inductor",
              "Inductor compilation was disabled by user settings, optimizations settings that are only active "
              "during inductor compilation will be ignored.")  # fmt: skip
    priority = engine_line.operation_priority(configuration)
    text = f"Final IR op priority after setting platform defaults: {priority}"
    _line(configuration, role, "INFO", "operations", text)
    if drafting and configuration.max_num_scheduled_tokens < 8192:
        _line(configuration, role, "WARNING", "scheduled",
              f"max_num_scheduled_tokens is set to {configuration.max_num_scheduled_tokens} based on the speculative "
              "decoding settings. This may lead to suboptimal performance. Consider increasing "
              "max_num_batched_tokens to accommodate the additional draft token slots, or decrease "
              f"{words.fewer_drafts}")  # fmt: skip
    _host_lines(configuration.profile, configuration.version, "platform", role=role)
    if eager and configuration.host.device == "GPU":
        _line(configuration, role, "INFO", "graphs", "Cudagraph is disabled under eager mode")


def _runner_fallback(role: str, configuration: Configuration) -> None:
    if not configuration.host.triton:
        text = "Model Runner V2 requires Triton; using the V1 model runner instead."
        _line(configuration, role, "WARNING", "no-triton", text)
    elif configuration.runner_fallback:
        reason = configuration.runner_fallback
        text = f"Model Runner V2 does not yet support {reason}; using the V1 model runner instead."
        _line(configuration, role, "WARNING", "fallback", text)


def engine(configuration: Configuration, environment: Mapping[str, str]) -> None:
    """The engine core's lines up to the loaded weights."""
    words = wording.of(configuration.release)
    profile, version, worker = configuration.profile, configuration.version, configuration.host.worker
    _host_lines(profile, version, "engine-import")
    _line(configuration, "EngineCore", "INFO", "engine", engine_line.message(configuration))
    if configuration.host.triton:
        _runner_fallback("EngineCore", configuration)
    drafting = configuration.speculation
    first = configuration.runner == "V1"
    _host_lines(profile, version, "worker")
    if drafting:
        _host_lines(profile, version, "worker-drafting")
    _host_lines(profile, version, "distributed")
    _line(configuration, worker, "INFO", "rank", words.rank)
    if first:
        _sampler(configuration, environment)
        if drafting:
            text = "min_p and logit_bias parameters won't work with speculative decoding."
            _line(configuration, worker, "WARNING", "min-p", text)
        name = "load-V1" if configuration.host.device == "GPU" else "load-CPU"
        _line(configuration, worker, "INFO", name, f"Starting to load model {configuration.model}...")
    else:
        _line(configuration, worker, "INFO", "runner", "Using V2 Model Runner")
        _line(configuration, worker, "INFO", "load-V2", "Loading model from scratch...")
    _host_lines(profile, version, "checkpoint")
    _line(configuration, worker, "INFO", "weights", f"Loading weights took {LOADING_SECONDS:.2f} seconds")
    _host_lines(profile, version, "weights")
    if drafting and first:
        _line(configuration, worker, "INFO", f"drafter-{configuration.host.device}", "Loading drafter model...")
    if configuration.host.device == "GPU":
        _loaded(configuration, first=first)
    if not first:
        _sampler(configuration, environment)


def _sampler(configuration: Configuration, environment: Mapping[str, str]) -> None:
    if environment.get("VLLM_USE_FLASHINFER_SAMPLER") == "0" and configuration.host.device == "GPU":
        text = "FlashInfer top-p/top-k sampling disabled via VLLM_USE_FLASHINFER_SAMPLER=0."
        _line(configuration, configuration.host.worker, "INFO", "sampler", text)


def _loaded(configuration: Configuration, *, first: bool) -> None:
    memory = " memory" if first else wording.of(configuration.release).second_runner_memory
    weights = f"{configuration.host.weight_bytes / GIB:.2f}"
    text = f"Model loading took {weights} GiB{memory} and {LOADING_SECONDS + 0.26:.6f} seconds"
    _line(configuration, configuration.host.worker, "INFO", "loaded-V1" if first else "loaded-V2", text)


def device_word(configuration: Configuration) -> str:
    """The device in the lines on the KV cache; 0.26.0 says GPU on every device."""
    return configuration.host.device if wording.of(configuration.release).says_device else "GPU"


def memory(configuration: Configuration, seconds: float) -> None:
    """The KV cache lines and the end of the engine's initialisation (`seconds` long)."""
    values = configuration.values
    profile, version, role = configuration.profile, configuration.version, "EngineCore"
    kv_gib = f"{configuration.kv_cache_bytes / GIB:.2f}"
    profiled = values["kv_cache_memory_bytes"] is None
    _host_lines(profile, version, "warm-up", kv_gib=kv_gib)
    if profiled:
        _line(configuration, configuration.host.worker, "INFO", "kv-memory", f"Available KV cache memory: {kv_gib} GiB")
    if values["num_gpu_blocks_override"]:
        blocks = configuration.kv_cache_bytes // (configuration.block_size * configuration.host.kv_bytes_per_token)
        override = values["num_gpu_blocks_override"]
        text = f"Overriding num_gpu_blocks={blocks} with num_gpu_blocks_override={override}"
        _line(configuration, role, "INFO", "blocks", text)
    size = f"{device_word(configuration)} KV cache size: {configuration.kv_cache_tokens:,} tokens"
    concurrency = (
        f"Maximum concurrency for {configuration.max_model_len:,} tokens per request: "
        f"{configuration.max_concurrency:.2f}x"
    )
    if wording.of(configuration.release).kv_on_one_line:
        _line(configuration, role, "INFO", "kv-size", f"{size}, {concurrency}")
    else:
        _line(configuration, role, "INFO", "kv-size", size)
        _line(configuration, role, "INFO", "concurrency", concurrency)
    if not values["enforce_eager"]:
        text = "Graph capturing finished in 3 secs, took 0.31 GiB"
        _line(configuration, role, "INFO", f"captured-{configuration.runner}", text)
    _host_lines(profile, version, "kernels")
    if profiled:
        _line(configuration, role, "INFO", "memory", _memory_prose(configuration))
    _host_lines(profile, version, "monitor")
    text = f"init engine (profile, create kv cache, warmup model) took {seconds:.2f} s"
    _line(configuration, role, "INFO", "initialised", text)
    if not configuration.host.triton:
        _runner_fallback(role, configuration)
    # The CPU's executor turns async scheduling off after the API server has said that it is on.
    _scheduling(role, configuration, asynchronous=configuration.async_in_force)
    _line(configuration, role, "INFO", "fusions", "Enabled custom fusions: norm_quant, act_quant")


def _memory_prose(configuration: Configuration) -> str:
    host = configuration.host
    total = host.memory_bytes / GIB
    share = configuration.values["gpu_memory_utilization"]
    fit = configuration.kv_cache_bytes - int(0.15 * GIB)
    full = int(host.memory_bytes * 0.99) - host.weight_bytes - configuration.activation_bytes - host.non_torch_bytes
    return (
        f"Free memory on device ({total - 0.4:.2f}/{total:.2f} GiB) on startup. Desired GPU memory utilization is "
        f"({share}, {total * share:.2f} GiB). Actual usage is {host.weight_bytes / GIB:.2f} GiB for weight, "
        f"{configuration.activation_bytes / GIB:.2f} GiB for peak activation, "
        f"{host.non_torch_bytes / GIB:.2f} GiB for non-torch memory, and 0.0 GiB for CUDAGraph memory. "
        "Replace gpu_memory_utilization config with "
        f"`--kv-cache-memory={fit}` ({fit / GIB:.2f} GiB) to fit into requested memory, or "
        f"`--kv-cache-memory={full}` ({full / GIB:.2f} GiB) to fully utilize gpu memory. Current kv cache memory in "
        f"use is {configuration.kv_cache_bytes / GIB:.2f} GiB."
    )


def serving(configuration: Configuration, address: str, routes: Iterable[tuple[str, str]]) -> None:
    """The last lines before uvicorn's own: tasks, address, and the routes (path, methods) that exist."""
    role = "APIServer"
    _line(configuration, role, "INFO", "tasks", "Supported tasks: ['generate']")
    if configuration.development:
        text = "SECURITY WARNING: Development endpoints are enabled! This should NOT be used in production!"
        _line(configuration, role, "WARNING", "development", text)
    if wording.of(configuration.release).scale_out:
        text = "Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them."
        _line(configuration, role, "INFO", "scale-out", text)
    _line(configuration, role, "INFO", "template",
          "Detected the chat template content format to be 'string'. You can set `--chat-template-content-format` to "
          "override this.")  # fmt: skip
    _line(configuration, role, "INFO", "address", f"Starting vLLM server on {address}")
    _line(configuration, role, "INFO", "routes", "Available routes are:")
    for path, methods in routes:
        _line(configuration, role, "INFO", "route", f"Route: {path}, Methods: {methods}")
