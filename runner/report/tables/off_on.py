"""`off-on`: the conditions side by side (article, 8-2)."""

from runner.analysis.cell import cells
from runner.report.client_times import timed, timed_latency
from runner.report.table import Source, Table, table
from runner.report.tables.rounds import cell_name, incomplete_notes, one_round_notes


@table("off-on")
def off_on(source: Source) -> list[Table]:
    """Columns: condition and concurrency, wall time, throughput, mean latency, as in `rounds`: means of the rounds."""
    words, numbers = source.words, source.numbers
    rows, notes = [], []
    for cell in cells(source.record):
        if cell.rounds:
            mark = " ※" if cell.contaminated else ""
            rows.append(
                [
                    cell_name(source, cell) + mark,
                    timed(numbers.seconds(cell.wall), cell),
                    timed(numbers.rate(cell.throughput), cell),
                    timed_latency(numbers.seconds(cell.mean_latency), cell),
                ]
            )
            notes += incomplete_notes(source, cell)
    if not rows:
        return []
    notes += one_round_notes(source, list(cells(source.record)))
    columns = [words("condition"), words("wall"), words("throughput"), words("mean-latency")]
    return [Table("off-on", columns, rows, notes=notes)]
