"""Profiles: the host and model that the embedded engine imitates, and the step times fitted to their recordings.

A profile is a folder ``profiles/NAME`` beside this module: ``host.json`` is written by hand,
``step_time.json`` by ``benchmarks/fit_step_time.py``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

PROFILES = ("article", "h200", "cpu")
DEFAULT = "article"


@dataclass(frozen=True, slots=True)
class Host:
    """Device and model. Sizes are bytes; `kv_bytes_per_token` counts all layers."""

    device: str  # the word in the KV cache lines: "GPU" or "CPU"
    name: str
    memory_bytes: int
    weight_bytes: int
    activation_base_bytes: int
    activation_bytes_per_token: int  # of max_num_batched_tokens
    non_torch_bytes: int
    kv_bytes_per_token: int
    architecture: str
    model_max_length: int
    block_size: int
    default_batched_tokens: int
    default_num_seqs: int
    triton: bool  # without it there is no Model Runner V2
    worker: str  # the process that owns the device: EngineCore, or Worker where that is a process of its own
    operations: Sequence[str]  # implementations of an operation, best first
    log: Mapping[str, Mapping[str, Sequence[Sequence[str]]]]  # by release and place: see host_lines

    def host_lines(self, version: str, place: str) -> Sequence[Sequence[str]]:
        """Log lines that tell of this host and of nothing else: process, level, source, text; empty where absent."""
        return (self.log.get(version) or self.log.get("", {})).get(place, ())

    def activation_bytes(self, batched_tokens: int) -> int:
        """Peak activation memory of a step with so many tokens."""
        return self.activation_base_bytes + self.activation_bytes_per_token * batched_tokens


@dataclass(frozen=True, slots=True)
class Profile:
    """`step_time` is the fitted document as it stands in its file."""

    name: str
    host: Host
    step_time: Mapping[str, Any]


def load(name: str) -> Profile:
    """The profile of a name. Raises ValueError that lists those that exist."""
    if name not in PROFILES:
        raise ValueError(f"no profile {name!r}: the embedded engine knows {', '.join(PROFILES)}")
    folder = files("runner.simulator").joinpath("profiles", name)
    return Profile(
        name,
        Host(**json.loads(folder.joinpath("host.json").read_text("utf-8"))),
        json.loads(folder.joinpath("step_time.json").read_text("utf-8")),
    )
