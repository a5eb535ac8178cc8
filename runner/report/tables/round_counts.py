"""`round-counts`: counters by round, and contaminated rounds (article, 7-2 and 8-1)."""

import math

from runner.analysis.acceptance import drafting, speculates
from runner.analysis.cell import Cell, cells, surplus
from runner.analysis.counters import counter_delta
from runner.analysis.value import Absent, Value, ratio
from runner.engine import metrics
from runner.record.record import Round
from runner.report.markdown import escape
from runner.report.table import Source, Table, table

_ALIKE = 0.02
"""Relative difference of draft tokens a request up to which foreign requests count as of the same kind: with several
prompts in turn, rounds differ a little by themselves."""


@table("round-counts")
def round_counts(source: Source) -> list[Table]:
    """Columns: round; Δcount and Δsum of the end-to-end latency histogram; Δ of draft tokens and of accepted
    tokens; acceptance rate (Δaccepted ÷ Δdraft tokens). A round in which more finished than was sent is marked ※."""
    words, numbers = source.words, source.numbers
    rows, notes = [], []
    silent = False
    for cell in cells(source.record):
        for round_ in cell.rounds:
            counted = drafting([round_])
            off = not speculates(source.record, cell.arm.id)
            silent = silent or off
            rows.append(
                [
                    round_name(source, cell, round_) + (" ※" if round_ in cell.contaminated else ""),
                    numbers.count(counter_delta(round_, metrics.E2E_COUNT)),
                    numbers.plain(counter_delta(round_, metrics.E2E_SUM), 3),
                    "–" if off else numbers.count(counted.draft_tokens),
                    "–" if off else numbers.count(counted.accepted),
                    "–" if off else numbers.percent(counted.rate),
                ]
            )
        notes += [note for round_ in cell.contaminated for note in contamination_notes(source, cell, round_)]
    if not rows:
        return []
    notes = [*_windows(source), *notes]
    if silent:
        notes.append("– " + words("note-absent-drafts"))
    columns = [words("round"), "Δcount", "Δsum", "Δdraft", "Δaccepted", words("acceptance-rate")]
    return [Table("round-counts", columns, rows, notes=notes)]


def round_name(source: Source, cell: Cell, round_: Round) -> str:
    """`on C=4 1회차`; with several replicates `on C=4 #2 1회차`."""
    replicate = f" #{round_.replicate}" if source.record.plan.replicates > 1 else ""
    number = source.words("round-number", n=round_.number)
    return f"{source.label(cell.arm.id)} C={cell.concurrency}{replicate} {number}"


def contamination_notes(source: Source, cell: Cell, round_: Round) -> list[str]:
    """Which round, how many too many, and whether they drafted like the requests of its siblings."""
    extra = surplus(round_, cell.phase)
    assert not isinstance(extra, Absent)
    notes = [source.words("note-contaminated", round=round_name(source, cell, round_), surplus=extra)]
    own, siblings = (
        _drafts_per_request(round_),
        [_drafts_per_request(other) for other in cell.rounds if other not in cell.contaminated],
    )
    others = {value for value in siblings if not isinstance(value, Absent)}
    if not isinstance(own, Absent) and others:
        alike = all(math.isclose(own, value, rel_tol=_ALIKE) for value in others)
        same = source.words("same-kind" if alike else "other-kind")
        listed = ", ".join(f"{value:g}" for value in sorted(others))
        notes.append(source.words("note-contaminated-kind", own=f"{own:g}", siblings=listed, same=same))
    return notes


def _drafts_per_request(round_: Round) -> Value:
    return ratio(drafting([round_]).draft_tokens, counter_delta(round_, metrics.E2E_COUNT))


def _windows(source: Source) -> list[str]:
    notes = []
    for phase in source.record.plan.phases:
        if phase.warm_up and phase.warm_up_counted:
            notes.append(
                source.words(
                    "note-window-counted",
                    phase=escape(phase.name),
                    warm=phase.warm_up,
                    requests=phase.requests,
                    total=phase.warm_up + phase.requests,
                )
            )
        else:
            notes.append(source.words("note-window-plain", phase=escape(phase.name), requests=phase.requests))
    return notes
