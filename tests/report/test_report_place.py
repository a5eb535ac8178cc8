"""What the report says of the place where the engines ran: what was put back, its warnings, and the way to it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from journals import BY_HAND, EQUAL, WHAT, Change, around, both, edit_events, make_record, over, restored, saved
from markdown_it import MarkdownIt

from runner.checks import run_checks
from runner.record import events
from runner.record.record import Record
from runner.report.provenance import provenance
from runner.report.render import render_report, render_tables
from runner.report.result import render_result
from runner.report.summary import terminal_summary
from runner.report.table import Source
from runner.report.words import Words
from runner.report.write import Reported

DOUBT = "every byte goes through the API server"
TUNNEL = over("port-forward", DOUBT, "on")
ODD = "a | b `c` <script>x</script> *d* [e](f)\n\n# h"


def report(record: Record, language: str = "en") -> str:
    return render_report(record, run_checks(record), language)


def said(record: Record) -> list[str]:
    results = run_checks(record)
    return terminal_summary(Reported(record, results, "", "", 0)).splitlines()  # type: ignore[arg-type]  # not shown


def alone(record: Record, name: str, language: str = "en") -> tuple[list[list[str]], list[str]]:
    """A table's rows, its header first, and the notes below it."""
    lines = render_tables(record, run_checks(record), [name], language).splitlines()
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines if line.startswith("|")]
    return [rows[0], *rows[2:]], [line.removeprefix("- ") for line in lines if line.startswith("- ")]


def facts(record: Record, language: str = "en") -> list[tuple[str, str]]:
    return provenance(Source(record, run_checks(record), Words(language)))


def warned(text: str = "managed with 'kubectl apply'") -> events.Warned:
    return events.Warned(source="API server", about="deployments/qwen", text=text)


# ------------------------------------------------------------------------------------------------------
# The restore


def test_the_table_has_each_fact_before_and_after(tmp_path: Path) -> None:
    unseen = events.Compared(fact="replies", before="yes", after=None, equal=None)
    other = events.Compared(fact="arguments", before="--a | x", after="--b", equal=False)
    record = make_record(tmp_path, change=around([saved(), warned()], [restored(*EQUAL, unseen, other)]))
    rows, notes = alone(record, "restore")
    assert rows == [
        ["Fact", "Before", "After", "Equal"],
        ["model", "`org/model`", "`org/model`", "yes"],
        ["template hash", "`5d4f`", "`5d4f`", "yes"],
        ["replies", "`yes`", "unknown", "unknown"],
        ["arguments", "`--a \\| x`", "`--b`", "no"],
    ]
    assert notes == [
        f"`{WHAT}`: it is not as it was: arguments: --a | x → --b.",
        "How: replaced by the saved object, 12.500 s.",
        f"To put it back by hand: `{BY_HAND}`",
        "Warning of API server (`deployments/qwen`): managed with 'kubectl apply'",
    ]


def test_a_good_restore_needs_nobodys_hand(tmp_path: Path) -> None:
    record = make_record(tmp_path, change=around([saved()], [restored()]))
    _, notes = alone(record, "restore")
    assert notes[0] == f"`{WHAT}`: it was put back, and the 2 facts compared are as they were."
    assert "by hand" not in report(record) and not [line for line in said(record) if "restored" in line]


def test_fields_that_differ_stand_below(tmp_path: Path) -> None:
    change = around([saved()], [restored(differences=["spec.replicas: 1 → 2"])])
    _, notes = alone(make_record(tmp_path, change=change), "restore")
    assert "A field that differs: `spec.replicas: 1 → 2`" in notes


def test_what_was_never_put_back_shows_what_was_saved_and_nothing_after_it(tmp_path: Path) -> None:
    record = make_record(tmp_path, change=around([saved(facts={"model": "org/model", "GPU": None})]))
    rows, notes = alone(record, "restore")
    assert rows[1:] == [["model", "`org/model`", "unknown", "unknown"], ["GPU", "unknown", "unknown", "unknown"]]
    assert notes == [
        f"`{WHAT}`: it was never put back: the record ends before.",
        "How it was to be put back: replaced by the saved object.",
        f"To put it back by hand: `{BY_HAND}`",
    ]


