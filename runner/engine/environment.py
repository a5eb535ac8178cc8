"""Environment variables that change what an engine does: an engine that is started here inherits the shell's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_SHAPING: Final = re.compile(
    r"(?:VLLM|CUDA|NCCL|GLOO|TORCH|TORCHINDUCTOR|PYTORCH|TRITON|HF|TRANSFORMERS|TOKENIZERS|OMP|MKL|KMP|GOMP|OPENBLAS"
    r"|NUMBA|FLASHINFER|RAY|PROMETHEUS|LD|MALLOC)_\w+|NVIDIA_VISIBLE_DEVICES|PYTHON\w+"
)
_SECRET: Final = re.compile(
    r"(?:^|_)(?:TOKEN|CREDENTIALS?|API_?KEY|KEY|AUTH)(?:_|$)|SECRET(?:_|$)|PASSWORD|PASSWD|PASSPHRASE"
    r"|(?:API|ACCESS|ACCOUNT|PRIVATE)KEY(?:_|$)"
    r"|(?:^|_|DB|PG|SSH|MYSQL|REDIS|SMTP)PASS$|(?:[A-Z0-9]_|DB|PG|MYSQL)PWD$"  # PWD alone is a directory
    r"|(?:^|_)DSN$|(?<!MAX)(?:^|_)CONN$|(?:^|_)CONN(?:ECTION)?_?STR(?:ING)?$"
)
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
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
    """Whether the name of a variable, an option or a field, in any spelling, sounds like a secret: HF_TOKEN, --api-key,
    AccountKey, example.com/token."""
    return _SECRET.search(re.sub(r"[^A-Za-z0-9]+", "_", _HUMP.sub("_", name)).upper()) is not None
