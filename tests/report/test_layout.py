"""The report as a page: links that arrive, footnotes, the terms that are used, the tables that the spec asks for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from journals import Edit, edit_events, make_record
from markdown_it import MarkdownIt

from runner.checks.registry import run_checks
from runner.record import events
from runner.record.record import Record
from runner.report.contents import anchors
from runner.report.footnotes import footnotes
from runner.report.render import render_report
from runner.spec.tables import TABLE_IDS


def report(record: Record, language: str = "en") -> str:
    return render_report(record, run_checks(record), language)


def headings(text: str) -> list[str]:
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    return [tokens[i + 1].content for i, token in enumerate(tokens) if token.type == "heading_open"]


# Headings and the anchors that GitHub gives them, written down from rendered pages.
KNOWN = [
    ("Speed-up by concurrency (`summary`)", "speed-up-by-concurrency-summary"),
    ("동시성별 배속 (`summary`) — simulated", "동시성별-배속-summary--simulated"),
    ("The request: a\\_b (`request`)", "the-request-a_b-request"),
    ("x &amp; y", "x--y"),
]


@pytest.mark.parametrize(("heading", "anchor"), KNOWN)
def test_anchors_are_githubs(heading: str, anchor: str) -> None:
    assert anchors([heading]) == [anchor]


def test_equal_headings_are_numbered() -> None:
    assert anchors(["A b", "a b", "A b"]) == ["a-b", "a-b-1", "a-b-2"]


@pytest.mark.parametrize("language", ["ko", "en"])
def test_every_link_of_the_contents_arrives(tmp_path: Path, language: str) -> None:
    def odd(spec: dict[str, object]) -> None:
        spec["conditions"]["on"]["label"] = "on | <b>`x`</b> *y*"  # type: ignore[index]  # a plain nested value

    text = report(make_record(tmp_path, odd), language)
    links = re.findall(r"\[([a-z-]+)\]\(#([^)]*)\)", text)
    assert [name for name, _ in links] == [*TABLE_IDS[:-2], "saturation-change", *TABLE_IDS[-2:]]
    arrive = dict(zip(anchors(headings(text)), headings(text), strict=True))
    for name, anchor in links:
        assert f"(`{name}`)" in arrive[anchor]


def only(*names: str) -> Edit:
    return lambda spec: spec.update({"tables": list(names)})


def test_the_spec_chooses_the_tables_and_they_keep_their_order(tmp_path: Path) -> None:
    text = report(make_record(tmp_path, only("speedup", "rounds")))
    assert re.findall(r"^### .*\(`(.*)`\)", text, re.MULTILINE) == ["rounds", "speedup"]
    assert "](#" not in text  # too short for a line of contents
    assert "nothing to put into it" not in text  # what was not asked for is not missed


def test_a_reason_that_stands_often_becomes_a_footnote() -> None:
    rows = [["a", "– (why)", "– (why)"], ["b", "– (why)", "– (else (1))"]]
    assert footnotes(rows) == ([["a", "–¹", "–¹"], ["b", "–¹", "– (else (1))"]], ["¹ why"])
    assert footnotes(rows[1:]) == ([["b", "– (why)", "– (else (1))"]], [])


def test_the_terms_that_the_report_uses_are_explained(tmp_path: Path) -> None:
    def terms(record: Record) -> list[str]:
        _, _, after = report(record).partition("\n## Terms\n")
        return re.findall(r"^- \*\*(.+?)\*\*:", after, re.MULTILINE)

    plain = terms(make_record(tmp_path))
    assert plain[:2] == ["separated", "confounded"]
    assert not {"contaminated", "too few samples"} & set(plain)
    few = edit_events(events.Sampled, lambda _: None, lambda e: e.at_ns % 2 == 0)
    assert "too few samples" in terms(make_record(tmp_path, change=few))


def test_one_round_says_so(tmp_path: Path) -> None:
    text = report(make_record(tmp_path, lambda spec: spec["phases"]["load"].update({"rounds": 1})))
    assert "off C=4, on C=4, off C=16, on C=16, off C=32, on C=32: the figure of one round" in text
    assert "the figure of one round" not in report(make_record(tmp_path))
