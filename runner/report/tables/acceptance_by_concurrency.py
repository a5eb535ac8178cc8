"""`acceptance-by-concurrency`: are the drafts as good under load? (article, 8-4)."""

from runner.analysis.acceptance import drafting, speculates
from runner.analysis.cell import Cell, cells
from runner.analysis.counters import counter_delta
from runner.analysis.value import Value, combine, ratio
from runner.engine import metrics
from runner.report.table import Source, Table, table


@table("acceptance-by-concurrency")
def acceptance_by_concurrency(source: Source) -> list[Table]:
    """Per condition that speculates, a row per concurrency: acceptance rate (Δaccepted ÷ Δdraft tokens) and draft
    tokens a request (Δdraft tokens ÷ Δcount of the latency histogram: foreign requests are in both)."""
    words, numbers = source.words, source.numbers
    arms = [arm for arm in source.record.plan.arms if speculates(source.record, arm.id)]
    rows = []
    for cell in cells(source.record):
        if cell.arm in arms and cell.rounds:
            counted = drafting(cell.rounds)
            name = f"{source.label(cell.arm.id)} C={cell.concurrency}" if len(arms) > 1 else f"C={cell.concurrency}"
            each = counted.contradiction or ratio(counted.draft_tokens, _finished(cell))
            rows.append([name, numbers.percent(counted.rate), numbers.plain(each, 2).removesuffix(".00")])
    if not rows:
        return []
    columns = [words("condition"), words("acceptance-rate"), words("draft-tokens-a-request")]
    return [Table("acceptance-by-concurrency", columns, rows)]


def _finished(cell: Cell) -> Value:
    total: Value = 0.0
    for round_ in cell.rounds:
        total = combine(lambda a, b: a + b, total, counter_delta(round_, metrics.E2E_COUNT))
    return total
