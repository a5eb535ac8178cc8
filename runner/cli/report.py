"""`run report RUN`: the report again, from the record alone; no engine and no network is touched."""

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

from runner.execution.recapture import recaptured
from runner.exit_code import ExitCode
from runner.load.capture import CaptureError
from runner.record.directory import REPORT
from runner.record.journal import JournalError
from runner.record.record import Record, read_record
from runner.report.words import LANGUAGES
from runner.report.write import report_of, tables_of, write_files
from runner.spec.nearest import nearest
from runner.spec.tables import TABLE_IDS

_SHOWN = 20
"""Differences that are told one by one."""


def main(argv: list[str]) -> int:
    """0 when the report was made, whatever it says; 2 where a record cannot be read, or its captures say otherwise."""
    parser = ArgumentParser(
        prog="run report", description="Make a run's report.md and result.json again, from its record alone."
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="a run directory")
    parser.add_argument("--language", choices=LANGUAGES, help="another language than the spec's; goes to --output")
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="write the Markdown there (- for standard output) and leave RUN alone",
    )
    parser.add_argument(
        "--table",
        metavar="ID",
        action="append",
        type=_table,
        help="only this table, to standard output or --output; may be given several times",
    )
    parser.add_argument(
        "--from-captures",
        action="store_true",
        help="read every request again from what came over the wire, instead of the journal's word for it; where the "
        "two differ, that is said, and RUN is left alone",
    )
    options = parser.parse_args(argv)
    if options.language and not options.output and not options.table:
        parser.error("--language needs --output: the report in RUN stays in the spec's language")
    try:
        return _report(options)
    except (JournalError, CaptureError) as error:
        print(f"run report: {error}", file=sys.stderr)
    except OSError as error:
        print(f"run report: {error.filename}: {error.strerror}", file=sys.stderr)
    return ExitCode.INVALID


def _report(options: Namespace) -> int:
    record, differs = _recaptured(options.run) if options.from_captures else (read_record(options.run), False)
    code = ExitCode.INVALID if differs else 0
    if options.table:
        text = tables_of(record, options.table, options.language)
    else:
        reported = report_of(record, options.language)
        text = reported.report
        if options.output is None:
            if not differs:
                write_files(options.run, reported)
                print(options.run / REPORT)
            return code
    if options.output in (None, "-"):
        sys.stdout.write(text)
    else:
        Path(options.output).write_text(text, encoding="utf-8", newline="\n")
        print(options.output)
    return code


def _recaptured(run: Path) -> tuple[Record, bool]:
    """The record by the captures, and whether the journal says otherwise; what is found goes to standard error."""
    found = recaptured(run)
    lines = [f"run report: the captures say otherwise: {one}" for one in found.differences[:_SHOWN]]
    more = len(found.differences) - _SHOWN
    if more > 0:
        lines.append(f"run report: and {more} more")
    if not found.differences:
        lines.append(f"{found.requests} requests read from the captures: as the journal has them")
    print("\n".join(lines), file=sys.stderr)
    return found.record, bool(found.differences)


def _table(name: str) -> str:
    if name in TABLE_IDS:
        return name
    found = nearest(name, TABLE_IDS)
    meant = f'did you mean "{found}"?' if found else f"tables: {', '.join(TABLE_IDS)}"
    raise ArgumentTypeError(f'no table is called "{name}"; {meant}')
