"""What differs between releases when a waiting request is looked at: phantom drafts, and which lookups are counted.

Both generations pad a request of one uncached token to the shape of a decode: 1 + K tokens, of which K are drafts that
never match. They differ in when, and in what happens where there is no room for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from runner.simulator.release import Release


@dataclass(frozen=True, slots=True)
class Room:
    """What the request at the head of the queue finds, in tokens. `decodes`: running requests in this step;
    `prefills`: whether one of them still computes its prompt.
    """

    computed: int
    uncached: int
    budget: int
    max_model_len: int
    decodes: int
    prefills: bool


class Admission(Protocol):
    """A release's rules for the head of the waiting queue."""

    def phantoms(self, room: Room, drafts: int) -> int | None:
        """Phantom drafts of the request, `drafts` (K) or 0; None: it must wait for another step."""

    def counted(self, *, admitted: bool) -> bool:
        """Whether the request's lookup in the prefix cache is counted now: once before it is known whether it will
        be admitted, and once when it is.
        """


class Admission26:
    """vLLM 0.26.0: padded only beside running decodes; every lookup counts, also of a request that has to wait."""

    def phantoms(self, room: Room, drafts: int) -> int | None:
        if room.uncached != 1 or not room.decodes or room.prefills:
            return 0
        whole = 1 + drafts
        # Rather not at all than in another shape.
        return None if whole > room.budget or room.computed + whole > room.max_model_len else drafts

    def counted(self, *, admitted: bool) -> bool:
        return not admitted


class Admission32:
    """vLLM 0.32.0 and 0.33.0: padded in an empty batch too; a lookup counts when the request is admitted."""

    def phantoms(self, room: Room, drafts: int) -> int | None:
        if room.uncached != 1 or room.prefills or not (room.decodes or room.computed):
            return 0
        whole = 1 + drafts
        if room.computed + whole + 1 > room.max_model_len:
            return 0
        return None if whole > room.budget else drafts

    def counted(self, *, admitted: bool) -> bool:
        return admitted


def of(release: Release) -> Admission:
    """The rules of a release."""
    return Admission26() if release.version == "0.26.0" else Admission32()
