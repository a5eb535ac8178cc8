"""Progress: one moving line on a terminal, plain lines elsewhere, and never on standard output."""

import io
from pathlib import Path

from journals import make_events, make_plan

from runner.cli.progress import Progress
from runner.engine.verdict import Verdict
from runner.load.closed_loop import InFlight
from runner.record.events import RequestDone


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def heard(folder: Path, stream: io.StringIO) -> str:
    plan = make_plan(folder)
    progress = Progress(plan, stream)
    for event in make_events(plan):
        progress(event)
        if event.event == "round-started":
            for done in (16, 32):
                progress.in_flight(InFlight(sent=done, done=done))
    return stream.getvalue()


def test_plain_lines_where_there_is_no_terminal(tmp_path: Path) -> None:
    text = heard(tmp_path, io.StringIO())
    assert "\r" not in text and "\x1b" not in text
    lines = text.splitlines()
    assert "off: waiting for the engine" in lines and "on: ready after 1.0 s" in lines
    assert lines.count("on load C=32 round 2: 64 requests, done") == 1
    assert len([line for line in lines if "requests, done" in line]) == 14


def test_a_round_with_failed_requests_says_how_many(tmp_path: Path) -> None:
    plan = make_plan(tmp_path)
    stream = io.StringIO()
    progress = Progress(plan, stream)
    broken = {("on", 4, 2, 7), ("on", 4, 2, 8)}
    for event in make_events(plan):
        if isinstance(event, RequestDone) and (event.arm, event.concurrency, event.round, event.index) in broken:
            progress(event.model_copy(update={"verdict": Verdict.REFUSED}))
        else:
            progress(event)
    told = [line for line in stream.getvalue().splitlines() if "failed" in line]
    assert told == ["on load C=4 round 2: 64 requests, done, 2 failed"]


def test_a_terminal_shows_condition_phase_round_requests_and_time_left(tmp_path: Path) -> None:
    text = heard(tmp_path, Terminal())
    moving = [part for part in text.replace("\n", "\r").split("\r\x1b[K") if "/64" in part]
    assert any(part.startswith("on load C=16 round 1: 32/64, about ") and part.endswith(" s left") for part in moving)
    # Every moving line is wiped before a lasting one, so that nothing of it stays on the screen.
    assert [part for part in text.split("\n") if "/64" in part.rpartition("\r\x1b[K")[2]] == []
