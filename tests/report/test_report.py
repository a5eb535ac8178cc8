"""Reports of the made-up run: cells worked out by hand, absent figures with their reason, text that does no harm."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from journals import Change, edit_events, make_record, without_series
from markdown_it import MarkdownIt

from runner.checks import run_checks
from runner.engine import metrics
from runner.record import events
from runner.record.record import Record
from runner.report.markdown import code, escape, render_table
from runner.report.render import render_report
from runner.report.result import render_result
from runner.report.table import TABLES, load_tables
from runner.spec.tables import TABLE_IDS

HOSTILE = "a | b `c` <script>alert(1)</script> *d* [e](f) ~~g~~ \\ \n\n# h & 한국어 🙂"


def report(record: Record, language: str = "en") -> str:
    return render_report(record, run_checks(record), language)


def table(text: str, name: str, number: int = 0) -> list[list[str]]:
    """The cells of a table by its id, header first; footnotes are put back where their marks are."""
    section = re.split(rf"^### .*\(`{name}`\).*$", text, flags=re.MULTILINE)[number + 1]
    lines = [line for line in section.split("\n### ")[0].splitlines() if line.startswith("|")]
    rows = [[part.strip() for part in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    notes = dict(re.findall(r"^- ([¹²³⁴⁵⁶⁷⁸⁹]) (.*)$", section.split("\n### ")[0], re.MULTILINE))
    return [[f"– ({notes[cell[1]]})" if cell[1:] in notes else cell for cell in row] for row in [rows[0], *rows[2:]]]


def test_every_table_of_the_order_is_registered_once() -> None:
    load_tables()
    assert set(TABLES) == set(TABLE_IDS) and len(TABLE_IDS) == len(set(TABLE_IDS))


def test_korean_figures_have_the_articles_units_and_decimals(tmp_path: Path) -> None:
    text = report(make_record(tmp_path), "ko")
    assert table(text, "summary") == [
        ["동시성", "배속", "회차 범위"],
        *[[level, "2.00배", "분리됨"] for level in ("1", "4", "16", "32")],
    ]
    assert table(text, "sequential-comparison") == [
        ["지표", "off (10회)", "on (2~10회)", "차이"],
        ["평균", "2.000초", "1.000초", "1.000초 단축"],
        ["중앙값", "2.000초", "1.000초", "1.000초 단축"],
        ["최소", "2.000초", "1.000초", ""],
        ["최대", "2.000초", "1.000초", ""],
        ["토큰당", "29.4ms", "14.7ms", ""],
    ]
    assert table(text, "draft-counters") == [
        ["key", "값", "해석"],
        ["draft 횟수", "80", "요청 10건, 요청당 8회"],
        ["draft 토큰", "400", "80 × 5"],
        ["채택 토큰", "340", "요청 10건의 합"],
        ["채택률", "85.0%", "340 ÷ 400"],
        ["draft당 평균 채택", "4.25개", "340 ÷ 80"],
    ]
    assert table(text, "acceptance-positions")[1:] == [
        *[[str(position), "70", "87.5%"] for position in range(4)],
        ["4", "60", "75.0%"],
    ]


def test_english_load_tables(tmp_path: Path) -> None:
    text = report(make_record(tmp_path))
    assert table(text, "off-on") == [
        ["Condition", "Wall time", "Throughput", "Mean latency"],
        ["off C=1", "20.000 s", "0.500 req/s", "2.000 s"],
        ["on C=1", "9.000 s", "1.000 req/s", "1.000 s"],
        ["off C=4", "32.000 s", "2.000 req/s", "2.000 s"],
        ["on C=4", "16.000 s", "4.000 req/s", "1.000 s"],
        ["off C=16", "8.000 s", "8.000 req/s", "2.000 s"],
        ["on C=16", "4.000 s", "16.000 req/s", "1.000 s"],
        ["off C=32", "8.000 s", "8.000 req/s", "4.000 s"],
        ["on C=32", "4.000 s", "16.000 req/s", "2.000 s"],
    ]
    assert table(text, "speedup")[1:] == [[level, "2.00×", "2.00×", "separated"] for level in ("1", "4", "16", "32")]
    assert table(text, "saturation-change") == [
        ["Change", "off", "on"],
        ["Throughput", "+0.0%", "+0.0%"],
        ["Mean latency", "2.00×", "2.00×"],
    ]
    counts = table(text, "round-counts")
    assert ["on C=4 round 2", "65", "65.000", "2,600", "2,210", "85.0%"] in counts
    assert ["off C=16 round 1", "65", "130.000", "–", "–", "–"] in counts
    resources = table(text, "resources")
    assert resources[-1] == ["on C=32", "30%", "5,400 MiB", "16", "16", "capacity"]


def test_a_contaminated_round_keeps_its_row_and_is_marked(tmp_path: Path) -> None:
    def four_more(event: events.Scraped) -> events.Scraped:
        by = {metrics.E2E_COUNT: 4, metrics.SPEC_DRAFT_TOKENS: 160, metrics.SPEC_ACCEPTED_TOKENS: 136}
        series = {key: v + by.get(key.partition("{")[0], 0) for key, v in (event.series or {}).items()}
        return event.model_copy(update={"series": series})

    def where(e: Any) -> Any:
        return (e.arm, e.concurrency, e.round, e.moment) == ("on", 4, 2, "after")

    text = report(make_record(tmp_path, change=edit_events(events.Scraped, four_more, where)))
    assert ["on C=4 round 2 ※", "69", "65.000", "2,760", "2,346", "85.0%"] in table(text, "round-counts")
    assert "※ on C=4 round 2: 4 more requests finished than were sent." in text
    assert "Δdraft ÷ Δcount is 40, and the other rounds' is 40: the same kind of request." in text
    assert [row[0] for row in table(text, "rounds") if "※" in row[0]] == ["on C=4 ※"]


def test_failed_requests_stand_beside_the_others(tmp_path: Path) -> None:
    failing = edit_events(
        events.RequestDone,
        lambda e: e.model_copy(update={"verdict": "truncated"}),
        lambda e: (e.arm, e.concurrency, e.round) == ("on", 16, 1) and e.index in (3, 5),
    )
    text = report(make_record(tmp_path, change=failing))
    assert table(text, "rounds")[0][-1] == "Failed"
    assert [row[-1] for row in table(text, "rounds") if row[0] == "on C=16 ‡"] == ["truncated 2", "0"]
    assert "‡ on C=16: incomplete: 2 failed (allowed 0)." in text
    assert table(text, "summary")[3][1] == "– (incomplete: 2 failed (allowed 0))"


def test_noise_is_not_separated_and_one_round_is_no_range(tmp_path: Path) -> None:
    slow = edit_events(
        events.RequestDone,
        lambda e: e.model_copy(
            update={"last_byte_ns": e.last_byte_ns + 20 * 10**9, "ended_ns": e.ended_ns + 20 * 10**9}
        ),
        lambda e: (e.arm, e.concurrency, e.round, e.index) == ("on", 4, 2, 64),
    )
    assert table(report(make_record(tmp_path, change=slow)), "summary")[2][2] == "not separated"

    def once(spec: Any) -> Any:
        return spec["phases"]["load"].update({"rounds": 1})

    assert table(report(make_record(tmp_path, once)), "summary")[2][2] == "one sample, cannot be judged"


SERIES = [
    name
    for name in vars(metrics).values()
    if isinstance(name, str) and (name.startswith("vllm:") or name == metrics.PROCESS_START) and name != metrics.PREFIX
]


@pytest.mark.parametrize("name", SERIES)
def test_a_series_removed_never_becomes_a_number(tmp_path: Path, name: str) -> None:
    """Whatever cell changes when a series is gone says that it is absent; nothing else changes."""
    whole = json.loads(render_result(record := make_record(tmp_path), run_checks(record)))
    record = make_record(tmp_path, change=without_series(name))
    less = json.loads(render_result(record, run_checks(record)))
    report(record, "ko")
    for path, before, after in differences(whole["cells"], less["cells"], ()):
        assert isinstance(after, dict) and "absent" in after, (path, before, after)
    worse = {"pass": {"pass", "inconclusive", "not-applicable"}}
    for first, second in zip(whole["checks"], less["checks"], strict=True):
        assert second["judgement"] in worse[first["judgement"]], second


def differences(one: Any, two: Any, path: tuple[Any, ...]) -> list[tuple[tuple[Any, ...], Any, Any]]:
    if isinstance(one, dict) and isinstance(two, dict) and set(one) == set(two):
        return [found for key in one for found in differences(one[key], two[key], (*path, key))]
    if isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        return [found for i, (a, b) in enumerate(zip(one, two, strict=True)) for found in differences(a, b, (*path, i))]
    return [] if one == two else [(path, one, two)]


def hostile(spec: dict[str, Any]) -> None:
    spec["phases"]["a | `b` <i>c</i>"] = spec["phases"].pop("load")
    spec["title"] = HOSTILE.replace("\n", " ")
    spec["prompts"]["p"] = {"character": HOSTILE, "messages": [{"role": "user", "content": HOSTILE}]}
    spec["conditions"]["on"]["label"] = "on | <b>`x`</b> *y* ~1~ __z__"
    spec["request"]["user"] = HOSTILE
    spec["notes"] = {"request": {"temperature": HOSTILE}, "not-checked": [HOSTILE]}


@pytest.mark.parametrize("language", ["ko", "en"])
def test_hostile_text_leaves_the_markdown_whole(tmp_path: Path, language: str) -> None:
    failed = events.EngineFailed(arm="on", replicate=1, stage="run", reason=HOSTILE, words=[HOSTILE, "`", "``x"])
    other = events.OutputSeen(output_id="other", text=HOSTILE, reasoning="", token_ids=None)
    different = edit_events(
        events.RequestDone, lambda e: e.model_copy(update={"output_id": "other"}), lambda e: e.index == 5
    )

    def change(journal: Any) -> Any:
        return [journal[0], other, *different(journal[1:-1]), failed, journal[-1]]

    text = report(make_record(tmp_path, hostile, change=change), language)
    parser = MarkdownIt("commonmark", {"html": True}).enable("table").enable("strikethrough")
    tokens = parser.parse(text)
    inline = [child for token in tokens for child in token.children or []]
    kinds = {token.type for token in [*tokens, *inline]}
    assert not kinds & {"html_block", "html_inline", "s_open", "em_open", "image", "fence", "code_block"}
    # The only links are those of the contents.
    assert all(str(one.attrs["href"]).startswith("#") for one in inline if one.type == "link_open")
    headings = [tokens[i + 1].content for i, token in enumerate(tokens) if token.type == "heading_open"]
    assert not [heading for heading in headings if heading.startswith("h ")]
    assert text.count("\n## ") == 5
    rows = [part for part in "".join("|" if t.type == "tr_open" else "." * (t.type in ("th_open", "td_open")) or
            "\n" * (t.type == "table_close") for t in tokens).splitlines() if part]  # fmt: skip
    for one in rows:
        assert len(set(one.strip("|").split("|"))) == 1, "a table whose rows differ in length"
    assert len(rows) >= len(TABLE_IDS)


@pytest.mark.parametrize("text", ["", " ", "`", "``a`", "a|b", "a\nb", "plain"])
def test_code_keeps_its_text_in_a_table_and_in_a_sentence(text: str) -> None:
    cells = MarkdownIt().enable("table").parse(render_table(["x"], ["left"], [[code(text)]]))
    sentences = MarkdownIt().parse(f"- {code(text)} is so")
    for tokens in (cells, sentences):
        spans = [c for token in tokens for c in token.children or [] if c.type == "code_inline"]
        assert [span.content.strip() for span in spans] == ([" ".join(text.split())] if text.split() else [""])


def test_escape_keeps_its_text() -> None:
    rendered = MarkdownIt("commonmark").renderInline(escape(HOSTILE))
    plain = " ".join(HOSTILE.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert rendered == plain


EARLY: list[tuple[str, Callable[[list[events.Event]], list[events.Event]]]] = [
    ("only-started", lambda journal: journal[:1]),
    ("engine-launched", lambda journal: journal[:4]),
    ("evidence", lambda journal: journal[:7]),
    ("first-round", lambda journal: journal[:40]),
    ("first-arm", lambda journal: journal[: len(journal) // 2]),
]


@pytest.mark.parametrize(("name", "cut"), EARLY, ids=[one[0] for one in EARLY])
@pytest.mark.parametrize("language", ["ko", "en"])
def test_a_run_cut_anywhere_has_a_report_without_false_zeros(
    tmp_path: Path, name: str, cut: Change, language: str
) -> None:
    record = make_record(tmp_path, change=cut)
    text = report(record, language)
    results = json.loads(render_result(record, run_checks(record)))
    assert results["exit_code"] == 5
    assert not re.search(r"\b0\.000( s|초| req/s)|\b0\.00(×|배)|\bnan\b|\binf\b", text)
    assert ("ended early" in text) == (language == "en")


def test_the_same_record_gives_the_same_bytes(tmp_path: Path) -> None:
    one, two = (report(make_record(tmp_path)) for _ in range(2))
    assert one == two and one.endswith("\n") and not one.endswith("\n\n")


def test_several_conditions_are_rows_and_not_ever_wider_tables(tmp_path: Path) -> None:
    def three(spec: dict[str, Any]) -> None:
        spec["conditions"]["on"]["matrix"] = {"spec-tokens": [1, 3, 5]}
        del spec["conditions"]["on"]["args"]["spec-tokens"]

    text = report(make_record(tmp_path, three))
    assert table(text, "summary")[0] == ["Concurrency", "Condition", "Speed-up", "Ranges"]
    assert len(table(text, "summary")) == 1 + 4 * 3
    assert len(re.findall(r"\(`draft-counters`\)", text)) == 3


def test_what_differs_and_how_few_the_rounds_are_stand_beside_the_speed_up(tmp_path: Path) -> None:
    def more(spec: dict[str, Any]) -> None:
        spec["conditions"]["on"].update({"env": {"X": "1"}, "request": {"max_tokens": 16}})

    text = report(make_record(tmp_path, more))
    assert "`on` differs from the baseline by `spec_method`, `spec_tokens`, `env X`, `request max_tokens`." in text
    # Of the 6 orders of 2 + 2 equal rounds, 2 keep the two conditions apart.
    assert "With 2 and 2 rounds, two equal conditions are separated by chance in 33% of the cells" in text


def test_what_could_not_be_judged_did_not_hold(tmp_path: Path) -> None:
    def allowed(spec: Any) -> Any:
        return spec["invariants"].update({"one-engine-process": {"allow-inconclusive": True}})

    record = make_record(tmp_path, allowed, change=without_series(metrics.PROCESS_START))
    text = report(record)
    assert "exit code 0 — no invariant failed; could not be judged, which the spec allows: one-engine-process" in text
    assert "all invariants hold" not in text


def test_an_arm_that_never_ran_confounds_nothing(tmp_path: Path) -> None:
    def only_off(journal: Any) -> Any:
        return [e for e in journal if getattr(e, "arm", "off") == "off"]

    assert "changed along with it" not in report(make_record(tmp_path, change=only_off))


def grown(name: str, by: float, arm: str = "on") -> Change:
    """A series that gains `by` in each window of an arm above concurrency 1."""

    def change(event: events.Scraped) -> events.Scraped:
        series = {key: v + by * (key.partition("{")[0] == name) for key, v in (event.series or {}).items()}
        return event.model_copy(update={"series": series})

    return edit_events(events.Scraped, change, lambda e: e.arm == arm and e.moment == "after" and e.phase == "load")


@pytest.mark.parametrize(
    ("name", "by"),
    [(metrics.SPEC_ACCEPTED_TOKENS, 1000), (metrics.SPEC_DRAFT_TOKENS, -2500), (metrics.SPEC_DRAFTS, 2500)],
)
def test_counters_that_contradict_each_other_make_no_figure(tmp_path: Path, name: str, by: float) -> None:
    record = make_record(tmp_path, change=grown(name, by))
    [check] = [one for one in run_checks(record) if one.check == "acceptance-constant"]
    assert (check.judgement, check.findings[0].reason) == ("inconclusive", "counters-contradict")
    rates = [row[-1] for row in table(report(record), "round-counts") if row[0].startswith("on C=4")]
    assert rates == ["– (the counters contradict each other)"] * 2


def test_positions_that_rise_are_not_shown(tmp_path: Path) -> None:
    def once(spec: dict[str, Any]) -> None:
        del spec["phases"]["sequential"]

    text = report(make_record(tmp_path, once, change=grown(metrics.SPEC_ACCEPTED_PER_POS, 900)))
    assert {row[1] for row in table(text, "acceptance-positions")[1:]} == {"– (the counters contradict each other)"}


@pytest.mark.parametrize(("by", "believed"), [(-100.0, False), (0.0, True), (100.0, False)])
def test_a_server_that_contradicts_the_client_has_no_mean_latency(tmp_path: Path, by: float, believed: bool) -> None:
    """65 requests of 2 s: 100 s more or less is 3.5 or 0.5 s a request."""
    text = report(make_record(tmp_path, change=grown(metrics.E2E_SUM, by, "off")))
    [cell] = [row[3] for row in table(text, "off-on") if row[0] == "off C=4"]
    assert (cell == "2.000 s") == believed and ("contradicts the client's 2.000 s" in cell) != believed


def test_tolerated_failures_stand_beside_the_ratio(tmp_path: Path) -> None:
    def tolerant(spec: dict[str, Any]) -> None:
        spec["limits"] = {"max-failed": 1}

    one = edit_events(
        events.RequestDone,
        lambda e: e.model_copy(update={"verdict": "timed-out"}),
        lambda e: (e.arm, e.concurrency, e.round, e.index) == ("off", 4, 1, 9),
    )
    text = report(make_record(tmp_path, tolerant, change=one))
    for name in ("summary", "speedup"):
        assert [row[0] for row in table(text, name)[1:]] == ["1", "4 ‡", "16", "32"]
    assert "‡ off C=4: 1 requests failed, which the spec tolerates" in text


def test_gaps_that_the_spec_itself_leaves(tmp_path: Path) -> None:
    def bare(spec: dict[str, Any]) -> None:
        del spec["invariants"]["same-output"]
        spec["phases"]["load"]["requests"] = 20

    gaps = report(make_record(tmp_path, bare)).split("## Not checked")[1]
    assert "whether the conditions gave the same output: `same-output` was not asked for" in gaps
    assert "concurrency 32: a round has only 20 requests, and no more were ever in flight" in gaps
    assert "concurrency 16" not in gaps


@pytest.mark.parametrize("place", ["verdicts", "summary", "gaps"])
def test_a_confounded_comparison_says_so_where_it_is_read(tmp_path: Path, place: str) -> None:
    text = report(make_record(tmp_path))
    found = {
        "verdicts": text.split("## Measurements")[0],
        "summary": text.split("(`summary`)")[1].split("\n### ")[0],
        "gaps": text.split("## Not checked")[1],
    }[place]
    assert "Async scheduling, Model runner, Sampling options without effect" in found
