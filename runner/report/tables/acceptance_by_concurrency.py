"""`acceptance-by-concurrency`: are the drafts as good under load? (article, 8-4)."""

from runner.analysis.acceptance import drafting, speculates
from runner.analysis.cell import cells
from runner.analysis.counters import summed_delta
from runner.analysis.value import ratio
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
            each = counted.contradiction or ratio(counted.draft_tokens, summed_delta(cell.rounds, metrics.E2E_COUNT))
            name += " ※" * bool(cell.contaminated)
            rows.append([name, numbers.percent(counted.rate), numbers.plain(each, 2).removesuffix(".00")])
    if not rows:
        return []
    columns = [words("condition"), words("acceptance-rate"), words("draft-tokens-a-request")]
    return [Table("acceptance-by-concurrency", columns, rows)]
