"""The reference article's experiment on the embedded engine: what it must show, and nothing typed in."""

import re
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
from captured import answers
from conftest import Finished, command, environment

from runner.spec.tables import TABLE_IDS

GRID = [1, 4, 16, 32]


def comparison(article: Finished, level: int) -> Any:
    [found] = [one for one in article.result["comparisons"] if one["concurrency"] == level]
    return found


def cell(article: Finished, condition: str, level: int) -> Any:
    [found] = [one for one in article.result["cells"] if one["condition"] == condition and one["concurrency"] == level]
    return found


def test_every_invariant_holds_and_the_last_line_is_the_run_directory(article: Finished) -> None:
    assert article.code == 0, article.stdout + article.stderr
    assert article.failing() == {}
    assert article.result["exit_code"] == 0
    names = {path.name for path in article.directory.iterdir()}
    assert names == {"spec.yaml", "plan.json", "journal.jsonl", "artifacts", "result.json", "report.md"}


@pytest.mark.parametrize("level", GRID)
def test_speculation_is_faster_at_every_concurrency(article: Finished, level: int) -> None:
    assert comparison(article, level)["throughput_ratio"] > 1
    assert comparison(article, level)["lowest_throughput_ratio"] > 1


def test_the_knee_is_where_the_slots_end(article: Finished) -> None:
    assert article.result["knee"] == {name: {"concurrency": 16, "beyond": 32} for name in ("off", "on")}


@pytest.mark.parametrize("condition", ["off", "on"])
def test_half_of_32_wait_and_nobody_below(article: Finished, condition: str) -> None:
    assert [cell(article, condition, level)["waiting"]["median"] for level in GRID] == [0, 0, 0, 16]
    assert cell(article, condition, 32)["running"]["median"] == 16
    assert re.search(rf"\| {condition} C=32 .*\bcapacity \|", article.report)


def test_acceptance_is_the_same_at_every_concurrency(article: Finished) -> None:
    rates = {cell(article, "on", level)["speculation"]["acceptance_rate"] for level in GRID}
    assert len(rates) == 1
    assert cell(article, "off", 4)["speculation"] == {"absent": "no-speculation"}


def test_the_comparison_is_marked_confounded_by_the_declared_side_effects(article: Finished) -> None:
    effects = ["async-scheduling", "model-runner", "unsupported-sampling"]
    assert article.result["confounded"] == {"on": effects}
    verdicts = article.report.split("## 측정 결과")[0]
    assert "교란된 비교다: Async scheduling, Model Runner" in verdicts


def test_the_window_counts_the_warm_up(article: Finished) -> None:
    assert {round_["delta_count"] for round_ in cell(article, "on", 16)["rounds"]} == {65}
    assert {round_["ok"] for round_ in cell(article, "on", 16)["rounds"]} == {64}


def test_the_first_sequential_request_of_on_is_excluded(article: Finished) -> None:
    assert cell(article, "on", 1)["rounds"][0]["ok"] == 9
    assert cell(article, "off", 1)["rounds"][0]["ok"] == 10
    assert "on (2~10회)" in article.report


def test_every_table_stands_in_the_articles_order_and_says_simulated(article: Finished) -> None:
    titles = re.findall(r"^### .*\(`([a-z-]+)`\)(.*)$", article.report, re.MULTILINE)
    names = list(dict.fromkeys(name for name, _ in titles if name != "saturation-change"))
    # No GPU, no memory of one: the report names the table that is missing.
    assert names == [name for name in TABLE_IDS if name != "memory-cost"]
    assert "표 `memory-cost`: 해당하는 자료가 없다" in article.report
    assert {mark for _, mark in titles} == {" — simulated"}
    assert article.report.splitlines()[0].endswith("— **simulated**")
    assert article.result["simulated"] is True


def test_sections_stand_in_order(article: Finished) -> None:
    assert re.findall(r"^## (.*)$", article.report, re.MULTILINE) == [
        "판정",
        "측정 결과",
        "확인하지 않은 것",
        "용어",
        "출처",
    ]


def test_enough_samples_before_the_last_request_everywhere(article: Finished) -> None:
    for one in article.result["cells"]:
        assert one["waiting"]["samples"] >= 10 * len(one["rounds"])
    assert "표본 부족" not in article.report


def test_every_request_has_ordered_stamps_and_an_identity(article: Finished) -> None:
    record = article.record
    requests = [request for round_ in record.all_rounds() for request in round_.requests]
    assert len(requests) == 2 * (10 + 2 * 3 * 65)
    for one in requests:
        assert one.sent_ns is not None and one.first_byte_ns is not None and one.last_byte_ns is not None
        assert one.planned_ns <= one.sent_ns <= one.first_byte_ns <= one.last_byte_ns
        assert one.engine and one.verdict == "ok" and one.completion_tokens


def test_every_field_of_the_body_is_recorded_as_sent(article: Finished) -> None:
    bodies = [one.body for one in article.record.bodies.values() if one.prompt == "repeat-three-times"]
    assert len(bodies) == 1
    assert set(bodies[0]) == {"model", "messages", "max_tokens", "temperature", "stream"}


def test_raw_evidence_is_kept(article: Finished) -> None:
    artifacts = article.directory / "artifacts"
    assert "non-default args" in (artifacts / "on-1" / "engine.log").read_text(encoding="utf-8")
    assert (artifacts / "off-1" / "load-c32-r2-after.prom").read_text().startswith("# HELP")
    kept = answers(article.directory, "on-1/load-c4-r1")
    assert sorted(kept) == list(range(1, 65))
    assert list(answers(article.directory, "on-1/load-c4-r1-warm-up")) == [0]
    assert {body["object"] for body in kept.values()} == {"chat.completion"}


def test_report_again_gives_the_same_bytes_offline(
    article: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / article.directory.name
    shutil.copytree(article.directory, copy)
    for name in ("report.md", "result.json"):
        (copy / name).unlink()
    shutil.rmtree(copy / "artifacts")  # the journal is the only truth
    ended = subprocess.run(command("report", str(copy)), env=environment(), capture_output=True, check=True)
    assert ended.stdout.decode().splitlines()[-1] == str(copy / "report.md")
    for name in ("report.md", "result.json"):
        assert (copy / name).read_bytes() == (article.directory / name).read_bytes()

    def no_network(*_: Any, **__: Any) -> Any:
        raise AssertionError("a report opened a socket")

    monkeypatch.setattr(socket, "socket", no_network)
    from runner.report.write import make_report

    assert make_report(copy).report == article.report


def test_the_report_in_english(article: Finished, tmp_path: Path) -> None:
    output = tmp_path / "english.md"
    before = article.report
    words = command("report", str(article.directory), "--language", "en", "--output", str(output))
    subprocess.run(words, env=environment(), check=True, capture_output=True)
    text = output.read_text(encoding="utf-8")
    assert "## Verdicts" in text and "## Not checked" in text
    # What is left in Korean is the author's: the title, the prompt and the notes.
    headings = [line for line in text.splitlines()[1:] if line.startswith(("#", "| Con", "| Met", "| Round"))]
    assert headings and not [line for line in headings if re.search("[가-힣]", line)]
    assert article.report == before