def test_what_did_not_exist_is_removed(tmp_path: Path) -> None:
    new = saved(existed=False, facts={}, artifact=None, how="removed")
    record = make_record(tmp_path, change=around([new], [restored(compared=[], how="removed", seconds=2.0)]))
    assert alone(record, "restore") == (
        [["Item", "Result"], [WHAT, "it did not exist before, and was removed again"]],
        ["How: removed, 2.000 s."],
    )
    assert ("saved baseline", f"`{WHAT}`, which did not exist") in facts(record)


def test_two_things_have_two_tables_and_the_warnings_stand_once(tmp_path: Path) -> None:
    new = saved(what="Service demo/qwen", existed=False, facts={}, how="removed")
    gone = restored(what="Service demo/qwen", compared=[], how="removed")
    record = make_record(tmp_path, change=around([saved(), new, warned()], [gone, restored()]))
    text = render_tables(record, run_checks(record), ["restore"], "en")
    headings = [line for line in text.splitlines() if line.startswith("### ")]
    assert [line.partition(" (`")[0] for line in headings] == [
        f"### Restoring the baseline: {WHAT}",
        "### Restoring the baseline: Service demo/qwen",
    ]
    assert text.count("Warning of") == 1


def test_a_target_that_changed_nothing_says_so(tmp_path: Path) -> None:
    rows, notes = alone(make_record(tmp_path), "restore")
    assert rows[1] == ["Baseline", "not applicable: the target embedded changes nothing that existed before"]
    assert notes == []


def test_what_is_left_changed_is_said_first_with_the_command(tmp_path: Path) -> None:
    failed = events.EngineFailed(arm="on", replicate=1, stage="start", reason="gone", words=["Traceback"])
    record = make_record(
        tmp_path, change=around([saved()], [failed, restored(restored=False, reason="Conflict: argocd")])
    )
    lines = said(record)
    assert lines[:2] == [
        f"{WHAT} was not restored: it could not be put back: Conflict: argocd",
        f"  To put it back by hand: {BY_HAND}",
    ]
    assert lines[2] == "on: gone"
    assert [line for line in lines if line.startswith("exit ")] == ["exit 7: the baseline was not restored (simulated)"]
    text = report(record)
    assert (
        "**Outcome: exit code 7 — the baseline was not restored**\n\n"
        "Also applying: 3 (an engine did not start), 1 (an invariant failed), 6 (an invariant is inconclusive)\n\n"
        f"**`{WHAT}` was not restored: it could not be put back: Conflict: argocd**\n\n"
        f"- To put it back by hand: `{BY_HAND}`\n"
    ) in text


def test_what_is_only_unknown_is_not_said_to_be_left_changed(tmp_path: Path) -> None:
    unseen = events.Compared(fact="replies", before="yes", after=None, equal=None)
    record = make_record(tmp_path, change=around([saved()], [restored(*EQUAL, unseen)]))
    assert "was not restored" not in "\n".join(said(record)) + report(record)
    assert "inconclusive: baseline-restored: Deployment demo/qwen: nothing tells whether these" in "\n".join(
        said(record)
    )
    _, notes = alone(record, "restore")
    assert f"To put it back by hand: `{BY_HAND}`" in notes


# ------------------------------------------------------------------------------------------------------
# Provenance


def test_where_each_engine_ran_and_what_the_place_said(tmp_path: Path) -> None:
    known = {"pod": "qwen-5d4f-x", "pod UID": "u-1", "image digest": "sha256:ab|c"}
    placed = edit_events(
        events.EngineLaunched, lambda e: e.model_copy(update={"facts": known}), lambda e: e.arm == "on"
    )
    record = make_record(tmp_path, change=both(placed, TUNNEL, around([saved(), warned()], [restored()])))
    found = facts(record)
    assert [value for label, value in found if label.startswith("`on` #1 ")][1:5] == [
        f"port-forward; in doubt: {DOUBT}",
        "`qwen-5d4f-x`",
        "`u-1`",
        "`sha256:ab|c`",
    ]
    labels = [label for label, _ in found]
    assert "`on` #1 transport" in labels and "`on` #1 pod UID" in labels
    assert not [label for label in labels if label in ("`off` #1 transport", "`off` #1 pod")]
    assert ("saved baseline", f"`{WHAT}`, `artifacts/baseline.yaml`") in found
    assert ("warning of API server", "`deployments/qwen`: managed with 'kubectl apply'") in found


