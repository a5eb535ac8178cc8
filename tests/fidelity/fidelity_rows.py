"""A line of ``docs/fidelity.md``: one recording, one thing that was compared, and what both sides gave."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """`recording` is a path under ``tests/recordings``; `subject` names the reader or the engine's property.

    `recorded` and `embedded` are the figures of the real and of the embedded engine, already as text; they must
    not depend on this machine's speed. `verdict` says what they amount to.
    """

    recording: str
    subject: str
    recorded: str
    embedded: str
    verdict: str
