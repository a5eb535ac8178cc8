"""`rounds`: every round (article, 7-3)."""

from collections import Counter
from collections.abc import Sequence

from runner.analysis.cell import Cell, cells
from runner.analysis.latency import mean_latency
from runner.analysis.throughput import throughput
from runner.analysis.wall import wall_seconds
from runner.record.events import RequestDone
from runner.report.client_times import timed, timed_latency
from runner.report.markdown import escape
from runner.report.table import Source, Table, table
from runner.report.tables.round_counts import round_name


@table("rounds")
def rounds(source: Source) -> list[Table]:
    """Columns: condition, round, wall time (first request sent to last one over), throughput (ok requests ÷ wall),
    mean latency (Δsum ÷ Δcount of the engine's end-to-end histogram, at concurrency 1 the client's mean); and, where
    any request failed, the failed ones by verdict. Contaminated rounds are marked ※, incomplete cells ‡."""
    words, numbers = source.words, source.numbers
    failing = any(cell.failed for cell in cells(source.record))
    rows, notes = [], []
    for cell in cells(source.record):
        for index, round_ in enumerate(cell.rounds, start=1):
            row = [
                cell_name(source, cell) + (" ※" if round_ in cell.contaminated else ""),
                str(index),
                timed(numbers.seconds(wall_seconds(round_)), cell),
                timed(numbers.rate(throughput(round_)), cell),
                timed_latency(numbers.seconds(mean_latency(round_, cell.phase)), cell),
            ]
            failed = [r for r in round_.of_role("excluded", "measured") if r.verdict != "ok"]
            rows.append([*row, _failures(source, failed)] if failing else row)
        notes += incomplete_notes(source, cell)
        notes += _trouble_notes(source, cell)
    if not rows:
        return []
    columns = [words("condition"), words("round"), words("wall"), words("throughput"), words("mean-latency")]
    if failing:
        columns.append(words("failed"))
    return [Table("rounds", columns, rows, notes=[words("note-latency"), *notes])]


def cell_name(source: Source, cell: Cell) -> str:
    """`off C=4`, marked ‡ when it is incomplete or requests failed in it."""
    mark = " ‡" if cell.incomplete is not None or cell.failed else ""
    return f"{source.label(cell.arm.id)} C={cell.concurrency}{mark}"


def marks(cell: Cell) -> str:
    """※ for a cell with a contaminated round, ‡ for one that is incomplete or has failed requests."""
    return " ※" * bool(cell.contaminated) + " ‡" * (cell.incomplete is not None or bool(cell.failed))


def incomplete_notes(source: Source, cell: Cell) -> list[str]:
    """Why a cell is incomplete, or how many failures it holds that the spec tolerates."""
    name = f"{source.label(cell.arm.id)} C={cell.concurrency}"
    if cell.incomplete is None:
        return [source.words("note-tolerated", cell=name, failed=len(cell.failed))] if cell.failed else []
    detail = source.words(cell.incomplete.reason, **cell.incomplete.figures)
    return [source.words("note-failed", cell=name, detail=detail)]


def one_round_notes(source: Source, own: Sequence[Cell]) -> list[str]:
    """Which cells above concurrency 1 rest on one round. (At 1 the requests themselves are the samples.)"""
    single = [cell for cell in own if cell.concurrency > 1 and len(cell.rounds) == 1]
    names = ", ".join(f"{source.label(cell.arm.id)} C={cell.concurrency}" for cell in single)
    return [source.words("note-one-round", cells=names)] if single else []


def _trouble_notes(source: Source, cell: Cell) -> list[str]:
    """What was seen to go wrong while a round ran; a request that stalled and went on has no other trace."""
    return [
        source.words(
            "note-trouble",
            round=round_name(source, cell, round_),
            kind=source.words.trouble(one.kind),
            index=one.index,
            detail=escape(one.detail) or "–",
        )
        for round_ in cell.rounds
        for one in round_.troubles
    ]


def _failures(source: Source, failed: list[RequestDone]) -> str:
    counts = Counter(request.verdict for request in failed)
    return ", ".join(f"{source.words.verdict(verdict)} {count}" for verdict, count in sorted(counts.items())) or "0"
