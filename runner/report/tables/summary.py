"""`summary`: the speed-up per concurrency (article, top and 9-3)."""

from runner.analysis.cell import concurrencies
from runner.analysis.comparison import Comparison, comparison
from runner.analysis.confounding import confounders
from runner.analysis.value import Absent
from runner.report.table import Source, Table, table


@table("summary")
def summary(source: Source) -> list[Table]:
    """Columns: concurrency, condition (where several are compared), mean throughput ÷ the baseline's (at
    concurrency 1 the baseline's mean latency ÷ this one's), and whether the ranges overlap.

    The ratio is of unrounded means. Ranges: of the rounds' throughput, at concurrency 1 of single requests.
    """
    others = source.record.plan.others
    if not others:
        return []
    words, numbers = source.words, source.numbers
    several = len(others) > 1
    rows = []
    for level in concurrencies(source.record):
        for arm in others:
            pair = comparison(source.record, arm.id, level)
            named = [source.label(arm.id)] if several else []
            mark = " ※" if pair.base.contaminated or pair.other.contaminated else ""
            rows.append([str(level) + mark, *named, numbers.ratio(pair.speedup), separation(source, pair)])
    columns = [words("concurrency"), *([words("condition")] if several else []), words("speedup"), words("separation")]
    notes = [words("note-summary")]
    for arm in others:
        found = [source.feature(one.feature) for one in confounders(source.record, arm)]
        if found:
            notes.append(words("note-confounded", label=source.label(arm.id), features=", ".join(found)))
    return [Table("summary", columns, rows, notes=notes)]


def separation(source: Source, pair: Comparison) -> str:
    """Whether the two ranges of throughput overlap, in a word."""
    lowest, mean = pair.lowest_ratio("throughput"), pair.speedup
    if isinstance(mean, Absent):
        return source.numbers.absent(mean)
    if isinstance(lowest, Absent):
        return source.words("one-round-short")
    if lowest > 1:
        return source.words("separated")
    highest = pair.highest_ratio("throughput")
    if not isinstance(highest, Absent) and highest < 1:
        return source.words("slower-separated")
    return source.words("not-separated")
