"""`method`: how the figures under load are obtained (article, 7-1)."""

from runner.analysis.cell import concurrencies
from runner.report.table import Source, Table, table


@table("method")
def method(source: Source) -> list[Table]:
    """Columns: metric, how it is obtained, what the client's own pace has to do with it."""
    words = source.words
    levels = concurrencies(source.record)
    rows = []
    if any(level > 1 for level in levels):
        rows += [
            [words("throughput"), words("how-throughput"), words("client-throughput")],
            [words("mean-latency"), words("how-latency"), words("client-latency")],
        ]
    if 1 in levels:
        rows.append([words("latency-at-1"), words("how-latency-1"), words("client-latency-1")])
    return [Table("method", [words("metric"), words("how"), words("client-influence")], rows, ["left"] * 3)]
