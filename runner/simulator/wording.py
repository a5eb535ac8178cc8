"""Words of the log that differ between releases: where a line comes from, and what it says.

0.26.0 and 0.32.0 are as recorded (GPU and CPU, CPU). 0.33.0 follows a reading of its source and was never recorded. A
line whose number is not known for a release keeps that of the release before: numbers are no evidence of anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from runner.simulator.release import Release

_SOURCES_0_26: Mapping[str, str] = {
    "banner": "api_utils.py:345",
    "arguments": "api_utils.py:273",
    "architecture": "model.py:623",
    "length": "model.py:1788",
    "chunked": "scheduler.py:252",
    "async-refused": "vllm.py:1077",
    "async": "vllm.py:1109",
    "cascade": "vllm.py:1133",
    "eager": "vllm.py:1163",
    "inductor": "vllm.py:1213",
    "operations": "kernel.py:295",
    "scheduled": "vllm.py:1718",
    "graphs": "vllm.py:1392",
    "no-triton": "vllm.py:577",
    "fallback": "vllm.py:584",
    "fusions": "compilation.py:329",
    "engine": "core.py:116",
    "rank": "parallel_state.py:1946",
    "sampler": "topk_topp_sampler.py:39",
    "min-p": "__init__.py:204",
    "runner": "gpu_worker.py:378",
    "load-V1": "gpu_model_runner.py:5250",
    "load-V2": "model_runner.py:284",
    "load-CPU": "cpu_model_runner.py:128",
    "weights": "default_loader.py:430",
    "drafter-GPU": "gpu_model_runner.py:5274",
    "drafter-CPU": "cpu_model_runner.py:135",
    "loaded-V1": "gpu_model_runner.py:5347",
    "loaded-V2": "model_runner.py:305",
    "kv-memory": "gpu_worker.py:560",
    "blocks": "kv_cache_utils.py:1010",
    "kv-size": "kv_cache_utils.py:2177",
    "concurrency": "kv_cache_utils.py:2178",
    "captured-V1": "gpu_model_runner.py:6844",
    "captured-V2": "model_runner.py:747",
    "memory": "gpu_worker.py:857",
    "initialised": "core.py:347",
    "tasks": "api_server.py:673",
    "development": "__init__.py:36",
    "scale-out": "factories.py:89",
    "template": "hf.py:540",
    "address": "api_server.py:677",
    "routes": "launcher.py:37",
    "route": "launcher.py:46",
    "jit": "jit_monitor.py:135",
    "statistics": "loggers.py:310",
    "drafts": "metrics.py:120",
    "model-error": "serving.py:228",
    "template-error": "hf.py:786",
}
_SOURCES_0_32: Mapping[str, str] = {
    **_SOURCES_0_26,
    "banner": "api_utils.py:347",
    "arguments": "api_utils.py:286",
    "architecture": "model.py:733",
    "length": "model.py:2152",
    "async-refused": "vllm.py:1605",
    "eager": "vllm.py:1703",
    "inductor": "vllm.py:1727",
    "operations": "kernel.py:467",
    "scheduled": "vllm.py:2276",
    "no-triton": "vllm.py:725",
    "fusions": "compilation.py:317",
    "engine": "core.py:133",
    "rank": "parallel_state.py:2350",
    "min-p": "__init__.py:211",
    "load-CPU": "cpu_model_runner.py:68",
    "weights": "default_loader.py:501",
    "drafter-CPU": "cpu_model_runner.py:75",
    "kv-size": "kv_cache_utils.py:2327",
    "initialised": "core.py:402",
    "tasks": "entry.py:136",
    "template": "hf.py:648",
    "address": "entry.py:140",
    "routes": "launcher.py:186",
    "route": "launcher.py:195",
    "statistics": "loggers.py:335",
    "model-error": "serving.py:274",
}
_SOURCES_0_33: Mapping[str, str] = {
    **_SOURCES_0_32,
    "arguments": "startup.py:96",
    "chunked": "scheduler.py:310",
    "engine": "core.py:139",
    "runner": "gpu_worker.py:513",
    "load-V2": "model_runner.py:399",
    "loaded-V2": "model_runner.py:428",
    "weights": "default_loader.py:506",
    "kv-memory": "gpu_worker.py:772",
    "captured-V2": "model_runner.py:1163",
    "tasks": "entry.py:135",
    "address": "entry.py:139",
    "routes": "launcher.py:188",
}

_REFUSED_0_26 = "Async scheduling not supported with {method}-based speculative decoding and will be disabled."
_REFUSED_0_33 = (
    "Async scheduling is disabled because the V1 model runner does not support it with {method}-based speculative "
    "decoding."
)
_EAGER_0_26 = (
    "Enforce eager set, disabling torch.compile and CUDAGraphs. This is equivalent to setting -cc.mode=none "
    "-cc.cudagraph_mode=none"
)
_EAGER_0_32 = (
    "Enforce eager set, disabling torch.compile, CUDAGraphs, and JIT kernel warmup. This is equivalent to setting "
    "-cc.mode=none -cc.cudagraph_mode=none and --kernel_config.enable_jit_warmup=False"
)
_RANK = (
    "rank 0 in world size 1 is assigned as DP rank 0, PP rank 0, PCP rank 0, TP rank 0, {}EP rank N/A, EPLB rank N/A"
)


@dataclass(frozen=True, slots=True)
class Wording:
    """One release's words. `source` keys are the names of the table above."""

    source: Mapping[str, str]
    async_refused: str  # with a place for {method}
    eager: str
    fewer_drafts: str  # the end of the warning about max_num_scheduled_tokens
    rank: str
    second_runner_memory: str  # what stands between GiB and "and" in Model Runner V2's line
    states_async: bool  # says that async scheduling is on or off
    kv_on_one_line: bool
    says_device: bool  # the KV cache's device by its name; otherwise always GPU
    hit_rate_waits: bool  # no prefix cache hit rate before a first look-up
    prefixes_streams: bool  # everything that the process writes, uvicorn's lines too, carries the process's name
    operations: tuple[str, ...]  # names of the operations that have several implementations
    scale_out: bool  # mentions that scale-out endpoints are off


