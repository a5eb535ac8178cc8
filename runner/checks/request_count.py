"""The engine finished exactly what was sent."""

from collections.abc import Iterator
from dataclasses import asdict

from runner.analysis.cell import cells, surplus
from runner.analysis.counters import disagreement, window_requests
from runner.analysis.value import Absent
from runner.checks.finding import Finding, Judgement
from runner.checks.registry import check
from runner.record.record import Record
from runner.spec.invariants import RequestCount


@check(RequestCount)
def request_count(record: Record, parameters: RequestCount) -> Iterator[Finding]:
    """Δcount of the latency histogram against the requests in the window, round by round.

    More than was sent is foreign traffic: the round is contaminated. Fewer than were answered is an engine, or a
    window, that cannot be trusted. Where they agree, the engine's other counts of the same requests and tokens must
    agree with the replies too. Rounds in which all do are reported as one finding.
    """
    good = judged = 0
    for cell in cells(record):
        for round_ in cell.rounds:
            judged += 1
            subject = f"{cell.arm.label} C={cell.concurrency} #{round_.replicate}.{round_.number}"
            extra = surplus(round_, cell.phase)
            ok, sent = window_requests(round_, warm_up_counted=cell.phase.warm_up_counted)
            figures = {"sent": sent, "ok": ok, "allowed": parameters.max_surplus}
            if isinstance(extra, Absent):
                yield Finding(Judgement.INCONCLUSIVE, extra.reason, extra.figures, subject)
            elif extra > parameters.max_surplus:
                yield Finding(Judgement.FAIL, "round-contaminated", {**figures, "surplus": extra}, subject)
            elif extra < 0:
                yield Finding(Judgement.FAIL, "requests-unfinished", {**figures, "missing": -extra}, subject)
            elif extra > 0:
                yield Finding(Judgement.PASS, "surplus-tolerated", {**figures, "surplus": extra}, subject)
            elif ok < sent:
                # What the spec tolerates to fail bounds what could hide behind it.
                judgement = Judgement.PASS if cell.incomplete is None else Judgement.INCONCLUSIVE
                yield Finding(judgement, "window-failures", {"sent": sent, "failed": sent - ok}, subject)
            elif round_.finished is not None and (why := round_.finished.busy) is not None:
                yield Finding(Judgement.INCONCLUSIVE, "never-idle", {"why": why}, subject)
            elif (found := disagreement(round_, warm_up_counted=cell.phase.warm_up_counted)) is not None:
                yield Finding(Judgement.INCONCLUSIVE, "counters-disagree", asdict(found), subject)
            else:
                good += 1
    if good:
        yield Finding(Judgement.PASS, "counts-agree", {"rounds": good})
    if not judged:
        yield Finding(Judgement.INCONCLUSIVE, "not-measured")
