"""From a run directory to its `report.md` and `result.json`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runner.checks.finding import Result
from runner.checks.outcome import outcome
from runner.checks.registry import run_checks
from runner.exit_code import ExitCode
from runner.record.directory import REPORT, RESULT, write_whole
from runner.record.record import Record, read_record
from runner.report.render import render_report, render_tables
from runner.report.result import render_result


@dataclass(frozen=True)
class Reported:
    """A record with its checks, the report's text and the exit code that they give."""

    record: Record
    results: list[Result]
    report: str
    result: str
    code: ExitCode


def make_report(directory: Path, language: str | None = None) -> Reported:
    """Read the record and compute everything; writes nothing. Raises JournalError."""
    return report_of(read_record(directory), language)


def report_of(record: Record, language: str | None = None) -> Reported:
    """Everything that is computed from a record."""
    results = run_checks(record)
    return Reported(
        record,
        results,
        render_report(record, results, language),
        render_result(record, results),
        outcome(record, results),
    )


def tables_of(record: Record, names: Sequence[str], language: str | None = None) -> str:
    """Some tables of the report alone, in Markdown."""
    return render_tables(record, run_checks(record), names, language)


def write_report(directory: Path) -> Reported:
    """Compute and write both files. Raises JournalError, OSError."""
    reported = make_report(directory)
    write_files(directory, reported)
    return reported


def write_files(directory: Path, reported: Reported) -> None:
    """Write both files. Raises OSError."""
    write_whole(directory / RESULT, reported.result)
    write_whole(directory / REPORT, reported.report)