def test_a_way_that_is_not_in_doubt_is_named_and_nothing_more(tmp_path: Path) -> None:
    record = make_record(tmp_path, change=over("cluster IP", None))
    assert ("`on` #1 transport", "cluster IP") in facts(record)
    assert "§" not in report(record)


def test_nothing_of_a_place_is_said_where_nothing_is_known(tmp_path: Path) -> None:
    record = make_record(tmp_path)
    labels = " ".join(label for label, _ in facts(record))
    assert not re.search("transport|baseline|warning", labels)
    result = json.loads(render_result(record, run_checks(record)))
    assert not {"baselines", "warnings", "client_times_doubted"} & set(result)


# ------------------------------------------------------------------------------------------------------
# Times over a way that is not to be trusted

NOTE = f"§ on: times taken over port-forward are not the engine's: {DOUBT}."


def figures(record: Record, name: str) -> list[list[bool]]:
    """Per row, header first: which cells have the mark."""
    return [["§" in cell for cell in row] for row in alone(record, name)[0]]


def test_what_the_client_timed_is_marked_and_what_the_engine_said_is_not(tmp_path: Path) -> None:
    record = make_record(tmp_path, change=TUNNEL)
    rows, notes = alone(record, "off-on")
    assert [row for row in rows if row[0].startswith("off")] == [
        row for row in alone(make_record(tmp_path), "off-on")[0] if row[0].startswith("off")
    ]
    assert [row for row in rows if row[0] in ("on C=1", "on C=16")] == [
        ["on C=1", "9.000 s §", "1.000 req/s §", "1.000 s §"],
        ["on C=16", "4.000 s §", "16.000 req/s §", "1.000 s"],
    ]
    assert notes[-1] == NOTE
    assert figures(record, "rounds")[-1] == [False, False, True, True, False]
    assert figures(record, "cross-check")[2:4] == [[False] * 4, [False, True, False, True]]
    throughput, latency = figures(record, "derived")[-2:]
    assert (throughput, latency) == ([False, *[True] * 3], [False] * 4)
    assert [False, False, True, False] in figures(record, "saturation")  # at the knee: throughput, latency
    assert figures(record, "saturation")[-2:] == [[False, False, True], [False] * 3]


@pytest.mark.parametrize(
    ("name", "marks"),
    [
        ("summary", [[0, 0, 0], [0, 1, 1], [0, 1, 1], [0, 1, 1], [0, 1, 1]]),
        ("speedup", [[0, 0, 0, 0], [0, 1, 1, 1], [0, 1, 0, 1], [0, 1, 0, 1], [0, 1, 0, 1]]),
        ("speedup-rounds", [[0, 0, 0], [0, 1, 1], [0, 1, 1], [0, 1, 1]]),
        ("sequential-rounds", [[0, 0, 1], *[[0, 0, 0]] * 10]),
        ("sequential-comparison", [[0, 0, 1, 1], *[[0] * 4] * 5]),
        ("conversion", [[0, 1], *[[0, 0]] * 3]),
        ("forward-model", [[0] * 3, *[[0] * 3] * 8, [0, 0, 1], [0, 0, 1], *[[0] * 3] * 3]),
        ("operating-point", [[0] * 5, *[[0, 0, 1, 0, 0]] * 3]),
    ],
)
def test_each_table_marks_what_rests_on_the_clients_times(tmp_path: Path, name: str, marks: list[list[int]]) -> None:
    record = make_record(tmp_path, change=TUNNEL)
    assert figures(record, name) == [[bool(mark) for mark in row] for row in marks]
    assert alone(record, name)[1][-1] == NOTE
    assert "§" not in render_tables(make_record(tmp_path), [], [name], "en")


