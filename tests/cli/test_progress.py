"""Progress: one moving line on a terminal, plain lines elsewhere, and never on standard output."""

import io
from pathlib import Path

from journals import BY_HAND, make_events, make_plan, restored, saved

from runner.cli.progress import Progress
from runner.engine.verdict import Verdict
from runner.load.generator import InFlight
from runner.record import events
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


def test_what_happens_to_the_place_is_said(tmp_path: Path) -> None:
    stream = io.StringIO()
    progress = Progress(make_plan(tmp_path), stream)
    progress(saved())
    progress(saved(what="Service demo/qwen", existed=False, facts={}, how="removed"))
    progress(events.Warned(source="API server", about="deployments/qwen", text="deprecated"))
    progress(restored())
    progress(restored(restored=False, reason="Conflict: argocd owns it"))
    progress(restored(restored=False))
    assert stream.getvalue().splitlines() == [
        "Deployment demo/qwen: saved; to be put back: replaced by the saved object",
        "Service demo/qwen: did not exist before; removed",
        "warning of API server (deployments/qwen): deprecated",
        "Deployment demo/qwen: restored after 12.5 s: replaced by the saved object",
        "Deployment demo/qwen: NOT restored: Conflict: argocd owns it",
        f"  | by hand: {BY_HAND}",
        "Deployment demo/qwen: NOT restored: it is not as it was",
        f"  | by hand: {BY_HAND}",
    ]


def test_a_failure_says_how_fast_it_was_named(tmp_path: Path) -> None:
    stream = io.StringIO()
    progress = Progress(make_plan(tmp_path), stream)
    failed = events.EngineFailed(arm="on", replicate=1, stage="start", reason="OOMKilled", words=["x"], seconds=3.21)
    progress(failed)
    progress(failed.model_copy(update={"seconds": None}))
    assert stream.getvalue().splitlines() == [
        "on: OOMKilled (named 3.2 s after it could first be seen)",
        "  | x",
        "on: OOMKilled",
        "  | x",
    ]
