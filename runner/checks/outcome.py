"""The exit code of a run: a function of its record and its checks."""

from collections.abc import Sequence

from runner.analysis.cell import cells
from runner.analysis.restoration import unrestored
from runner.checks.finding import Judgement, Result
from runner.exit_code import ExitCode
from runner.record.record import Record

PRECEDENCE = (
    ExitCode.NOT_RESTORED,
    ExitCode.INTERNAL,
    ExitCode.INTERRUPTED,
    ExitCode.REFUSED,
    ExitCode.ENGINE_DID_NOT_START,
    ExitCode.NOT_IN_FORCE,
    ExitCode.INCOMPLETE,
    ExitCode.INVARIANT_FAILED,
    ExitCode.INCONCLUSIVE,
    ExitCode.HELD,
)
"""Which one wins when several apply: first what is left broken, then what ended the run, then what it found.
INVALID comes before anything is started, and so comes alone."""


def outcome(record: Record, results: Sequence[Result]) -> ExitCode:
    """The code that wins."""
    return ranked_codes(record, results)[0]


def ranked_codes(record: Record, results: Sequence[Result]) -> list[ExitCode]:
    """The codes that apply, the winning one first. HELD is there only when it is alone."""
    applying = applying_codes(record, results)
    return [code for code in PRECEDENCE if code in applying and (code is not ExitCode.HELD or len(applying) == 1)]


def allowed_inconclusive(results: Sequence[Result]) -> list[str]:
    """Checks that could not be judged and that the spec allows to be so: they did not hold, they were not known."""
    return [one.check for one in results if one.judgement is Judgement.INCONCLUSIVE and one.allow_inconclusive]


def applying_codes(record: Record, results: Sequence[Result]) -> set[ExitCode]:
    """All codes that apply to this run."""
    codes = {ExitCode.HELD}
    if any(unrestored(one) is not None for one in record.baselines):
        codes.add(ExitCode.NOT_RESTORED)
    if record.runner_failed is not None:
        codes.add(ExitCode.INTERNAL)
    if record.interrupted is not None:
        codes.add(ExitCode.INTERRUPTED)
    if record.declined is not None:
        codes.add(ExitCode.REFUSED)
    for engine in record.engines:
        if engine.failed is not None and engine.failed.stage == "start":
            codes.add(ExitCode.ENGINE_DID_NOT_START)
        if engine.refused is not None:
            codes.add(ExitCode.NOT_IN_FORCE)
    if record.finished is None or any(cell.incomplete is not None for cell in cells(record)):
        codes.add(ExitCode.INCOMPLETE)
    for result in results:
        if result.judgement is Judgement.FAIL:
            codes.add(ExitCode.INVARIANT_FAILED)
        if result.judgement is Judgement.INCONCLUSIVE and not result.allow_inconclusive:
            codes.add(ExitCode.INCONCLUSIVE)
    return codes