@pytest.mark.parametrize("name", ["resources", "acceptance-by-concurrency", "draft-counters", "memory-cost"])
def test_what_nobody_timed_is_not_marked(tmp_path: Path, name: str) -> None:
    record = make_record(tmp_path, change=TUNNEL)
    assert "§" not in render_tables(record, run_checks(record), [name], "en")


def test_an_absent_figure_is_absent_and_not_doubtful(tmp_path: Path) -> None:
    lost = edit_events(events.RoundFinished, lambda _: None, lambda e: e.arm == "on" and e.concurrency == 16)
    rows, _ = alone(make_record(tmp_path, change=both(TUNNEL, lost)), "off-on")
    [row] = [row for row in rows if row[0].startswith("on C=16")]
    assert row[1].startswith("–") and "§" not in " ".join(row)


@pytest.mark.parametrize("language", ["ko", "en"])
def test_the_doubt_is_among_what_was_not_checked(tmp_path: Path, language: str) -> None:
    text = report(make_record(tmp_path, change=TUNNEL), language)
    section = text.partition(f"## {Words(language)('not-checked')}")[2].partition("\n## ")[0]
    [line] = [line for line in section.splitlines() if "port-forward" in line]
    assert "`on`" in line and "`off`" not in line and DOUBT in line
    assert "port-forward" not in report(make_record(tmp_path), language)


def test_a_way_without_a_name_is_doubted_all_the_same(tmp_path: Path) -> None:
    record = make_record(tmp_path, change=over(None, DOUBT))
    assert f"§ off, on: times taken over ? are not the engine's: {DOUBT}." in alone(record, "summary")[1]
    assert ("`off` #1 transport", f"?; in doubt: {DOUBT}") in facts(record)


def test_programs_are_told_the_same(tmp_path: Path) -> None:
    failed = restored(restored=False, reason="Conflict")
    record = make_record(tmp_path, change=both(TUNNEL, around([saved(), warned()], [failed])))
    result = json.loads(render_result(record, run_checks(record)))
    assert (result["exit_code"], result["outcome"]) == (7, "not-restored")
    assert result["client_times_doubted"] == {"on": {"transport": "port-forward", "why": DOUBT}}
    assert result["warnings"] == [
        {"source": "API server", "about": "deployments/qwen", "text": "managed with 'kubectl apply'"}
    ]
    [one] = result["baselines"]
    assert (one["what"], one["existed"], one["as_before"], one["by_hand"]) == (WHAT, True, False, BY_HAND)
    assert one["why"] == {"absent": "restore-failed", "why": "Conflict"}
    assert one["restored"]["compared"][0] == EQUAL[0].model_dump()

    def as_before(*last: events.Event) -> Any:
        record = make_record(tmp_path, change=around([saved()], last))
        return json.loads(render_result(record, run_checks(record)))["baselines"][0]["as_before"]

    unseen = events.Compared(fact="replies", before="yes", after=None, equal=None)
    assert [as_before(restored()), as_before(restored(unseen)), as_before()] == [True, None, False]


# ------------------------------------------------------------------------------------------------------
# What sent the requests

CLIENT: dict[str, Any] = {
    "connection": "per-request",
    "processes": 3,
    "headers": ["X-A", "X-B"],
    "bearer-token": "environment variable KEY",
    "ca-file": "ca.pem",
    "ca-sha256": ["0a", "1b"],
    "proxies-ignored": ["HTTP_PROXY"],
}


def sent_by(**changed: Any) -> Change:
    return edit_events(events.RunStarted, lambda e: e.model_copy(update={"client": {**CLIENT, **changed}}))


def client(record: Record, language: str = "en") -> list[str]:
    return [value for label, value in facts(record, language) if label == "client"]


