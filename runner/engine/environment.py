"""Environment variables that change what an engine does: an engine that is started here inherits the shell's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_SHAPING: Final = re.compile(
    r"(?:VLLM|CUDA|NVIDIA|NCCL|GLOO|TORCH|TORCHINDUCTOR|PYTORCH|TRITON|HF|TRANSFORMERS|TOKENIZERS|OMP|MKL|KMP|GOMP"
    r"|OPENBLAS|NUMBA|FLASHINFER|RAY|PROMETHEUS|LD|MALLOC|PYTHON)(?:_|[A-Z]).*|LD_PRELOAD|CUDA_VISIBLE_DEVICES"
)
_SECRET: Final = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|(?:^|_)KEY(?:_|$)|_AUTH")
HIDDEN: Final = "(hidden)"


def shaping(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of an environment that an engine and its libraries are known to read, by name; a value whose name
    sounds like a secret is hidden."""
    return {name: shown(name, value) for name, value in sorted(environ.items()) if _SHAPING.fullmatch(name)}


def shown(name: str, value: str) -> str:
    """The value, unless its name sounds like a secret."""
    return HIDDEN if _SECRET.search(name.upper()) else value
