"""Each fault of an engine is caught by the check or verdict that exists for it, and by no other."""

import re
from pathlib import Path
from typing import Any

import pytest
from conftest import Edit, brief, fault, run_experiment, streamed

SCALE = 0.02


def ignored(form: str, flag: str = "speculative") -> Edit:
    return fault({"kind": "flag-ignored", "flag": flag, "form": form})


@pytest.mark.parametrize(
    ("form", "word"),
    [
        ("neither", "missing: not among the non-default args"),
        ("parsed-only", "ignored: parsed as wanted, but the engine's configuration says speculative_config=None"),
        ("flat-counters", "this output repeats itself, and yet no draft was counted"),
    ],
)
def test_a_flag_accepted_and_ignored_is_exit_4(tmp_path: Path, form: str, word: str) -> None:
    ended = run_experiment(tmp_path, brief, ignored(form), scale=SCALE)
    assert ended.code == 4, ended.stdout
    assert word in ended.stdout
    assert "wanted" in ended.stdout and "spec_tokens" in ended.stdout  # the wanted/found table
    assert ended.failing()["configuration-in-force"] == "fail"
    # Nothing was measured under the condition, and the report says so instead of showing numbers.
    on = [one for one in ended.result["cells"] if one["condition"] == "on"]
    assert {str(one["throughput"]) for one in on} == {"{'absent': 'not-measured'}"}
    assert "적용" not in ended.report and "Wanted and found: `on`" in ended.report


def test_an_ordinary_argument_that_is_swallowed_is_never_a_pass(tmp_path: Path) -> None:
    ended = run_experiment(tmp_path, brief, ignored("neither", "max-num-seqs"), scale=SCALE)
    assert ended.code == 1, ended.stdout
    # One log alone cannot tell a swallowed argument from one that equals the default; the two arms' logs can.
    assert ended.failing() == {"configuration-in-force": "inconclusive", "declared-differences": "fail"}
    assert "undeclared difference in max_num_seqs: 4 → None" in ended.stdout


def test_an_argument_that_is_parsed_and_nothing_more_is_caught_by_what_the_engine_does(tmp_path: Path) -> None:
    def queue(spec: dict[str, Any]) -> None:
        spec["invariants"]["queue-only-above"] = {"argument": "max-num-seqs"}

    ended = run_experiment(tmp_path, queue, ignored("parsed-only", "max-num-seqs"), scale=0.08)
    assert ended.code == 1, ended.stdout
    assert ended.failing() == {"queue-only-above": "fail"}
    assert "on C=8: 8 run although the limit is 4" in ended.stdout
    assert "parsed, with nothing that shows more: max_num_seqs" in ended.report


def test_another_text_from_token_n(tmp_path: Path) -> None:
    ended = run_experiment(tmp_path, brief, fault({"kind": "different-text", "token": 20, "every": 7}), scale=SCALE)
    assert ended.code == 1
    assert ended.failing()["same-output"] == "fail"
    [check] = [one for one in ended.result["checks"] if one["check"] == "same-output"]
    [found] = [one for one in check["findings"] if one["judgement"] == "fail"]
    assert 0 < found["figures"]["different"] < found["figures"]["n"]
    assert found["figures"]["reference"] != found["figures"]["other"]


@pytest.mark.parametrize(
    ("series", "check"),
    [
        ("vllm:e2e_request_latency_seconds", "request-count"),
        ("vllm:spec_decode_num_draft_tokens", "acceptance-constant"),
        ("process_start_time_seconds", "one-engine-process"),
    ],
)
def test_a_missing_series_is_inconclusive_and_never_zero(tmp_path: Path, series: str, check: str) -> None:
    ended = run_experiment(tmp_path, brief, fault({"kind": "missing-series", "name": series}), scale=SCALE)
    assert ended.code == 6, ended.stdout
    assert ended.failing() == {check: "inconclusive"}


def test_foreign_requests_name_the_round(tmp_path: Path) -> None:
    ended = run_experiment(
        tmp_path, fault({"kind": "foreign-traffic", "after_requests": 20, "requests": 3}), scale=SCALE
    )
    assert ended.code == 1
    assert ended.failing() == {"request-count": "fail"}
    assert "on C=2 #1.1: 3 more finished than the 25 sent: contaminated" in ended.stdout
    marked = [line for line in ended.report.splitlines() if line.startswith("|") and "※" in line]
    # The round's own rows, the ratios that rest on it, and a column's heading; nothing of another concurrency.
    assert len(marked) >= 4 and all(re.search(r"C=2\b[^|]*※|^\| 2 ※|※ +\| +2 \|", line) for line in marked)
    assert not any(re.search(r"C=8\b[^|]*※|^\| 8 ※|※ +\| +8 \|", line) for line in marked)


