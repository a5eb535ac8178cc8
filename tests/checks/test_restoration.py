"""What existed before: every thing that was saved is judged, whoever asked, and the rest of the run as always."""

from pathlib import Path
from typing import Any

import pytest
from journals import Change, around, make_record, over, restored, saved

from runner.checks import run_checks
from runner.checks.finding import Judgement, Result
from runner.record.record import Record


def baseline_result(record: Record) -> Result:
    [result] = [one for one in run_checks(record) if one.check == "baseline-restored"]
    return result


def test_a_record_that_saved_something_has_it_judged_unasked(tmp_path: Path) -> None:
    assert [one for one in run_checks(make_record(tmp_path)) if one.check == "baseline-restored"] == []
    found = baseline_result(make_record(tmp_path, change=around([saved()], [restored()])))
    assert found.judgement is Judgement.PASS and found.parameters == {"allow-inconclusive": False}
    assert [one.figures for one in found.findings] == [{"n": 2}]


def test_what_the_spec_allows_is_what_is_allowed(tmp_path: Path) -> None:
    def allowed(spec: dict[str, Any]) -> None:
        spec["invariants"]["baseline-restored"] = {"allow-inconclusive": True}

    record = make_record(tmp_path, allowed, change=around([saved()], [restored()]))
    assert baseline_result(record).allow_inconclusive


def test_each_thing_is_judged_and_the_worst_decides(tmp_path: Path) -> None:
    other = saved(what="Deployment demo/new", existed=False, facts={}, by_hand="kubectl delete deployment new")
    record = make_record(tmp_path, change=around([saved(), other], [restored()]))
    found = baseline_result(record)
    assert found.judgement is Judgement.FAIL
    assert [(one.subject, one.reason) for one in found.findings] == [
        ("Deployment demo/qwen", "baseline-equal"),
        ("Deployment demo/new", "never-restored"),
    ]
    assert found.findings[1].figures == {"by_hand": "kubectl delete deployment new"}


@pytest.mark.parametrize(
    ("change", "figures"),
    [
        (restored(restored=False, reason="Conflict"), {"why": "Conflict"}),
        (restored(restored=False), {"why": "?"}),
        (restored(differences=["a: 1 → 2", "b: 3 → 4"]), {"fields": "a: 1 → 2; b: 3 → 4"}),
    ],
)
def test_the_finding_says_why_and_how_to_do_it_by_hand(tmp_path: Path, change: Any, figures: dict[str, str]) -> None:
    last = change.model_copy(update={"by_hand": "by this"})
    [finding] = baseline_result(make_record(tmp_path, change=around([saved()], [last]))).findings
    assert finding.figures == {**figures, "by_hand": "by this"}


def doubtful(change: Change, folder: Path, name: str) -> dict[str, str]:
    [result] = [one for one in run_checks(make_record(folder, change=change)) if one.check == name]
    return {one.subject: one.reason for one in result.findings}


def test_only_what_rests_on_the_clients_single_times_is_in_doubt(tmp_path: Path) -> None:
    tunnel = over("port-forward", "it goes through the API server", "on")
    found = doubtful(tunnel, tmp_path, "speedup")
    assert found == {"on C=1": "transport-doubted"} | {f"on C={n}": "speedup-above" for n in (4, 16, 32)}
    found = doubtful(tunnel, tmp_path, "latency-cross-check")
    assert {name for name, reason in found.items() if reason == "transport-doubted"} == {"on C=4", "on C=16"}
    changed = {one.check for one in run_checks(make_record(tmp_path, change=tunnel)) if one.judgement != "pass"}
    assert changed == {"speedup", "latency-cross-check", "sequential-separated", "forward-model"}


def test_the_reason_names_the_way_and_the_doubt(tmp_path: Path) -> None:
    record = make_record(tmp_path, change=over("port-forward", "it goes through the API server"))
    [result] = [one for one in run_checks(record) if one.check == "sequential-separated"]
    expected = {"transport": "port-forward", "why": "it goes through the API server"}
    assert [one.figures for one in result.findings] == [expected]
