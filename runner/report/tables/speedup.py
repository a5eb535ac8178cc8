"""`speedup`: ratios against the baseline (article, 8-2)."""

from runner.analysis.cell import concurrencies
from runner.analysis.comparison import comparison
from runner.report.client_times import timed
from runner.report.table import Source, Table, table
from runner.report.tables.summary import doubt, separated


@table("speedup")
def speedup(source: Source) -> list[Table]:
    """Columns: concurrency; throughput ratio (other ÷ baseline); latency ratio (baseline ÷ other); the ranges.

    Ratios of unrounded means of the rounds; above 1 is faster. Latency: Δsum ÷ Δcount of the engine's end-to-end
    histogram, at concurrency 1 the client's mean. Ranges: as in `summary`.
    """
    words, numbers = source.words, source.numbers
    others = source.record.plan.others
    several = len(others) > 1
    rows = []
    for level in concurrencies(source.record):
        for arm in others:
            pair = comparison(source.record, arm.id, level)
            row = [str(level) + doubt(pair), *([source.label(arm.id)] if several else [])]
            row.append(timed(numbers.ratio(pair.throughput_ratio), pair.base, pair.other))
            latencies = numbers.ratio(pair.latency_ratio)
            row.append(timed(latencies, pair.base, pair.other) if level == 1 else latencies)
            rows.append([*row, timed(separated(source, pair), pair.base, pair.other)])
    if not rows:
        return []
    columns = [words("concurrency"), *([words("condition")] if several else [])]
    columns += [words("throughput-speedup"), words("latency-speedup"), words("separation")]
    return [Table("speedup", columns, rows)]
