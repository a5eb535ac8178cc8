"""A place that is not as a run needs it: nothing was changed, nothing measured, and that alone is said."""

from pathlib import Path

from journals import make_record

from runner.checks import run_checks
from runner.checks.outcome import ranked_codes
from runner.exit_code import ExitCode
from runner.record import events
from runner.record.record import Record
from runner.report.render import render_report
from runner.report.summary import terminal_summary
from runner.report.write import Reported

WHY = "the baseline serves others: vllm:num_requests_running is 3; nothing was changed"


def declined(folder: Path) -> Record:
    return make_record(folder, change=lambda journal: [journal[0], events.DeclinedToRun(reason=WHY), journal[-1]])


def test_it_is_refused_and_not_merely_incomplete(tmp_path: Path) -> None:
    record = declined(tmp_path)
    assert ranked_codes(record, run_checks(record))[0] is ExitCode.REFUSED


def test_the_terminal_says_the_reason_and_the_code_and_nothing_else(tmp_path: Path) -> None:
    record = declined(tmp_path)
    said = terminal_summary(Reported(record, run_checks(record), "", "", ExitCode.REFUSED))
    assert said.splitlines() == [
        f"nothing was measured: {WHY}",
        "exit 8: refused before anything was changed (simulated)",
    ]


def test_the_report_says_it_first(tmp_path: Path) -> None:
    record = declined(tmp_path)
    text = render_report(record, run_checks(record), "en")
    assert "**Outcome: exit code 8 — refused before anything was changed**" in text
    assert "nothing was measured: the baseline serves others" in text.split("## ")[1]