def test_how_requests_were_sent_is_among_where_the_figures_came_from(tmp_path: Path) -> None:
    record = make_record(tmp_path, change=sent_by())
    assert client(record) == [
        "connections `per-request`; 3 process(es); headers `X-A`, `X-B`; bearer token from `environment variable KEY`; "
        "certificates of `ca.pem` trusted too; their SHA-256 `0a`, `1b`; proxies ignored `HTTP_PROXY`"
    ]
    assert client(record, "ko") == [
        "연결 `per-request`; 프로세스 3개; header `X-A`, `X-B`; bearer token은 `environment variable KEY`에서; "
        "`ca.pem`의 인증서도 신뢰; 그 SHA-256 `0a`, `1b`; 쓰지 않은 proxy `HTTP_PROXY`"
    ]
    plain = {"connection": "keep-alive", "processes": "by the rule", "headers": [], "proxies-ignored": []}
    record = make_record(tmp_path, change=sent_by(**plain, **{"bearer-token": None, "ca-file": None, "ca-sha256": []}))
    assert client(record) == ["connections `keep-alive`; processes by the rule"]


def test_a_record_that_does_not_say_how_requests_were_sent_has_no_line_of_it(tmp_path: Path) -> None:
    assert client(make_record(tmp_path)) == []


# ------------------------------------------------------------------------------------------------------
# Failures, text that does no harm, the other language


def test_how_fast_a_failure_was_named_is_said_where_it_is_known(tmp_path: Path) -> None:
    failed = events.EngineFailed(arm="on", replicate=1, stage="start", reason="OOMKilled", words=[], seconds=3.21)
    record = make_record(tmp_path, change=around([], [failed]))
    assert said(record)[0] == "on: OOMKilled (named 3.2 s after it could first be seen)"
    assert "`on`: OOMKilled (named 3.2 s after it could first be seen)" in report(record)
    plain = make_record(tmp_path, change=around([], [failed.model_copy(update={"seconds": None})]))
    assert said(plain)[0] == "on: OOMKilled" and "could first be seen" not in report(plain)


@pytest.mark.parametrize("language", ["ko", "en"])
def test_whatever_the_place_says_the_markdown_is_whole(tmp_path: Path, language: str) -> None:
    odd = events.Compared(fact=ODD, before=ODD, after=ODD, equal=False)
    new = saved(what=f"new {ODD}", existed=False, facts={ODD: None}, how=ODD, by_hand=ODD, artifact=ODD)
    bad = restored(odd, restored=False, reason=ODD, differences=[ODD], how=ODD, by_hand=ODD)
    strange = events.Warned(source=ODD, about=ODD, text=ODD)
    placed = edit_events(events.EngineLaunched, lambda e: e.model_copy(update={"facts": {"pod": ODD}}))
    sent = sent_by(connection=ODD, headers=[ODD], **{"bearer-token": ODD, "proxies-ignored": [ODD]})
    change = both(placed, sent, over(ODD, ODD), around([saved(), new, strange], [bad]))
    text = report(make_record(tmp_path, change=change), language)
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)
    inline = [child for token in tokens for child in token.children or []]
    kinds = {token.type for token in [*tokens, *inline]}
    assert not kinds & {"html_block", "html_inline", "em_open", "image", "fence", "code_block"}
    assert all(str(one.attrs["href"]).startswith("#") for one in inline if one.type == "link_open")
    headings = [tokens[i + 1].content for i, token in enumerate(tokens) if token.type == "heading_open"]
    assert not [heading for heading in headings if heading.startswith("h ")]


def test_in_korean_too(tmp_path: Path) -> None:
    record = make_record(tmp_path, change=both(TUNNEL, around([saved(), warned()], [restored(restored=False)])))
    text = report(record, "ko")
    for words in (
        f"`{WHAT}`: 원복되지 않았다. 되돌리지 못했다: ?",
        f"직접 되돌리려면: `{BY_HAND}`",
        "API server의 경고 (`deployments/qwen`)",
        "`on` #1 요청 경로: port-forward",
        "저장된 baseline",
    ):
        assert words in text
    assert alone(record, "restore", "ko")[0][0] == ["사실", "실행 전", "원복 후", "같은가"]
