"""Speculative decoding options of vLLM 0.26.0: from flags to an effective configuration.

Source of the rules and of the messages: vllm-project/vllm 0.26.0, ``engine/arg_utils.py``,
``config/speculative.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Methods that async scheduling does not support on Model Runner V1.
WITHOUT_ASYNC = frozenset({"ngram", "medusa", "mlp_speculator", "draft_model", "suffix", "custom_class"})
SIMULATED = ("ngram", "ngram_gpu")
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
    options: dict[str, Any] = dict(values["speculative_config"] or {})
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
    if method == "draft_model" and model is None:
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
        raise ValueError(f"The embedded engine does not simulate the speculative method {method!r}.")
    low, high = _lookup_window(options.get("prompt_lookup_min"), options.get("prompt_lookup_max"))
    # N-gram on the GPU names the target's path as its model, plain N-gram none.
    return Speculation(method, tokens, low, high, None if method == "ngram" else target)


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
