"""Speculative decoding options of vLLM 0.26.0: from flags to an effective configuration.

Source of the rules and of the messages: vllm-project/vllm 0.26.0, ``engine/arg_utils.py``,
``config/speculative.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runner.simulator.refusal import NotSimulated

# Methods that async scheduling does not support on Model Runner V1.
WITHOUT_ASYNC = frozenset({"ngram", "medusa", "mlp_speculator", "draft_model", "suffix", "custom_class"})
SIMULATED = ("ngram", "ngram_gpu")
_READ = frozenset({
    "model", "num_speculative_tokens", "method", "prompt_lookup_min", "prompt_lookup_max", "tensor_parallel_size",
})  # fmt: skip
# The other fields of SpeculativeConfig, with the values that change nothing.
_KNOWN: Mapping[str, Any] = {
    **dict.fromkeys((
        "enforce_eager", "draft_tensor_parallel_size", "quantization", "moe_backend", "attention_backend",
        "kv_cache_dtype", "max_model_len", "revision", "code_revision", "num_speculative_tokens_per_batch_size",
        "draft_load_config", "synthetic_acceptance_rates", "synthetic_acceptance_length",
    )),
    **dict.fromkeys((
        "disable_padded_drafter_batch", "use_local_argmax_reduction", "use_heterogeneous_vocab", "parallel_drafting",
    ), False),
    "suffix_decoding_max_tree_depth": 24,
    "suffix_decoding_max_cached_requests": 10000,
    "suffix_decoding_max_spec_factor": 1.0,
    "suffix_decoding_min_token_prob": 0.1,
    "rejection_sample_method": "standard",
    "draft_sample_method": "greedy",
}  # fmt: skip
_FLAT = {"spec_method": "method", "spec_model": "model", "spec_tokens": "num_speculative_tokens"}


@dataclass(frozen=True, slots=True)
class Speculation:
    """Effective drafting options; `tokens` is K."""

    method: str
    tokens: int
    prompt_lookup_min: int
    prompt_lookup_max: int
    model: str | None

    def __str__(self) -> str:
        return f"SpeculativeConfig(method={self.method!r}, model={self.model!r}, num_spec_tokens={self.tokens})"


def from_arguments(values: Mapping[str, Any]) -> Speculation | None:
    """None when nothing asks for speculation. Raises ValueError with vLLM's words for a bad combination."""
    given = values["speculative_config"]
    if given is not None and not isinstance(given, dict):
        raise ValueError(
            "1 validation error for SpeculativeConfig\n  Input should be a dictionary or an instance of "
            f"SpeculativeConfig [type=dataclass_type, input_value={given!r}, input_type={type(given).__name__}]"
        )
    options: dict[str, Any] = dict(given or {})
    for flag, key in _FLAT.items():
        if values[flag] is None:
            continue
        if key in options:
            name = flag.replace("_", "-")
            raise ValueError(f"--{name} and --speculative-config['{key}'] are mutually exclusive")
        options[key] = values[flag]
    options = {key.replace("-", "_"): value for key, value in options.items()}
    return _build(options, str(values["model"])) if options else None


def _build(options: Mapping[str, Any], target: str) -> Speculation:
    model = options.get("model")
    tokens = options.get("num_speculative_tokens")
    method = options.get("method")
    if method is None:
        method = "ngram" if model in ("ngram", "[ngram]") else "draft_model"
    if tokens is not None and (not isinstance(tokens, int) or isinstance(tokens, bool) or tokens <= 0):
        raise ValueError(
            "1 validation error for SpeculativeConfig\nnum_speculative_tokens\n"
            f"  Input should be greater than 0 [type=greater_than, input_value={tokens!r}, input_type=int]"
        )
    _check_fields(options)
    if method == "draft_model" and model is None and tokens is not None:
        raise ValueError("num_speculative_tokens was provided but without speculative model.")
    if tokens is None:
        raise ValueError(
            "num_speculative_tokens must be provided with speculative model unless the draft model config "
            "contains an n_predict parameter."
        )
    if options.get("tensor_parallel_size") is not None:
        raise ValueError(
            "'tensor_parallel_size' is not a valid argument in the speculative_config. "
            "Please pass 'draft_tensor_parallel_size' instead."
        )
    if method not in SIMULATED:
        raise NotSimulated(f"The embedded engine does not simulate the speculative method {method!r}.")
    low, high = _lookup_window(options.get("prompt_lookup_min"), options.get("prompt_lookup_max"))
    # N-gram on the GPU names the target's path as its model, plain N-gram none.
    return Speculation(method, tokens, low, high, None if method == "ngram" else target)


def _check_fields(options: Mapping[str, Any]) -> None:
    """Raise ValueError for a key that vLLM does not know, NotSimulated for one whose effect does not exist here."""
    for name, value in options.items():
        if name in _READ:
            continue
        if name not in _KNOWN:
            raise ValueError(
                f"1 validation error for SpeculativeConfig\n{name}\n  Unexpected keyword argument "
                f"[type=unexpected_keyword_argument, input_value={value!r}, input_type={type(value).__name__}]"
            )
        if value != _KNOWN[name]:
            raise NotSimulated(
                f"The embedded engine does not simulate speculative_config[{name!r}] (given: {value!r})."
            )
    for name in ("prompt_lookup_min", "prompt_lookup_max"):
        value = options.get(name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise ValueError(
                f"1 validation error for SpeculativeConfig\n{name}\n  Input should be a valid integer "
                f"[type=int_parsing, input_value={value!r}, input_type={type(value).__name__}]"
            )


def _lookup_window(low: int | None, high: int | None) -> tuple[int, int]:
    if low is None and high is None:
        return 5, 5
    low = high if low is None else low
    high = low if high is None else high
    assert low is not None
    assert high is not None
    if low < 1:
        raise ValueError(f"prompt_lookup_min={low} must be > 0")
    if high < 1:
        raise ValueError(f"prompt_lookup_max={high} must be > 0")
    if low > high:
        raise ValueError(f"prompt_lookup_min={low} must be <= prompt_lookup_max={high}")
    return low, high
