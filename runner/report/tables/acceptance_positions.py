"""`acceptance-positions`: how far drafts are right (article, 5-2)."""

from runner.analysis.acceptance import accepted_per_position, drafting
from runner.analysis.value import Absent, ratio
from runner.report.table import Source, Table, table
from runner.report.tables.draft_counters import speculating_cells


@table("acceptance-positions")
def acceptance_positions(source: Source) -> list[Table]:
    """Columns: position (0 first); its counter; counter ÷ drafts. The same window as `draft-counters`."""
    words, numbers = source.words, source.numbers
    speculating = speculating_cells(source)
    tables = []
    for cell in speculating:
        positions = accepted_per_position(cell.rounds)
        if isinstance(positions, Absent):
            continue
        drafts = drafting(cell.rounds).drafts
        rows = [
            [str(position), numbers.count(count), numbers.percent(ratio(count, drafts))]
            for position, count in positions.items()
        ]
        tables.append(
            Table(
                "acceptance-positions",
                [words("position"), words("accepted-count"), words("accepted-share")],
                rows,
                ["right"] * 3,
                [words("note-positions")],
                subject=source.label(cell.arm.id) if len(speculating) > 1 else "",
            )
        )
    return tables
