"""`sequential-rounds`: every request at concurrency 1 (article, 2-1 and 4-1)."""

from runner.analysis.cell import Cell, cells
from runner.report.client_times import timed
from runner.report.table import Source, Table, table


@table("sequential-rounds")
def sequential_rounds(source: Source) -> list[Table]:
    """Columns: number; per condition the client's time from sending to the last byte, in seconds. Excluded first
    requests are marked, failed ones say what became of them."""
    own = [cell for cell in cells(source.record) if cell.concurrency == 1]
    listed = [_column(source, cell) for cell in own]
    longest = max((len(column) for column in listed), default=0)
    if not longest:
        return []
    columns = [
        source.words("round"),
        *(f"{source.label(cell.arm.id)} {timed(source.words('duration'), cell)}" for cell in own),
    ]
    rows = [
        [str(index + 1), *(column[index] if index < len(column) else "–" for column in listed)]
        for index in range(longest)
    ]
    excluded = any(round_.of_role("excluded") for cell in own for round_ in cell.rounds)
    notes = [source.words("note-excluded")] if excluded else []
    return [Table("sequential-rounds", columns, rows, ["right"] * len(columns), notes)]


def _column(source: Source, cell: Cell) -> list[str]:
    shown = []
    for round_ in cell.rounds:
        for request in round_.of_role("excluded", "measured"):
            if request.verdict != "ok" or request.sent_ns is None or request.last_byte_ns is None:
                shown.append(f"– ({source.words.verdict(request.verdict)})")
                continue
            text = source.numbers.seconds((request.last_byte_ns - request.sent_ns) / 1e9)
            mark = f" ({source.words('excluded')})" if request.role == "excluded" else ""
            shown.append(text + mark)
    return shown
