"""The flags of ``vllm serve`` 0.26.0 that the embedded engine knows, in vLLM's order of registration.

The order matters: ``non-default args`` is printed in it. A flag that is listed here but has no simulated
effect is still parsed by type and shown there; a flag that is not listed is an argparse error, as in vLLM.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

SPEC_METHODS = (
    "ngram", "ngram_gpu", "medusa", "mlp_speculator", "draft_model", "suffix", "custom_class", "eagle",
    "eagle3", "extract_hidden_states", "mtp", "dflash", "dspark",
)  # fmt: skip

_DECIMAL = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def human_int(text: str) -> int:
    """``4096``, ``4k`` (4000), ``4K`` (4096), ``25.6k``. Raises ValueError for anything else."""
    found = re.fullmatch(r"(-?\d+(?:\.\d+)?)([kKmMgGtT])?", text.strip())
    if not found:
        raise ValueError(f"invalid number {text!r}")
    number, suffix = found.groups()
    if suffix is None:
        return int(number)
    factor = _DECIMAL.get(suffix) or _BINARY[suffix]
    if suffix in _BINARY and "." in number:
        raise ValueError(f"a binary suffix takes a whole number, not {text!r}")
    return int(float(number) * factor)


human_int.__name__ = "human_readable_int"


def model_length(text: str) -> int:
    """A human-readable length, or ``auto`` (-1)."""
    return -1 if text == "auto" else human_int(text)


def optional(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    """A type that also takes ``None``."""

    def parse(text: str) -> Any:
        return None if text in ("None", "none", "") else kind(text)

    parse.__name__ = kind.__name__
    return parse


def json_object(text: str) -> Any:
    """A JSON value. Raises ValueError when it is none."""
    return json.loads(text)


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag: `kind` is None for a switch (``--x`` / ``--no-x``), `many` for a list of values."""

    name: str
    kind: Callable[[str], Any] | None
    default: Any = None
    many: bool = False
    choices: tuple[str, ...] | None = None
    short: str | None = None


def _switch(name: str, default: bool | None = False) -> Flag:
    return Flag(name, None, default)


FLAGS: tuple[Flag, ...] = (
    # The API server.
    _switch("headless"),
    Flag("api-server-count", int, None, short="-asc"),
    Flag("host", str),
    Flag("port", int, 8000),
    Flag("uvicorn-log-level", str, "info"),
    _switch("disable-uvicorn-access-log"),
    Flag("disable-access-log-for-endpoints", str),
    _switch("allow-credentials"),
    Flag("allowed-origins", json_object, ["*"]),
    Flag("allowed-methods", json_object, ["*"]),
    Flag("allowed-headers", json_object, ["*"]),
    Flag("api-key", str, None, many=True),
    Flag("ssl-keyfile", str),
    Flag("ssl-certfile", str),
    Flag("root-path", str),
    Flag("lora-modules", str, None, many=True),
    Flag("chat-template", str),
    Flag("chat-template-content-format", str, "auto", choices=("auto", "string", "openai")),
    Flag("response-role", str, "assistant"),
    _switch("enable-auto-tool-choice"),
    Flag("tool-call-parser", str),
    _switch("enable-request-id-headers"),
    _switch("return-tokens-as-token-ids"),
    _switch("enable-prompt-tokens-details"),
    _switch("enable-server-load-tracking"),
    _switch("enable-force-include-usage"),
    _switch("enable-tokenizer-info-endpoint"),
    _switch("enable-per-request-metrics"),
    _switch("disable-fastapi-docs"),
    # The model.
    Flag("model", str, "Qwen/Qwen3-0.6B"),
    Flag("runner", str, "auto", choices=("auto", "generate", "pooling", "draft")),
    Flag("tokenizer", optional(str)),
    Flag("tokenizer-mode", str, "auto"),
    _switch("trust-remote-code"),
    Flag("dtype", str, "auto", choices=("auto", "bfloat16", "float", "float16", "float32", "half")),
    Flag("seed", int, 0),
    Flag("hf-config-path", optional(str)),
    Flag("revision", optional(str)),
    Flag("code-revision", optional(str)),
    Flag("tokenizer-revision", optional(str)),
    Flag("max-model-len", model_length),
    Flag("quantization", optional(str), short="-q"),
    _switch("enforce-eager"),
    Flag("max-logprobs", int, 20),
    _switch("disable-sliding-window"),
    _switch("disable-cascade-attn", True),
    _switch("skip-tokenizer-init"),
    Flag("served-model-name", str, None, many=True),
    Flag("config-format", str, "auto"),
    Flag("hf-token", optional(str)),
    Flag("hf-overrides", json_object, {}),
    Flag("generation-config", str, "auto"),
    Flag("override-generation-config", json_object, {}),
    _switch("enable-sleep-mode"),
    Flag("model-impl", str, "auto"),
    # Loading.
    Flag("load-format", str, "auto"),
    Flag("download-dir", optional(str)),
    Flag("model-loader-extra-config", json_object, {}),
    Flag("attention-backend", optional(str)),
    Flag("reasoning-parser", str, ""),
    # Parallelism.
    Flag("distributed-executor-backend", optional(str)),
    Flag("pipeline-parallel-size", int, 1, short="-pp"),
    Flag("tensor-parallel-size", int, 1, short="-tp"),
    Flag("data-parallel-size", int, 1, short="-dp"),
    _switch("enable-expert-parallel"),
    _switch("disable-custom-all-reduce"),
    # The KV cache.
    Flag("block-size", optional(int)),
    Flag("gpu-memory-utilization", float, 0.92),
    Flag("kv-cache-memory-bytes", optional(human_int)),
    Flag("swap-space", float, 4.0),
    Flag("kv-cache-dtype", str, "auto"),
    Flag("num-gpu-blocks-override", optional(int)),
    _switch("enable-prefix-caching", None),
    Flag("prefix-caching-hash-algo", str, "sha256"),
    Flag("cpu-offload-gb", float, 0.0),
    Flag("limit-mm-per-prompt", json_object, {}),
    _switch("enable-lora"),
    _switch("enable-mfu-metrics"),
    _switch("kv-cache-metrics"),
    # The scheduler.
    Flag("max-num-batched-tokens", optional(human_int)),
    Flag("max-num-seqs", optional(int)),
    Flag("max-num-scheduled-tokens", optional(human_int)),
    Flag("long-prefill-token-threshold", int, 0),
    Flag("scheduling-policy", str, "fcfs", choices=("fcfs", "priority")),
    _switch("enable-chunked-prefill", None),
    _switch("async-scheduling", None),
    Flag("stream-interval", int, 1),
    # Compilation and speculation.
    Flag("compilation-config", json_object, None, short="-cc"),
    Flag("kernel-config", json_object, None),
    Flag("speculative-config", json_object, None, short="-sc"),
    Flag("spec-method", str, None, choices=SPEC_METHODS),
    Flag("spec-model", str),
    Flag("spec-tokens", int),
    Flag("additional-config", json_object, {}),
    Flag("optimization-level", int, 2),
    # Logging.
    _switch("disable-log-stats"),
    _switch("enable-log-requests"),
)
