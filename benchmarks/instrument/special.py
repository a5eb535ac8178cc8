"""Our generator where it is hard: its core shared, a way through namespaces, and ten thousand requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from instrument.bars import Bar, stamps_said
from instrument.cell import Cell
from instrument.collected import Point, spread
from instrument.conditions import Cores, NoNamespaces, spinning, veth
from instrument.measure import Results
from instrument.programs.program import Program
from instrument.table import OURS, markdown

SPIN, VETH, MANY = "its core shared with a process that spins", "through a veth pair", "10,000 requests"
CELLS = {SPIN: Cell(64, 256), VETH: Cell(128, 512), MANY: Cell(1024, 10_000, events=20, gap_s=0.1)}


def special(
    programs: Sequence[Program], cores: Cores, *, repeats: int, share: float, say: Callable[[str], None]
) -> tuple[Results, list[str]]:
    """All three; under which names the results are is `name_of`'s. `programs` are those that are compared; the last
    condition is for ours alone. `share`: of the requests, for a trial. Also what could not be done, and why."""
    results, skipped = Results(), []
    cells = {key: cell.shortened(share) for key, cell in CELLS.items()}
    for _ in range(repeats):
        for program in programs:
            say(f"{SPIN}, C = {cells[SPIN].concurrency}: {program.name}")
            with spinning(cores.client):
                results.take(program, cells[SPIN], cores, name=name_of(program.name, SPIN))
    try:
        with veth() as way:
            for _ in range(repeats):
                for program in programs:
                    say(f"{VETH}, C = {cells[VETH].concurrency}: {program.name}")
                    results.take(program, cells[VETH], cores, way, name=name_of(program.name, VETH))
    except NoNamespaces as error:
        skipped.append(f"{VETH}: {error}")
    for program in programs:
        if program.name == OURS:
            say(f"{MANY}, C = {cells[MANY].concurrency}: {program.name}")
            results.take(program, cells[MANY], cores, name=name_of(program.name, MANY))
    return results, skipped


def name_of(program: str, condition: str) -> str:
    """Of a program under a condition."""
    return f"{program}, {condition}"


def special_table(points: Sequence[Point]) -> str:
    """In Markdown."""
    headers = (
        *("Program", "C", "Runs", "Chunk stamp error µs: p50", "p99", "p99.9", "Beyond the send: p50", "p99"),
        *(
            "First token: p50",
            "p99",
            "End-to-end error ms: p50",
            "Achieved C",
            "Requests reported, failed",
            "Memory MiB",
        ),
    )
    columns = (
        *(("stamp_p50_us", ",.1f"), ("stamp_p99_us", ",.1f"), ("stamp_p99.9_us", ",.0f")),
        *(("beyond_p50_us", ",.1f"), ("beyond_p99_us", ",.1f"), ("first_p50_us", ",.1f"), ("first_p99_us", ",.1f")),
        *(("e2e_p50_ms", "+.2f"), ("achieved", ".2f")),
    )
    rows = []
    for point in points:
        said = [format(found, spec) if (found := spread(point, name)) else "–" for name, spec in columns]
        counts = [format(found, ",.0f") if (found := spread(point, name)) else "–" for name in ("reported", "failed")]
        memory = format(found, ",.0f") if (found := spread(point, "peak_mib")) else "–"
        runs = str(len(point.runs))
        rows.append([point.program, f"{point.concurrency:,}", runs, *said, ", ".join(counts), memory])
    troubles = [f"- {point.program}: {trouble}" for point in points for trouble in dict.fromkeys(point.troubles)]
    return markdown(headers, rows) + ("\n\n" + "\n".join(troubles) if troubles else "")


def special_bars(points: Sequence[Point]) -> list[Bar]:
    """What is asked of our generator under these conditions."""
    found = []
    by_name = {point.program: point for point in points}
    for condition in (SPIN, VETH):
        point = by_name.get(name_of(OURS, condition))
        for what, name in (("chunk", "stamp"), ("first-token", "first")):
            middle, tail = spread(point, f"{name}_p50_us"), spread(point, f"{name}_p99_us")
            if point is not None and middle is not None and tail is not None:
                place = f"C = {point.concurrency}, {condition}"
                asked = f"Error of {what} stamps: median below 10 µs, p99 below 50 µs, {place}"
                found.append(Bar(asked, stamps_said(point, name), middle.middle < 10 and tail.middle < 50))
    point = by_name.get(name_of(OURS, MANY))
    reported, answered = spread(point, "reported"), spread(point, "answered")
    failed, memory = spread(point, "failed"), spread(point, "peak_mib")
    if point is not None and reported and answered and failed and memory:
        asked = f"{CELLS[MANY].requests:,} requests at C = {point.concurrency:,}: each with a verdict, none lost"
        whole = reported.middle + failed.middle == answered.middle == CELLS[MANY].requests
        said = f"{answered.middle:,.0f} answered; as judged {reported.middle:,.0f} good, {failed.middle:,.0f} failed"
        found.append(Bar(asked, f"{said}; {memory.middle:,.0f} MiB at most, all processes together", whole))
    return found
