"""The tables, in Markdown: one a concurrency, one of ratios, and the verdicts on the bars that were set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from instrument.cell import Cell
from instrument.collected import Point, ratio, spread

OURS, BARE = "ours", "bare protocol"
NONE = "–"


def short_run(program: str) -> str:
    """The name under which a program's run of one request a slot is."""
    return f"{program}, one request a slot"


HEADERS = (
    "Program",
    "CPU µs per chunk",
    "CPU ms per request",
    "Achieved C",
    "TTFT error ms: p50",
    "p90",
    "p99",
    "Chunk stamp error µs: p50",
    "p99",
    "beyond the send p99",
    "End-to-end error ms: p50",
    "p99",
    "Server's core",
)
COLUMNS = (
    ("cpu_chunk_us", 1.0, ".1f"),
    ("cpu_request_us", 1e-3, ".2f"),
    ("achieved", 1.0, ".2f"),
    ("ttft_p50_ms", 1.0, "+.2f"),
    ("ttft_p90_ms", 1.0, "+.2f"),
    ("ttft_p99_ms", 1.0, "+.2f"),
    ("stamp_p50_us", 1.0, ",.0f"),
    ("stamp_p99_us", 1.0, ",.0f"),
    ("beyond_p99_us", 1.0, ",.0f"),
    ("e2e_p50_ms", 1.0, "+.2f"),
    ("e2e_p99_ms", 1.0, "+.2f"),
    ("server_share", 1.0, ".0%"),
)


def rows_of(cells: Sequence[str]) -> str:
    """A row of Markdown."""
    return f"| {' | '.join(cells)} |"


def markdown(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown."""
    return "\n".join([rows_of(headers), "|" + "---|" * len(headers), *map(rows_of, rows)])


def cell_table(cell: Cell, points: Sequence[Point]) -> str:
    """Every program at one concurrency: median of the runs, and their range."""
    title = (
        f"### C = {cell.concurrency:,}\n\n{cell.requests:,} requests a run, each of {cell.events} events, the first "
        f"after {cell.first_after_s * 1e3:g} ms, then one each {cell.gap_s * 1e3:g} ms.\n\n"
    )
    rows, remarks = [], []
    for point in points:
        runs = len(point.runs)
        rows.append([f"{point.program} ({runs})", *(_said(point, *column) for column in COLUMNS)])
        remarks += [f"- {point.program}: {trouble}" for trouble in dict.fromkeys(point.troubles)]
        if point.program == OURS and (after := spread(point, "after_chunk_us")):
            remarks.append(
                f"- {point.program}: reading the captures after the round costs {after:.1f} µs per chunk more"
            )
        lost = sum((run.get("requests") or 0) - (run.get("reported") or 0) for run in point.runs)
        if lost:
            remarks.append(f"- {point.program}: {lost:.0f} requests of {runs} runs are not in what it reports as good")
        if any((run.get("requests") or 0) < cell.requests for run in point.runs):
            remarks.append(f"- {point.program}: it sent fewer requests than asked")
    return title + markdown(HEADERS, rows) + ("\n\n" + "\n".join(remarks) if remarks else "")


def _said(point: Point, name: str, scale: float, spec: str) -> str:
    found = spread(point, name)
    if found is None:
        return NONE
    scaled = type(found)(found.middle * scale, found.least * scale, found.most * scale)
    return format(scaled, spec)


def ratio_table(points: Mapping[tuple[str, int], Point], programs: Sequence[str], cells: Sequence[int]) -> str:
    """CPU per chunk of each program over ours, at each concurrency; the first row is ours over the bare protocol."""
    headers = ["CPU per chunk", *(f"C = {cell:,}" for cell in cells)]
    rows = [["ours ÷ bare protocol", *(_ratio(points.get((OURS, c)), points.get((BARE, c))) for c in cells)]]
    for name in programs:
        if name != OURS:
            rows.append([f"{name} ÷ ours", *(_ratio(points.get((name, c)), points.get((OURS, c))) for c in cells)])
    return markdown(headers, rows)


def slope_table(points: Mapping[tuple[str, int], Point], programs: Sequence[str], cells: Sequence[Cell]) -> str:
    """CPU of whole runs as the slope between two lengths, in µs per chunk: a program's start does not count, what it
    does after the round does. Empty where no program was run in two lengths."""
    rows = []
    for name in programs:
        found = [_slope(points, name, cell) for cell in cells]
        if any(found):
            rows.append([name, *(NONE if each is None else f"{each:.1f}" for each in found)])
    headers = ["CPU µs per chunk, by two lengths", *(f"C = {cell.concurrency:,}" for cell in cells)]
    return markdown(headers, rows) if rows else ""


def _slope(points: Mapping[tuple[str, int], Point], name: str, cell: Cell) -> float | None:
    long, short = (spread(points.get((each, cell.concurrency)), "whole_cpu_s") for each in (name, short_run(name)))
    chunks = (cell.requests - cell.shortened(0).requests) * cell.events
    return None if long is None or short is None or not chunks else (long.middle - short.middle) / chunks * 1e6


def _ratio(over: Point | None, under: Point | None) -> str:
    found = ratio(over, under, "cpu_chunk_us")
    return NONE if found is None else f"{found:.2f}×"
