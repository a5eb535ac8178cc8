"""Reports of servers that ran already: what no log shows is said to be unknown, and a simulated one is marked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from journals import Change, edit_events, make_record

from runner.checks import run_checks
from runner.record import events
from runner.record.record import Record
from runner.report.render import render_report
from runner.report.result import render_result
from runner.report.summary import terminal_summary
from runner.report.write import Reported

NOTHING = events.FeatureFound(value=None, quote=None, source=None)


def there(event: events.EngineLaunched) -> events.EngineLaunched:
    return event.model_copy(update={"command": [], "log": None, "endpoint": f"http://{event.arm}:8000"})


def unlogged(event: events.EvidenceRead) -> events.EvidenceRead:
    """The evidence of a server whose configuration is seen by /v1/models and by its counters alone."""
    found = [one.model_copy(update=_found(one.name)) for one in event.arguments]
    return event.model_copy(
        update={
            "arguments": found,
            "parsed": None,
            "features": dict.fromkeys(event.features, NOTHING),
            "speculation": None if event.arm == "off" else events.Speculation(method=None, model=None, tokens=5),
            "speculation_source": "the draft counters",
            "quotes": {"speculative": "counters of 5 positions"},
            "absent": {"the log": "x", "/server_info": "HTTP 404"},
        }
    )


def _found(name: str) -> dict[str, Any]:
    nothing = {"parsed": None, "configured": None, "verdict": "unknown", "source": None}
    shown = {"parsed": None, "verdict": "in-force"}
    return {
        "served_model_name": {**shown, "configured": ["m"], "source": "/v1/models"},
        "spec_tokens": {**shown, "configured": 5, "source": "the draft counters"},
    }.get(name, nothing)


def changes(*each: Change) -> Change:
    def changed(journal: list[events.Event]) -> list[events.Event]:
        for one in each:
            journal = list(one(journal))
        return journal

    return changed


UNLOGGED = changes(edit_events(events.EngineLaunched, there), edit_events(events.EvidenceRead, unlogged))
MEASURED = edit_events(events.RunStarted, lambda e: e.model_copy(update={"simulated": False, "target": "endpoint"}))


def report(record: Record, language: str = "en") -> str:
    return render_report(record, run_checks(record), language)


def rows(text: str, name: str) -> list[list[str]]:
    section = text.partition(f"(`{name}`)")[2].partition("\n### ")[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("| ")]


def test_the_evidence_stands_by_its_source(tmp_path: Path) -> None:
    text = report(make_record(tmp_path, change=UNLOGGED))
    assert [row[:4] for row in rows(text, "startup-evidence")[1:]] == [
        ["off", "engine log", "–", "this target does not see it"],
        ["off", "/server_info", "–", "absent: HTTP 404"],
        ["off", "/v1/models", "`served_model_name: ['m']`", "what the engine says of itself"],
        ["off", "nothing shows", "`max_num_seqs`", "unknown"],
        ["off", "speculative_config (draft counters)", "`counters of 5 positions`", "speculative decoding is off"],
        ["off", "draft counters (one request)", "–", "no draft counters are exposed"],
        ["on", "engine log", "–", "this target does not see it"],
        ["on", "/server_info", "–", "absent: HTTP 404"],
        ["on", "draft counters", "`spec_tokens: 5`", "what the engine says of itself"],
        ["on", "nothing shows", "`spec_method`", "unknown"],
        [
            "on",
            "speculative_config (draft counters)",
            "`counters of 5 positions`",
            "the engine built its configuration from them",
        ],
        [
            "on",
            "draft counters (one request)",
            "drafts 8, draft tokens 40, accepted 34",
            "the counters moved over one request",
        ],
    ]  # fmt: skip
    korean = report(make_record(tmp_path, change=UNLOGGED), "ko")
    assert "| 엔진 로그 " in korean and "이 target에서는 볼 수 없다" in korean


def test_what_is_only_declared_is_not_said_to_have_changed(tmp_path: Path) -> None:
    text = report(make_record(tmp_path, change=UNLOGGED))
    assert "confounded: Async scheduling (declared, but nothing tells), Model runner (declared" in text
    assert rows(text, "disabled-features")[1][1] == "unknown → unknown (declared, but nothing tells)"
    assert "confounded: Async scheduling, Model runner" in report(make_record(tmp_path))


def test_gaps_and_provenance_name_what_a_server_that_was_there_lacks(tmp_path: Path) -> None:
    text = report(make_record(tmp_path, change=UNLOGGED))
    assert "the log of `off`: this target does not see it" in text
    assert "`on` #1 endpoint: `http://on:8000`" in text
    assert "#1 command" not in text
    plain = report(make_record(tmp_path))
    assert "#1 command" in plain and "does not see it" not in plain and "#1 endpoint" not in plain


def test_the_checks_of_such_a_run_are_inconclusive_and_nothing_else(tmp_path: Path) -> None:
    record = make_record(tmp_path, change=UNLOGGED)
    found = {one.check: str(one.judgement) for one in run_checks(record) if one.judgement != "pass"}
    expected = ("configuration-in-force", "declared-differences", "request-options")
    assert found == dict.fromkeys(expected, "inconclusive")


@pytest.mark.parametrize("source", [None, "the draft counters"])
def test_no_speculation_is_known_only_where_something_tells(tmp_path: Path, source: str | None) -> None:
    def plain(spec: dict[str, Any]) -> None:
        spec["conditions"]["on"] = {"args": {"max-num-seqs": 8}}

    def told(event: events.EvidenceRead) -> events.EvidenceRead:
        return event.model_copy(update={"speculation": None, "speculation_source": source})

    record = make_record(tmp_path, plain, change=edit_events(events.EvidenceRead, told))
    [check] = [one for one in run_checks(record) if one.check == "acceptance-constant"]
    assert check.judgement == ("inconclusive" if source is None else "not-applicable")
    assert {one.reason for one in check.findings} == {"no-evidence" if source is None else "no-speculation"}


@pytest.mark.parametrize("simulated", [[], ["on"], ["off", "on"]])
def test_one_simulated_server_marks_the_whole_report(tmp_path: Path, simulated: list[str]) -> None:
    ready = edit_events(
        events.EngineReady, lambda e: e.model_copy(update={"simulated": True}), lambda e: e.arm in simulated
    )
    record = make_record(tmp_path, change=changes(MEASURED, ready))
    text, results = report(record), run_checks(record)
    headings = [line for line in text.splitlines() if line.startswith("### ")]
    assert {line.endswith("— simulated") for line in headings} == {bool(simulated)}
    assert ("> **simulated.**" in text) == bool(simulated)
    assert ("a real engine and a GPU: this run is the embedded engine's" in text) == bool(simulated)
    assert ("- simulated: yes" in text) == bool(simulated)
    result = render_result(record, results)
    assert json.loads(result)["simulated"] is bool(simulated)
    said = terminal_summary(Reported(record, results, text, result, 0))  # type: ignore[arg-type]  # not shown
    assert ("(simulated)" in said) == bool(simulated)


def test_the_table_of_a_refusal_names_the_source_and_tells_null_from_nothing(tmp_path: Path) -> None:
    off = events.ArgumentFound(
        name="spec_method", wanted="ngram", parsed=None, configured=None, verdict="ignored",
        reason="r", quote="speculative_config: null", source="/server_info",
    )  # fmt: skip
    parsed = off.model_copy(update={"name": "x", "parsed": 1, "source": "non-default args", "verdict": "parsed"})
    nothing = off.model_copy(update={"name": "y", "source": None, "verdict": "unknown"})

    def refused(journal: list[events.Event]) -> list[events.Event]:
        return [*journal[:-1], events.Refused(arm="on", replicate=1, reasons=["no"]), journal[-1]]

    found = edit_events(events.EvidenceRead, lambda e: e.model_copy(update={"arguments": [off, parsed, nothing]}))
    record = make_record(tmp_path, change=changes(found, refused))
    text, results = report(record), run_checks(record)
    table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| `")]
    assert [row[2:6] for row in table[:3]] == [
        ["not in the log", "`None`", "`/server_info`", "ignored"],
        ["`1`", "not in the log", "`non-default args`", "parsed"],
        ["not in the log", "not in the log", "–", "unknown"],
    ]
    lines = terminal_summary(Reported(record, results, text, "", 0)).splitlines()  # type: ignore[arg-type]
    [row] = [line for line in lines if line.startswith("spec_method")]
    assert row.split() == ["spec_method", "'ngram'", "-", "None", "/server_info", "ignored", "r"]


def test_a_round_without_any_answer_is_incomplete_however_much_is_tolerated(tmp_path: Path) -> None:
    def tolerant(spec: dict[str, Any]) -> None:
        spec["limits"] = {"max-failed": 10_000}

    gone = edit_events(
        events.RequestDone,
        lambda e: e.model_copy(update={"verdict": "refused"}),
        lambda e: (e.arm, e.concurrency, e.round) == ("on", 16, 2),
    )
    record = make_record(tmp_path, tolerant, change=gone)
    results = run_checks(record)
    found = json.loads(render_result(record, results))
    assert found["exit_code"] == 5
    [cell] = [one for one in found["cells"] if (one["condition"], one["concurrency"]) == ("on", 16)]
    assert cell["incomplete"] == {"absent": "rounds-missing", "done": 1, "planned": 2}
    said = terminal_summary(Reported(record, results, "", "", 5))  # type: ignore[arg-type]
    assert "on C=16: incomplete: 1 of 2 rounds (refused 65)" in said
