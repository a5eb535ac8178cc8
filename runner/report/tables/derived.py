"""`derived`: throughput and latency per concurrency, means of the rounds (article, 7-3)."""

from runner.analysis.cell import Cell, cells
from runner.report.client_times import timed
from runner.report.table import Source, Table, table
from runner.report.tables.rounds import incomplete_notes, one_round_notes


@table("derived")
def derived(source: Source) -> list[Table]:
    """Per condition: columns are the concurrencies above 1; rows are throughput and mean latency, each the mean of
    the rounds. ※ marks a cell with a contaminated round."""
    words, numbers = source.words, source.numbers
    tables = []
    arms = source.record.plan.arms
    for arm in arms:
        own = [cell for cell in cells(source.record) if cell.arm is arm and cell.concurrency > 1 and cell.rounds]
        if not own:
            continue
        tables.append(
            Table(
                "derived",
                [words("derived"), *(_head(cell) for cell in own)],
                [
                    [words("throughput"), *(timed(numbers.rate(cell.throughput), cell) for cell in own)],
                    [words("mean-latency"), *(numbers.seconds(cell.mean_latency) for cell in own)],
                ],
                notes=[
                    *(note for cell in own for note in incomplete_notes(source, cell)),
                    *one_round_notes(source, own),
                ],
                subject=source.label(arm.id) if len(arms) > 1 else "",
            )
        )
    return tables


def _head(cell: Cell) -> str:
    doubt = " ‡" if cell.incomplete is not None or cell.failed else ""
    return f"C={cell.concurrency}" + (" ※" if cell.contaminated else "") + doubt
