"""The exit code of a run: a function of its record and its checks."""

from collections.abc import Sequence
from enum import IntEnum

from runner.analysis.cell import cells
from runner.checks.finding import Judgement, Result
from runner.record.record import Record


class ExitCode(IntEnum):
    """Every exit code of the command, with one meaning each."""

    HELD = 0
    INVARIANT_FAILED = 1
    INVALID = 2
    ENGINE_DID_NOT_START = 3
    NOT_IN_FORCE = 4
    INCOMPLETE = 5
    INCONCLUSIVE = 6
    NOT_RESTORED = 7
    REFUSED = 8
    INTERNAL = 70
    INTERRUPTED = 130


PRECEDENCE = (
    ExitCode.NOT_RESTORED,
    ExitCode.INTERNAL,
    ExitCode.INTERRUPTED,
    ExitCode.ENGINE_DID_NOT_START,
    ExitCode.NOT_IN_FORCE,
    ExitCode.INCOMPLETE,
    ExitCode.INVARIANT_FAILED,
    ExitCode.INCONCLUSIVE,
    ExitCode.HELD,
)
"""Which one wins when several apply: first what is left broken, then what ended the run, then what it found.
INVALID and REFUSED come before anything is started, and so come alone."""


def outcome(record: Record, results: Sequence[Result]) -> ExitCode:
    """The code that wins."""
    applying = applying_codes(record, results)
    return next(code for code in PRECEDENCE if code in applying)


def applying_codes(record: Record, results: Sequence[Result]) -> set[ExitCode]:
    """All codes that apply to this run."""
    codes = {ExitCode.HELD}
    if record.runner_failed is not None:
        codes.add(ExitCode.INTERNAL)
    if record.interrupted is not None:
        codes.add(ExitCode.INTERRUPTED)
    for engine in record.engines:
        if engine.failed is not None and engine.failed.stage == "start":
            codes.add(ExitCode.ENGINE_DID_NOT_START)
        if engine.refused is not None:
            codes.add(ExitCode.NOT_IN_FORCE)
    if any(cell.incomplete is not None for cell in cells(record)):
        codes.add(ExitCode.INCOMPLETE)
    for result in results:
        if result.judgement is Judgement.FAIL:
            codes.add(ExitCode.INVARIANT_FAILED)
        if result.judgement is Judgement.INCONCLUSIVE and not result.allow_inconclusive:
            codes.add(ExitCode.INCONCLUSIVE)
    return codes
