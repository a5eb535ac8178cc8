"""Accepted tokens by position are cumulative, and their sum is the accepted counter (article, 5-2)."""

from collections.abc import Iterator

from runner.analysis.acceptance import accepted_per_position, drafting, speculates, speculation_known
from runner.analysis.cell import Cell, cells
from runner.analysis.value import Absent
from runner.checks.finding import Finding, Judgement
from runner.checks.registry import check
from runner.record.record import Record
from runner.spec.invariants import PositionsAddUp


@check(PositionsAddUp)
def positions_add_up(record: Record, parameters: PositionsAddUp) -> Iterator[Finding]:
    """Per cell of an arm that speculates, over its rounds: drafts ≥ position 0 ≥ position 1 ≥ …, and the sum over
    the positions is the accepted tokens. (With n drafts of exactly k accepted tokens the same sum is Σ k·n.)"""
    del parameters
    judged = False
    for cell in cells(record):
        if speculates(record, cell.arm.id):
            judged = True
            yield _judge(cell)
    if not judged:
        known = speculation_known(record)
        judgement = Judgement.NOT_APPLICABLE if known else Judgement.INCONCLUSIVE
        yield Finding(judgement, "no-speculation" if known else "no-evidence")


def _judge(cell: Cell) -> Finding:
    subject = f"{cell.arm.label} C={cell.concurrency}"
    accepted = drafting(cell.rounds).accepted
    positions = accepted_per_position(cell.rounds)
    if not cell.rounds:
        return Finding(Judgement.INCONCLUSIVE, "not-measured", {}, subject)
    if drafting(cell.rounds).drafts == 0:
        return Finding(Judgement.INCONCLUSIVE, "no-drafts", {}, subject)
    if isinstance(positions, Absent):
        return Finding(Judgement.INCONCLUSIVE, positions.reason, positions.figures, subject)
    counts: list[float] = []
    for count in positions.values():
        if isinstance(count, Absent):
            contradicts = count.reason == "counters-contradict"
            judgement = Judgement.FAIL if contradicts else Judgement.INCONCLUSIVE
            return Finding(judgement, "positions-rise" if contradicts else count.reason, count.figures, subject)
        counts.append(count)
    if isinstance(accepted, Absent):
        return Finding(Judgement.INCONCLUSIVE, accepted.reason, accepted.figures, subject)
    figures = {"sum": sum(counts), "accepted": accepted}
    agree = sum(counts) == accepted
    reason = "positions-agree" if agree else "positions-disagree"
    return Finding(Judgement.PASS if agree else Judgement.FAIL, reason, figures, subject)
