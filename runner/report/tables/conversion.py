"""`conversion`: the sequential comparison as ratios (article, 4-3)."""

from statistics import median

from runner.analysis.sequential import mean_seconds, sequential_cells, statistic
from runner.analysis.value import combine, ratio
from runner.report.client_times import timed
from runner.report.table import Source, Table, table


@table("conversion")
def conversion(source: Source) -> list[Table]:
    """Rows, of the client's latencies at concurrency 1: mean of the baseline ÷ mean of the other; the same of the
    medians; time saved: 1 − mean of the other ÷ mean of the baseline. Of unrounded values."""
    found = sequential_cells(source.record)
    if found is None:
        return []
    base, others = found
    words, numbers = source.words, source.numbers
    tables = []
    for other in others:
        means = mean_seconds(base), mean_seconds(other)
        medians = statistic(base, median), statistic(other, median)
        rows = [
            [words("speedup-of-means"), numbers.ratio(ratio(*means), 3)],
            [words("speedup-of-medians"), numbers.ratio(ratio(*medians), 3)],
            [words("time-saved"), numbers.percent(combine(lambda one, two: 1 - two / one, *means))],
        ]
        subject = source.label(other.arm.id) if len(others) > 1 else ""
        tables.append(
            Table("conversion", [words("conversion"), timed(words("value"), base, other)], rows, subject=subject)
        )
    return tables
