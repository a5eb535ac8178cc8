"""`run report RUN`: the report again, from the record alone; no engine and no network is touched."""

import sys
from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path

from runner.exit_code import ExitCode
from runner.record.directory import REPORT
from runner.record.journal import JournalError
from runner.report.words import LANGUAGES
from runner.report.write import make_report, make_tables, write_report
from runner.spec.nearest import nearest
from runner.spec.tables import TABLE_IDS


def main(argv: list[str]) -> int:
    """0 when the report was made, whatever it says; 2 when there is no readable record."""
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
    options = parser.parse_args(argv)
    if options.language and not options.output and not options.table:
        parser.error("--language needs --output: the report in RUN stays in the spec's language")
    try:
        if options.output is None and not options.table:
            write_report(options.run)
            print(options.run / REPORT)
            return 0
        if options.table:
            text = make_tables(options.run, options.table, options.language)
        else:
            text = make_report(options.run, options.language).report
        if options.output in (None, "-"):
            sys.stdout.write(text)
        else:
            Path(options.output).write_text(text, encoding="utf-8", newline="\n")
            print(options.output)
    except JournalError as error:
        print(f"run report: {error}", file=sys.stderr)
        return ExitCode.INVALID
    except OSError as error:
        print(f"run report: {error.filename}: {error.strerror}", file=sys.stderr)
        return ExitCode.INVALID
    return 0


def _table(name: str) -> str:
    if name in TABLE_IDS:
        return name
    found = nearest(name, TABLE_IDS)
    meant = f'did you mean "{found}"?' if found else f"tables: {', '.join(TABLE_IDS)}"
    raise ArgumentTypeError(f'no table is called "{name}"; {meant}')
