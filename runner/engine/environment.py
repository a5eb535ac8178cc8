"""Environment variables that change what an engine does: an engine that is started here inherits the shell's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_SHAPING: Final = re.compile(
    r"(?:VLLM|CUDA|NCCL|GLOO|TORCH|TORCHINDUCTOR|PYTORCH|TRITON|HF|TRANSFORMERS|TOKENIZERS|OMP|MKL|KMP|GOMP|OPENBLAS"
    r"|NUMBA|FLASHINFER|RAY|PROMETHEUS|LD|MALLOC)_\w+|NVIDIA_VISIBLE_DEVICES|PYTHON\w+"
)
_SECRET: Final = re.compile(r"(?:^|_)(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|API_?KEY|KEY|AUTH)(?:_|$)")
_USER: Final = re.compile(r"(?<=://)[^/@\s]+(?=@)")
HIDDEN: Final = "(hidden)"


def shaping(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of an environment that an engine and its libraries are known to read, by name; a value whose name
    sounds like a secret is hidden."""
    return {name: shown(name, value) for name, value in sorted(environ.items()) if _SHAPING.fullmatch(name)}


def shown(name: str, value: str) -> str:
    """The value, unless its name sounds like a secret; without the user and password of a URL."""
    return HIDDEN if is_secret(name) else _USER.sub(HIDDEN, value)


def is_secret(name: str) -> bool:
    """Whether the name of a variable or an option, in any spelling, sounds like a secret: HF_TOKEN, --api-key."""
    return _SECRET.search(name.replace("-", "_").upper()) is not None
