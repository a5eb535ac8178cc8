"""The engine's mean latency and the client's wall time say the same (article, 7-3)."""

from collections.abc import Iterator

from runner.analysis.cell import Cell, cells
from runner.analysis.client_times import client_times_doubt
from runner.analysis.cross_check import ENOUGH_WAVES, disagreement, waves
from runner.analysis.value import Absent
from runner.checks.finding import Finding, Judgement
from runner.checks.registry import check
from runner.record.record import Record
from runner.spec.invariants import LatencyCrossCheck


@check(LatencyCrossCheck)
def latency_cross_check(record: Record, parameters: LatencyCrossCheck) -> Iterator[Finding]:
    """Per cell above concurrency 1: |wall × concurrency ÷ requests ÷ histogram mean − 1| of its worst round. A round
    of fewer than four waves is not judged: its wall time over-estimates the latency by both ramps. Inconclusive where
    the way to the engine makes the client's times doubtful, and where the client was the limit."""
    loaded = [cell for cell in cells(record) if cell.concurrency > 1]
    if not loaded:
        yield Finding(Judgement.NOT_APPLICABLE, "only-sequential")
    for cell in loaded:
        yield _judge(cell, parameters.tolerance)


def _judge(cell: Cell, tolerance: float) -> Finding:
    subject = f"{cell.arm.label} C={cell.concurrency}"
    if not cell.rounds:
        return Finding(Judgement.INCONCLUSIVE, "not-measured", {}, subject)
    judged = [round_ for round_ in cell.rounds if waves(round_) >= ENOUGH_WAVES]
    if not judged:
        return Finding(Judgement.NOT_APPLICABLE, "few-waves", {"needed": ENOUGH_WAVES}, subject)
    if (doubted := client_times_doubt(cell)) is not None:
        return Finding(Judgement.INCONCLUSIVE, doubted.reason, doubted.figures, subject)
    worst = 0.0
    for round_ in judged:
        found = disagreement(round_, cell.phase)
        if isinstance(found, Absent):
            return Finding(Judgement.INCONCLUSIVE, found.reason, found.figures, subject)
        worst = max(worst, found, key=abs)
    figures = {"difference": worst, "tolerance": tolerance}
    near = abs(worst) <= tolerance
    return Finding(
        Judgement.PASS if near else Judgement.FAIL,
        "latencies-agree" if near else "latencies-disagree",
        figures,
        subject,
    )
