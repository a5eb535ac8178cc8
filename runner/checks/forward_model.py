"""The speed-up is what the engine's own step counts and step times give (article, 5-3, with the cost of a step)."""

from collections.abc import Iterator

from runner.analysis.acceptance import speculates, speculation_known
from runner.analysis.cell import concurrencies
from runner.analysis.client_times import client_times_doubt
from runner.analysis.comparison import comparison
from runner.analysis.forward import forward_model
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
    Inconclusive where the way to the engine is doubted or the client was the limit: they pace the requests, and a
    step's time is that of the batch that these make."""
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
        pair = comparison(record, arm.id, level)
        model = forward_model(pair.base, pair.other)
        predicted = model.with_step_cost
        void = pair.void or client_times_doubt(pair.base, pair.other)
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
