"""The speed-up is what the engine's own step counts and step times give (article, 5-3, with the cost of a step)."""

from collections.abc import Iterator

from runner.analysis.acceptance import speculates, speculation_known
from runner.analysis.cell import cell, concurrencies
from runner.analysis.comparison import comparison
from runner.analysis.forward import forward_model
from runner.analysis.transport import transport_doubt
from runner.analysis.value import Absent
from runner.checks.finding import Finding, Judgement
from runner.checks.registry import check
from runner.record.record import Record
from runner.spec.invariants import ForwardModel


@check(ForwardModel)
def forward_model_check(record: Record, parameters: ForwardModel) -> Iterator[Finding]:
    """Per arm that speculates while the baseline does not, at the lowest concurrency: tokens per decode step × step
    time of the baseline ÷ step time of the arm, against the mean latency of the baseline ÷ the arm's over the same
    windows. The form of the article, which takes steps to cost the same, is in the table and judges nothing.
    Inconclusive where the way to the engine is doubted: it paces the requests, and a step's time is that of the batch
    that they make."""
    base = record.plan.baseline
    arms = [arm for arm in record.plan.others if speculates(record, arm.id)]
    if speculates(record, base):
        yield Finding(Judgement.NOT_APPLICABLE, "baseline-speculates")
        return
    if not arms:
        known = speculation_known(record)
        judgement = Judgement.NOT_APPLICABLE if known else Judgement.INCONCLUSIVE
        yield Finding(judgement, "no-speculation" if known else "no-evidence")
        return
    level = min(concurrencies(record))
    for arm in arms:
        subject = f"{arm.label} C={level}"
        model = forward_model(cell(record, base, level), cell(record, arm.id, level))
        predicted = model.with_step_cost
        void = comparison(record, arm.id, level).void or transport_doubt(record, base, arm.id)
        measured = void or model.measured_in_window
        if isinstance(predicted, Absent):
            yield Finding(Judgement.INCONCLUSIVE, predicted.reason, predicted.figures, subject)
        elif isinstance(measured, Absent):
            yield Finding(Judgement.INCONCLUSIVE, measured.reason, measured.figures, subject)
        else:
            figures = {"predicted": predicted, "measured": measured, "tolerance": parameters.tolerance}
            near = abs(predicted / measured - 1) <= parameters.tolerance
            reason = "forward-agrees" if near else "forward-disagrees"
            yield Finding(Judgement.PASS if near else Judgement.FAIL, reason, figures, subject)
