"""What a program says that it saw, in one form for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


class Unreadable(Exception):
    """The program left no result, or not the one that was expected."""


@dataclass(frozen=True, slots=True)
class Reported:
    """`ttft_s` and `e2e_s` in seconds, one for each request that the program counts as good, in its own reckoning.

    `stamps`: by prompt, the time of each token event in nanoseconds of CLOCK_MONOTONIC; empty where the program does
    not tell; `bounds`: the numbers of the events whose time is only an upper bound by the program's own word.
    `flights`: (sent, ended) of each request, in the same unit. `notes`: other figures of the program.
    """

    ttft_s: Sequence[float]
    e2e_s: Sequence[float]
    stamps: Mapping[str, Sequence[int]] = field(default_factory=dict)
    bounds: Mapping[str, Sequence[int]] = field(default_factory=dict)
    flights: Sequence[tuple[int, int]] = ()
    failed: int = 0
    notes: Mapping[str, float | str] = field(default_factory=dict)