_FIRST = Wording(
    source=_SOURCES_0_26,
    async_refused=_REFUSED_0_26,
    eager=_EAGER_0_26,
    fewer_drafts="num_speculative_tokens or max_num_seqs.",
    rank=_RANK.format(""),
    second_runner_memory="",
    states_async=True,
    kv_on_one_line=False,
    says_device=False,
    hit_rate_waits=False,
    prefixes_streams=True,
    operations=("rms_norm", "fused_add_rms_norm"),
    scale_out=False,
)


def _later(source: Mapping[str, str], async_refused: str, *, hit_rate_waits: bool) -> Wording:
    return Wording(
        source=source,
        async_refused=async_refused,
        eager=_EAGER_0_32,
        fewer_drafts="num_speculative_tokens.",
        rank=_RANK.format("ETP rank 0, "),
        second_runner_memory=" memory",
        states_async=False,
        kv_on_one_line=True,
        says_device=True,
        hit_rate_waits=hit_rate_waits,
        prefixes_streams=False,
        operations=("rms_norm", "fused_add_rms_norm", "gelu_and_mul_sparse"),
        scale_out=True,
    )


_WORDINGS: Mapping[str, Wording] = {
    "0.26.0": _FIRST,
    "0.32.0": _later(_SOURCES_0_32, _REFUSED_0_26, hit_rate_waits=False),
    "0.33.0": _later(_SOURCES_0_33, _REFUSED_0_33, hit_rate_waits=True),
}


def of(release: Release) -> Wording:
    """The words of a release."""
    return _WORDINGS[release.version]
