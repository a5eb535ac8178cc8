"""`acceptance-distribution`: how many drafts had exactly k tokens accepted (article, 5-2)."""

import itertools
from collections.abc import Mapping

from runner.analysis.acceptance import accepted_per_position, drafting
from runner.analysis.value import Absent, Value
from runner.report.table import Source, Table, table
from runner.report.tables.draft_counters import speculating_cells


@table("acceptance-distribution")
def acceptance_distribution(source: Source) -> list[Table]:
    """Columns: accepted tokens k; drafts with exactly k; how that follows. With p[i] the counter of position i (0
    first) and K positions: k = 0 is drafts − p[0], 0 < k < K is p[k−1] − p[k], k = K is p[K−1]. The last row is
    their sum, and whether Σ k·n is the accepted counter. Neighbours that are 0 share a row."""
    words = source.words
    speculating = speculating_cells(source)
    tables = []
    for cell in speculating:
        counted = drafting(cell.rounds)
        exact = _exact(counted.drafts, accepted_per_position(cell.rounds))
        if exact is None:
            continue
        rows = _rows(source, exact, counted.accepted)
        subject = source.label(cell.arm.id) if len(speculating) > 1 else ""
        columns = [words("accepted-tokens"), words("draft-number"), words("calculation")]
        tables.append(Table("acceptance-distribution", columns, rows, ["left", "right", "left"], subject=subject))
    return tables


Exact = list[tuple[float, str]]
"""Per k from 0: how many drafts had exactly k tokens accepted, and the difference that says so."""


def _exact(drafts: Value, positions: Mapping[int, Value] | Absent) -> Exact | None:
    if isinstance(positions, Absent) or isinstance(drafts, Absent):
        return None
    known = [value for value in positions.values() if not isinstance(value, Absent)]
    if len(known) < len(positions) or list(positions) != list(range(len(known))):
        return None
    falling = [drafts, *known]
    exact = [(more - less, f"{more:,.0f} − {less:,.0f}") for more, less in itertools.pairwise(falling)]
    return [*exact, (falling[-1], "")]


def _rows(source: Source, exact: Exact, accepted: Value) -> list[list[str]]:
    words, numbers = source.words, source.numbers
    rows, at = [], 0
    for zero, group in itertools.groupby(exact, key=lambda one: one[0] == 0):
        run = list(group)
        first, last = at, at + len(run) - 1
        at += len(run)
        if zero and len(run) > 1:
            span = words("pieces", value=f"{first}~{last}")
            equal = (
                words("equal-positions", first=first - 1, last=min(last, len(exact) - 2))
                if first
                else words("equal-from-drafts", last=min(last, len(exact) - 2))
            )
            rows.append([span, "0", equal])
            continue
        for k, (count, how) in enumerate(run, start=first):
            text = how or words("counter-of-position", position=len(exact) - 2)
            rows.append([words("pieces", value=k), numbers.count(count), text])
    total = sum(count for count, _ in exact)
    tokens = sum(k * count for k, (count, _) in enumerate(exact))
    return [*rows, [words("total"), numbers.count(total), _agreement(source, tokens, accepted)]]


def _agreement(source: Source, tokens: float, accepted: Value) -> str:
    if isinstance(accepted, Absent):
        return source.numbers.absent(accepted)
    shown = source.numbers.count(tokens)
    if tokens == accepted:
        return source.words("agrees-with-accepted", accepted=shown)
    return source.words("disagrees-with-accepted", tokens=shown, accepted=source.numbers.count(accepted))
