"""`sequential-comparison`: the requests at concurrency 1, side by side (article, 4-3)."""

from collections.abc import Callable
from statistics import fmean, median

from runner.analysis.cell import Cell
from runner.analysis.sequential import mean_seconds, sequential_cells, statistic
from runner.analysis.value import Absent, Value, combine, ratio
from runner.report.client_times import timed
from runner.report.table import Source, Table, table


@table("sequential-comparison")
def sequential_comparison(source: Source) -> list[Table]:
    """Rows: mean, median, minimum, maximum of the client's latencies in seconds, and per token (mean latency ÷
    mean completion tokens, in ms). The difference to the baseline stands for mean and median only."""
    found = sequential_cells(source.record)
    if found is None:
        return []
    base, others = found
    words, numbers = source.words, source.numbers
    columns = [words("metric")]
    columns += [timed(f"{source.label(cell.arm.id)} ({_counted(source, cell)})", cell) for cell in [base, *others]]
    several = len(others) > 1
    columns += [
        timed(words("difference") + (f" {source.label(cell.arm.id)}" if several else ""), base, cell) for cell in others
    ]
    rows = []
    read: dict[str, Callable[[Cell], Value]] = {
        "mean": mean_seconds,
        "median": lambda cell: statistic(cell, median),
        "minimum": lambda cell: statistic(cell, min),
        "maximum": lambda cell: statistic(cell, max),
    }
    for key, of in read.items():
        values = [of(cell) for cell in [base, *others]]
        row = [words(key), *(numbers.seconds(value) for value in values)]
        compared = key in ("mean", "median")
        rows.append([*row, *(_difference(source, values[0], value) if compared else "" for value in values[1:])])
    per_token = [numbers.milliseconds(_per_token(cell)) for cell in [base, *others]]
    rows.append([words("per-token"), *per_token, *[""] * len(others)])
    return [Table("sequential-comparison", columns, rows)]


def _counted(source: Source, cell: Cell) -> str:
    numbers = [r.index for round_ in cell.rounds for r in round_.of_role("measured") if r.verdict == "ok"]
    excluded = sum(len(round_.of_role("excluded")) for round_ in cell.rounds)
    if (
        excluded
        and len(cell.rounds) == 1
        and numbers == list(range(min(numbers, default=0), max(numbers, default=0) + 1))
    ):
        return source.words("times-range", first=excluded + 1, last=excluded + len(numbers))
    return source.words("times", n=len(numbers))


def _per_token(cell: Cell) -> Value:
    tokens = [request.completion_tokens for round_ in cell.rounds for request in round_.ok]
    known = [count for count in tokens if count is not None]
    if not known or len(known) < len(tokens):
        return Absent("series-absent", {"name": "usage.completion_tokens"})
    return ratio(mean_seconds(cell), fmean(known))


def _difference(source: Source, base: Value, other: Value) -> str:
    change = combine(lambda a, b: a - b, base, other)
    if isinstance(change, Absent):
        return source.numbers.absent(change)
    return source.words("shorter" if change >= 0 else "longer", value=source.numbers.seconds(abs(change)))
