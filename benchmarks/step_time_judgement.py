"""A profile's step times against rounds that they were not fitted to.

What is judged are ratios: every arm to the arm ``off`` at the same concurrency, and every concurrency to one
client within an arm, each of throughput and of mean latency. Levels are shown and not judged: they move with the
host from day to day.

A ratio of the embedded engine is *within* if it differs from the recorded one (the ratio of the means over
rounds) by at most 5 % or by the recording's own spread, whichever is more. The spread of a cell is (max - min) /
mean over the throughputs of its rounds or over their mean latencies, the larger (in a closed loop both show the
same noise); the spread of a ratio is the larger of its two cells', not their sum. A cell with one round has no
spread, and that does not widen anything. ``step_time_exceptions.yaml`` names every ratio that is not within, with
the reason that the data give.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from closed_loop import Outcome
from recorded_rounds import Cell, Series
from ruamel.yaml import YAML

from runner.simulator import step_time

LEAST_TOLERANCE = 0.05
BASE = "off"
EXCEPTIONS = Path(__file__).with_name("step_time_exceptions.yaml")


@dataclass(frozen=True, slots=True)
class Model:
    """A profile's parameters and turnaround, as its document has them."""

    parameters: Mapping[str, Any]
    turnaround: float

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Model:
        """Out of a profile's ``step_time.json``."""
        return cls(document["parameters"], document["turnaround_seconds"])

    def play(self, cell: Cell) -> Outcome:
        """A cell's round in virtual time."""
        runner, scheduling = cell.arm.step.split()
        timing = step_time.of(
            {"parameters": self.parameters},
            runner=runner,
            asynchronous=scheduling == "async",
            proposes_on_cpu=cell.arm.drafts,
        )
        return cell.play(timing, self.turnaround)


@dataclass(frozen=True, slots=True)
class Level:
    """One cell, recorded and embedded. Throughput is requests a second, latency seconds."""

    cell: Cell
    throughput: float
    latency: float
    steps: int

    @property
    def step_milliseconds(self) -> float:
        """Recorded mean time of a step, idle time between requests included."""
        return 1e3 * len(self.cell.requests) / self.cell.throughput / self.steps

    @property
    def spread(self) -> float | None:
        """Of the recorded rounds; None if there was one only."""
        known = [
            (max(rounds) - min(rounds)) / fmean(rounds)
            for rounds in (self.cell.throughputs, self.cell.latencies)
            if len(rounds) > 1
        ]
        return max(known) if known else None


@dataclass(frozen=True, slots=True)
class Ratio:
    """`subject` says of what, as in "on / off at C=16, throughput"."""

    subject: str
    recorded: float
    embedded: float
    spread: float | None

    @property
    def error(self) -> float:
        return self.embedded / self.recorded - 1

    @property
    def tolerance(self) -> float:
        return max(LEAST_TOLERANCE, self.spread or 0.0)

    @property
    def within(self) -> bool:
        return abs(self.error) <= self.tolerance


def levels(series: Series, model: Model) -> list[Level]:
    """Every cell in virtual time."""
    found = []
    for cell in series.cells:
        outcome = model.play(cell)
        found.append(Level(cell, len(cell.requests) / outcome.wall, outcome.latency, outcome.steps))
    return found


def ratios(judged: Sequence[Level]) -> list[Ratio]:
    """Arm to arm at each concurrency, then concurrency to one client in each arm."""
    by_place = {(level.cell.arm.name, level.cell.clients): level for level in judged}
    found: list[Ratio] = []
    for (arm, clients), level in by_place.items():
        if arm != BASE:
            found += _ratios(f"{arm} / {BASE} at C={clients}", level, by_place[BASE, clients])
    for (arm, clients), level in by_place.items():
        if clients != 1:
            found += _ratios(f"C={clients} / C=1 of {arm}", level, by_place[arm, 1])
    return found


def exceptions(source: str) -> dict[str, str]:
    """Ratios of a recording that are stated not to be within -> why."""
    stated = YAML(typ="safe").load(EXCEPTIONS.read_text("utf-8"))[source]
    return {subject: entry["reason"] for entry in stated for subject in entry["ratios"]}


def report(series: Series, model: Model) -> str:
    """The judgement as text."""
    reasons = exceptions(series.source)
    found = levels(series, model)
    lines = [
        f"\nJudged on {series.source}.",
        *_table(found),
        "Ratios: recorded -> embedded, error, tolerances (fixed, the recording's own spread)",
    ]
    for ratio in ratios(found):
        verdict = "within" if ratio.within else f"OUTSIDE: {reasons.get(ratio.subject, 'no reason is stated')}"
        lines.append(
            f"  {ratio.subject:40} {ratio.recorded:6.3f} -> {ratio.embedded:6.3f} {ratio.error:+7.1%} "
            f"({percent(LEAST_TOLERANCE)}, {percent(ratio.spread)}) {verdict}"
        )
    return "\n".join(lines) + "\n"


def residuals(series: Series, model: Model) -> str:
    """Levels of the fitted series as text, where latencies were measured."""
    found = [level for level in levels(series, model) if level.cell.latencies]
    return "\n".join([f"\nFitted to {series.source}.", *_table(found)]) + "\n" if found else ""


def _table(found: Sequence[Level]) -> Iterator[str]:
    yield "Levels, not judged: requests/s, seconds a request, recorded -> embedded; recorded ms a step"
    for level in found:
        cell = level.cell
        yield (
            f"  {cell.arm.name:16} C={cell.clients:<3} {cell.throughput:8.3f} -> {level.throughput:8.3f} "
            f"{level.throughput / cell.throughput - 1:+7.1%}   {cell.latency:7.3f} -> {level.latency:7.3f} "
            f"{level.latency / cell.latency - 1:+7.1%}   {level.step_milliseconds:5.2f} ms   "
            f"spread {percent(level.spread)}"
        )


def percent(share: float | None) -> str:
    """A share in percent, or that it is not known."""
    return "not known" if share is None else f"{100 * share:.1f} %"


def _ratios(subject: str, level: Level, base: Level) -> Iterator[Ratio]:
    known = [one.spread for one in (level, base) if one.spread is not None]
    spread = max(known) if known else None
    recorded, recorded_base = level.cell, base.cell
    yield Ratio(
        f"{subject}, throughput",
        recorded.throughput / recorded_base.throughput,
        level.throughput / base.throughput,
        spread,
    )
    yield Ratio(f"{subject}, latency", recorded.latency / recorded_base.latency, level.latency / base.latency, spread)
