"""The page of the results, and their JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from instrument.bars import bar_table, bars
from instrument.cell import Cell
from instrument.collected import Point
from instrument.programs.program import Program
from instrument.special import special_bars, special_table
from instrument.table import cell_table, ratio_table, slope_table

PAGE = Path(__file__).parents[2] / "docs" / "instrument-benchmark.md"
HEAD = """# The load generator against others

Written by `benchmarks/instrument/run --write-page`; [how it measures](../benchmarks/instrument/README.md).

"""
EXPLAINED = """Each program has one core, the oracle server the other. A figure is the median of the runs, their number
behind the program's name, with the range between runs. **CPU**: of all its processes within the round, its start and
what it does after the round excluded. **Achieved C**: requests in flight on average between the first and the last
arrival, as the server saw it. **TTFT and end-to-end error**: a quantile as the program reports it minus the same
quantile of the server's own times (from the request's arrival). **Chunk stamp error**: the amount of the program's
time for a token event minus the server's time right after sending it, where the program tells such times; **beyond
the send**: by how much it lies outside the send itself, which begins before the event can arrive. **Server's
core**: how busy it was; near 100 % the server is the limit, and all errors are of both.
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A whole run of the benchmark."""

    cells: Sequence[Cell]
    programs: Sequence[Program]
    points: Mapping[tuple[str, int], Point]
    special: Sequence[Point]
    skipped: Sequence[str]
    seconds: float


def markdown_of(outcome: Outcome) -> str:
    """The whole page."""
    names = [program.name for program in outcome.programs]
    numbers = [cell.concurrency for cell in outcome.cells]
    parts = [HEAD + _where(outcome), EXPLAINED]
    for cell in outcome.cells:
        found = [outcome.points[key] for name in names if (key := (name, cell.concurrency)) in outcome.points]
        if found:
            parts.append(cell_table(cell, found))
    if outcome.points:
        parts.append("## Ratios\n\n" + ratio_table(outcome.points, names, numbers))
    if by_lengths := slope_table(outcome.points, names, outcome.cells):
        parts.append(by_lengths)
    if outcome.special:
        parts.append("## Where it is hard\n\n" + special_table(outcome.special))
    rivals = [program.name for program in outcome.programs if program.rival]
    judged = [*bars(outcome.points, rivals, numbers), *special_bars(outcome.special)]
    if judged:
        parts.append("## What was asked, and what was found\n\n" + bar_table(judged))
    parts.append("## The programs\n\n" + "\n".join(f"- {one.name}: {one.remark}." for one in outcome.programs))
    if outcome.skipped:
        parts.append("## Not measured\n\n" + "\n".join(f"- {each}" for each in outcome.skipped))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _where(outcome: Outcome) -> str:
    found = machine()
    when = datetime.now(UTC).date().isoformat()
    return (
        f"{when}, {found['processor']}, {found['cores']} cores, Linux {found['kernel']}, Python {found['python']}; "
        f"one command, {outcome.seconds / 60:.0f} minutes.\n"
    )


def machine() -> dict[str, str]:
    """What the figures belong to."""
    model = platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        lines = info.read_text("utf-8", "replace").splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), model)
    return {
        "processor": model,
        "cores": str(os.cpu_count()),
        "kernel": platform.release().partition("-")[0],
        "python": platform.python_version(),
    }


def json_of(outcome: Outcome) -> str:
    """Every figure of every run."""
    told: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "seconds": outcome.seconds,
        "cells": [asdict(cell) for cell in outcome.cells],
        "points": [asdict(point) for point in outcome.points.values()],
        "special": [asdict(point) for point in outcome.special],
        "not_measured": list(outcome.skipped),
    }
    return json.dumps(told, indent=1, ensure_ascii=False) + "\n"
