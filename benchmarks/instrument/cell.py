"""What is measured: at each concurrency one script of the oracle, and how many requests."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

MODEL = "oracle"


@dataclass(frozen=True, slots=True)
class Cell:
    """`requests` at `concurrency`, each answered by `events` of one token, `gap_s` seconds apart."""

    concurrency: int
    requests: int
    events: int = 128
    gap_s: float = 0.01
    first_after_s: float = 0.05

    @property
    def script(self) -> dict[str, Any]:
        """For the oracle."""
        return {
            "events": self.events,
            "first_after_s": self.first_after_s,
            "gap_s": self.gap_s,
            "tokens": 1,
            "model": MODEL,
            "usage": "continuous",
        }

    @property
    def seconds(self) -> float:
        """How long one request takes, by the script."""
        return self.first_after_s + (self.events - 1) * self.gap_s

    def shortened(self, share: float) -> Cell:
        """With that share of the requests, but each slot with one at least."""
        return replace(self, requests=max(self.concurrency, int(self.requests * share)))


CELLS = {
    1: Cell(1, 8),
    16: Cell(16, 80),
    128: Cell(128, 640),
    # 20,000 events a second
    256: Cell(256, 1024, gap_s=0.0128),
    # 10,240 events a second
    1024: Cell(1024, 3072, events=20, gap_s=0.1),
}


@dataclass(frozen=True, slots=True)
class Task:
    """One run of one program: a cell, the server's URL, and the folder for what the program writes."""

    cell: Cell
    url: str
    folder: Path
    tokenizer: Path

    @property
    def prompts(self) -> list[str]:
        """The last message of each request: by it the oracle's record and the program's are matched."""
        return [prompt(number) for number in range(self.cell.requests)]


def prompt(number: int) -> str:
    """The same words in every program; each request's is its own."""
    return f"request {number:06d}: say the words"