@pytest.mark.parametrize(
    ("one", "edit", "verdict"),
    [
        ({"kind": "in-band-error", "after_tokens": 5}, streamed, "in-band-error"),
        ({"kind": "truncated-stream", "after_tokens": 5}, streamed, "truncated"),
        ({"kind": "truncated-stream", "after_tokens": 5}, None, "truncated"),
        ({"kind": "http-error", "status": 503}, None, "http-error"),
        ({"kind": "malformed-json"}, None, "malformed"),
        ({"kind": "wrong-model"}, None, "wrong-model"),
        ({"kind": "empty"}, None, "empty"),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else getattr(value, "__name__", str(value)),
)
def test_a_failed_request_makes_its_cell_incomplete(
    tmp_path: Path, one: dict[str, Any], edit: Edit | None, verdict: str
) -> None:
    edits = [brief, fault({**one, "request": 8}), *([edit] if edit else [])]
    ended = run_experiment(tmp_path, *edits, scale=SCALE)
    assert ended.code == 5, ended.stdout
    failed = {(c["condition"], c["concurrency"]): c["failed"] for c in ended.result["cells"] if c["failed"]}
    assert failed == {("on", 2): {verdict: 1}}
    assert "on C=2: incomplete: 1 failed (allowed 0)" in ended.stdout
    [compared] = [c for c in ended.result["comparisons"] if c["concurrency"] == 2]
    assert compared["throughput_ratio"]["absent"] == "requests-failed"
    assert "‡" in ended.report


def test_death_mid_stream_ends_the_launch_and_is_named(tmp_path: Path) -> None:
    ended = run_experiment(
        tmp_path, brief, streamed, fault({"kind": "death-mid-stream", "request": 8, "after_tokens": 5}), scale=SCALE
    )
    assert ended.code == 5, ended.stdout
    assert "on: the engine ended with exit code" in ended.stdout
    assert ended.failing()["one-engine-process"] == "fail"
    assert {request.verdict for request in ended.record.of_arm("on")[0].rounds[0].requests} > {"ok"}


def test_a_restart_inside_a_window_is_no_negative_number(tmp_path: Path) -> None:
    ended = run_experiment(tmp_path, brief, fault({"kind": "restart", "after_requests": 8}), scale=SCALE)
    assert ended.code == 1
    assert ended.failing()["one-engine-process"] == "fail"
    assert "counter reset" in ended.stdout
    assert " -" not in "".join(line for line in ended.report.splitlines() if line.startswith("| on C=2"))


@pytest.mark.parametrize("counted", [True, False])
def test_an_engine_that_drains_slowly_is_waited_for(tmp_path: Path, counted: bool) -> None:
    def warm_up(spec: dict[str, Any]) -> None:
        spec["phases"]["load"]["warm-up"]["counted"] = counted

    ended = run_experiment(tmp_path, brief, warm_up, fault({"kind": "slow-drain", "seconds": 0.4}), scale=SCALE)
    assert ended.code == 0, ended.stdout
    assert all(round_.finished is not None and round_.finished.busy is None for round_ in ended.record.all_rounds())


def test_a_request_that_never_ends_times_out(tmp_path: Path) -> None:
    def limited(spec: dict[str, Any]) -> None:
        spec["limits"] = {"request-timeout-seconds": 2, "idle-seconds": 1}

    ended = run_experiment(tmp_path, brief, limited, fault({"kind": "stall", "request": 14}), scale=SCALE)
    assert ended.code == 5, ended.stdout
    assert "timed out 1" in ended.stdout


def test_a_proof_request_that_failed_is_named_and_proves_nothing(tmp_path: Path) -> None:
    ended = run_experiment(tmp_path, brief, fault({"kind": "http-error", "request": 2, "status": 500}), scale=SCALE)
    [engine] = ended.record.of_arm("on")
    assert engine.proof is not None and (engine.proof.state, engine.proof.verdict) == ("unknown", "unknown")
    assert "the request itself failed: http-error: HTTP 500" in ended.report
    assert ended.code == 0, ended.stdout  # the measured rounds drafted, which proves it all the same


def test_a_restart_right_after_the_start_is_a_restart(tmp_path: Path) -> None:
    ended = run_experiment(tmp_path, brief, fault({"kind": "restart", "after_requests": 2}), scale=SCALE)
    assert ended.code == 1 and ended.failing()["one-engine-process"] == "fail"


@pytest.mark.parametrize(
    ("name", "by", "check"),
    [
        ("vllm:spec_decode_num_accepted_tokens_total", 60, "acceptance-constant"),
        ("vllm:e2e_request_latency_seconds_sum", 5, "speedup"),
    ],
)
def test_a_counter_that_lies_beyond_belief_makes_no_figure(tmp_path: Path, name: str, by: int, check: str) -> None:
    def latency(spec: dict[str, Any]) -> None:
        spec["invariants"]["speedup"] = {"metric": "latency"}

    ended = run_experiment(
        tmp_path, brief, latency, fault({"kind": "counter-lies", "name": name, "by": by}), scale=SCALE
    )
    assert ended.code == 6, ended.stdout
    assert ended.failing()[check] == "inconclusive"
    assert "contradict" in ended.stdout
