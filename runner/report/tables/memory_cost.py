"""`memory-cost`: GPU memory per running request (article, 8-5)."""

from runner.analysis.cell import cell, concurrencies
from runner.analysis.comparison import Comparison
from runner.analysis.memory import gpu_memory_mib, memory_per_running, running_requests
from runner.analysis.value import combine
from runner.plan.model import Arm
from runner.report.table import Source, Table, table
from runner.report.tables.summary import doubt


@table("memory-cost")
def memory_cost(source: Source) -> list[Table]:
    """Per condition: a row per concurrency: GPU memory of this condition − the baseline's, running requests, and the
    quotient, in MiB. A difference that does not grow with the running requests is no cost of theirs. No table where no
    GPU was sampled."""
    others = source.record.plan.others
    tables = [_table(source, arm, several=len(others) > 1) for arm in others]
    return [one for one in tables if one.rows]


def _table(source: Source, arm: Arm, *, several: bool) -> Table:
    words, numbers = source.words, source.numbers
    rows = []
    for level in sorted(concurrencies(source.record)):
        base, own = cell(source.record, source.record.plan.baseline, level), cell(source.record, arm.id, level)
        sampled = (s.memory_mib is not None for c in (base, own) for r in c.rounds for s in r.gpu_samples)
        if not any(sampled):
            continue
        more = combine(lambda one, two: two - one, gpu_memory_mib(base), gpu_memory_mib(own))
        rows.append(
            [
                str(level) + doubt(Comparison(base, own)),
                numbers.mebibytes(more, signed=True),
                numbers.plain(running_requests(own), 0),
                numbers.mebibytes(memory_per_running(base, own)),
            ]
        )
    columns = [words("concurrency"), words("more-memory"), "running", words("memory-per-running")]
    notes = [words("note-memory-cost")]
    return Table("memory-cost", columns, rows, notes=notes, subject=source.label(arm.id) if several else "")
