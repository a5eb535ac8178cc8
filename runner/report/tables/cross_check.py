"""`cross-check`: the mean latency by the wall and by the engine's histogram (article, 7-3)."""

from runner.analysis.cell import cells
from runner.analysis.cross_check import ENOUGH_WAVES, disagreement, latency_by_wall, waves
from runner.analysis.latency import server_mean_latency
from runner.report.client_times import timed
from runner.report.table import Source, Table, table
from runner.report.tables.round_counts import round_name


@table("cross-check")
def cross_check(source: Source) -> list[Table]:
    """Columns: round; wall time × concurrency ÷ ok requests; Δsum ÷ Δcount of the engine's histogram; by how much
    the first is above the second. Rounds above concurrency 1; ※ marks a contaminated one."""
    words, numbers = source.words, source.numbers
    rows, short = [], set()
    for cell in cells(source.record):
        if cell.concurrency == 1:
            continue
        for round_ in cell.rounds:
            mark = " ※" if round_ in cell.contaminated else ""
            rows.append(
                [
                    round_name(source, cell, round_) + mark,
                    timed(numbers.seconds(latency_by_wall(round_)), cell),
                    numbers.seconds(server_mean_latency(round_, cell.phase)),
                    timed(numbers.percent(disagreement(round_, cell.phase)), cell),
                ]
            )
            if waves(round_) < ENOUGH_WAVES:
                short.add((cell.concurrency, waves(round_)))
    if not rows:
        return []
    notes = [words("note-few-waves", level=level, waves=f"{count:g}") for level, count in sorted(short)]
    columns = [words("condition"), words("latency-by-wall"), "histogram", words("difference")]
    return [Table("cross-check", columns, rows, notes=notes)]
