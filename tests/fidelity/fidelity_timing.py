"""Rows about time: each profile's cells and ratios, recorded and in virtual time. Nothing here reads a clock."""

from __future__ import annotations

from collections.abc import Iterator

from fidelity_rows import Row
from fit_step_time import SOURCES
from recorded_rounds import Series
from step_time_judgement import LEAST_TOLERANCE, Level, Model, Ratio, exceptions, levels, percent, ratios

from runner.simulator import profile


def rows() -> list[Row]:
    """Levels of what each profile was fitted to, then levels and ratios of what it is judged on."""
    found: list[Row] = []
    for name, source in SOURCES.items():
        model = Model.of(profile.load(name).step_time)
        fitted = source.series()
        found += _levels(fitted, levels(fitted, model), f"profile {name}, fitted")
        if source.judged:
            held_out = source.judged()
            judged = levels(held_out, model)
            found += _levels(held_out, judged, f"profile {name}, level, not judged")
            found += _ratios(held_out.source, ratios(judged), f"profile {name}")
    return found


def _levels(series: Series, found: list[Level], words: str) -> Iterator[Row]:
    for level in found:
        cell = level.cell
        recorded, embedded = f"{cell.throughput:.3f} requests/s", f"{level.throughput:.3f} requests/s"
        verdict = f"throughput {level.throughput / cell.throughput - 1:+.1%}"
        if cell.latencies:
            recorded += f", {cell.latency:.3f} s"
            embedded += f", {level.latency:.3f} s"
            verdict += f", latency {level.latency / cell.latency - 1:+.1%}"
        rounds = f"spread between {len(cell.throughputs)} rounds {percent(level.spread)}" if level.spread else "1 round"
        yield Row(
            _place(series.source),
            f"{words}: {cell.arm.name} at C={cell.clients}",
            recorded,
            embedded,
            f"{verdict}; {rounds}",
        )


def _ratios(source: str, found: list[Ratio], words: str) -> Iterator[Row]:
    reasons = exceptions(source)
    for ratio in found:
        tolerances = f"tolerance {percent(LEAST_TOLERANCE)} or spread {percent(ratio.spread)}"
        verdict = f"within ({ratio.error:+.1%}; {tolerances})"
        if not ratio.within:
            verdict = f"outside ({ratio.error:+.1%}; {tolerances}): {reasons[ratio.subject]}"
        yield Row(
            _place(source), f"{words}: {ratio.subject}", f"{ratio.recorded:.3f}", f"{ratio.embedded:.3f}", verdict
        )


def _place(source: str) -> str:
    return source.removeprefix("tests/recordings/")
