"""What an engine died of, in a few words, from its own last ones."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from .log import read_log
from .log_line import is_access

_LAST_WORDS: Final = 12
_CAUSES: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile(r"CUDA out of memory|OutOfMemoryError"), "it ran out of GPU memory"),
    (
        re.compile(r"Free memory on device .* is less than desired GPU memory"),
        "too little GPU memory was free, so others hold it",
    ),
    (re.compile(r"No available memory for the cache blocks|larger than the .*KV cache"), "no room for the KV cache"),
    (re.compile(r"^[\w./-]+(?: [\w-]+)?: error: "), "its command line was refused"),
    (re.compile(r"Address already in use"), "its port was taken"),
    (re.compile(r"No space left on device"), "no space was left on the disk"),
    (re.compile(r"EngineCore encountered an issue|[Ee]ngine core .*exited unexpectedly"), "its core process died"),
)
"""In this order: what is said of the consequence comes after what is said of the cause."""


def last_words(log: Iterable[str]) -> list[str]:
    """An engine's own words for what went wrong, out of its log: its error lines, else its last lines."""
    lines = [line.rstrip("\r") for line in log if line.strip() and not is_access(line)]
    errors = list(read_log(lines).errors)
    return (errors or lines)[-_LAST_WORDS:]


def cause(words: Iterable[str]) -> str | None:
    """The cause that the words name (vLLM 0.26.0 to 0.33.0, torch 2.11); None where they name none that is known
    here. The words themselves are to be quoted beside it."""
    lines = list(words)
    return next((told for pattern, told in _CAUSES if any(pattern.search(line) for line in lines)), None)
