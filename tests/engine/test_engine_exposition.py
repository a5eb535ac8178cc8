"""Scrapes: every recorded one whole, hostile ones, the journal form, and changes over a window."""

from __future__ import annotations

import json
import re

import pytest
from engine_recorded import SCRAPES, served_model, text
from hypothesis import given
from hypothesis import strategies as st

from runner.engine import metrics
from runner.engine.exposition import (
    Exposition,
    ExpositionError,
    MixedModelsError,
    delta,
    from_json,
    kept,
    parse,
    to_json,
)
from runner.sample.scrape import SAMPLED

NAMES = {name for name in vars(metrics).values() if isinstance(name, str) and name.startswith("vllm:")} - {"vllm:"}


@pytest.mark.parametrize("name", SCRAPES)
def test_every_recorded_scrape_is_read_whole(name: str) -> None:
    body = text(name)
    scrape = parse(body)
    assert len(scrape.series) == sum(1 for line in body.splitlines() if line and not line.startswith("#"))
    assert scrape.label_values(metrics.RUNNING, metrics.MODEL_LABEL) == {served_model(name)}
    speculating = "/on" in name or "-on" in name
    for known in NAMES:
        found = scrape.total(known)
        if known.startswith("vllm:spec_decode"):
            assert (found is not None) is speculating, known  # absent is not 0
        else:
            assert found is not None, known
    assert from_json(json.loads(json.dumps(to_json(scrape, lambda _: True)))).series == scrape.series
    journal = to_json(scrape)
    assert from_json(journal).total(metrics.E2E_SUM) == scrape.total(metrics.E2E_SUM)
    assert not any("_bucket" in key for key in journal)
    assert metrics.PROCESS_START in journal
    assert any(key.startswith("vllm:e2e_request_latency_seconds_created") for key in journal)


@pytest.mark.parametrize("name", SCRAPES)
def test_a_part_of_a_scrape_is_that_part_of_the_whole(name: str) -> None:
    whole, part = parse(text(name)), parse(text(name), SAMPLED)
    assert part.series == {key: value for key, value in whole.series.items() if key[0] in SAMPLED}
    assert {key[0] for key in part.series} == set(SAMPLED)
    assert part.types.items() <= whole.types.items()


def test_a_part_is_read_however_its_lines_look() -> None:
    body = f"""\
# TYPE {metrics.RUNNING} gauge
{metrics.RUNNING}{{engine="0"}} 1
  {metrics.RUNNING}\t2
{{"{metrics.RUNNING}",engine="2"}} 4
{metrics.RUNNING}_ever 8
"""
    part = parse(body, [metrics.RUNNING])
    assert part.total(metrics.RUNNING) == 7
    assert {name for name, _ in part.series} == {metrics.RUNNING}
    assert parse("another 1\n", [metrics.RUNNING]).total(metrics.RUNNING) is None  # absent is not 0
    counter = f"#  TYPE {metrics.RUNNING} counter\n{metrics.RUNNING} 1\n"
    assert parse(counter, [metrics.RUNNING]).series == parse(counter).series


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("# TYPE another gauge\n", "no series"),
        ("# TYPE another gauge\n  \n", "no series"),
        (" # comment\n", "no series"),
        ("another 1", "has no end"),
        ("{}", "JSON"),
        (f"{metrics.RUNNING} 1\n" * 2, "occurs twice"),
        ("upstream connect error or disconnect\n", "line 1 "),
        ("upstream connect\n", "line 1 "),
        (f'a 1\n# HELP b c\n{metrics.RUNNING}{{engine="0"}} 1\n{metrics.RUNNING[:-3]}\n', "line 4 "),
        (f"a 1\nb 1\n{metrics.RUNNING} x\n", "line 3 "),
        ("a 1\nb x\n", "line 2 "),
    ],
)
def test_a_part_of_what_is_no_scrape_says_why_as_the_whole_does(body: str, words: str) -> None:
    """Half of a line may be half of what was asked for."""
    for names in (None, [metrics.RUNNING]):
        with pytest.raises(ExpositionError, match=words):
            parse(body, names)


@pytest.mark.parametrize(
    ("arm", "drafts", "draft_tokens", "accepted"),
    [("h200/q3b-on/metrics/c1-kr", 90, 450, 340)],
)
def test_the_figures_of_the_h200_report(arm: str, drafts: float, draft_tokens: float, accepted: float) -> None:
    """Ten requests: per request 9 drafts, 45 draft tokens, 34 accepted, per position 7,7,7,7,6."""
    before, after = parse(text(f"{arm}-before.prom")), parse(text(f"{arm}-after.prom"))
    for name, figure in (
        (metrics.SPEC_DRAFTS, drafts),
        (metrics.SPEC_DRAFT_TOKENS, draft_tokens),
        (metrics.SPEC_ACCEPTED_TOKENS, accepted),
        (metrics.REQUEST_SUCCESS, 10),
        (metrics.GENERATION_TOKENS, 680),
    ):
        assert delta(before, after, name).value == figure
    for position, figure in zip("01234", (70, 70, 70, 70, 60), strict=True):
        assert delta(before, after, metrics.SPEC_ACCEPTED_PER_POS, position=position).value == figure
    by_position = after.by_label(metrics.SPEC_ACCEPTED_PER_POS, metrics.POSITION_LABEL)
    assert by_position == {"0": 77, "1": 77, "2": 77, "3": 77, "4": 66}


@pytest.mark.parametrize("version", ["0.26.0", "0.32.0"])
def test_the_figures_of_the_cpu_summary(version: str) -> None:
    """The cpu README: 10 + 16 + 16 requests of 96 tokens, and none of speculation in the off arm."""
    for arm in ("off", "on"):
        stem = f"cpu/{version}-cpu-tiny/{arm}/metrics"
        before, after = parse(text(f"{stem}-before.prom")), parse(text(f"{stem}-after.prom"))
        assert delta(before, after, metrics.REQUEST_SUCCESS, finished_reason="length").value >= 42
        assert delta(before, after, metrics.PREEMPTIONS).value == 0
        spec = delta(before, after, metrics.SPEC_DRAFTS)
        assert (spec.reason == "absent") if arm == "off" else spec.value > 67


def test_one_scrape_of_ids_has_the_drafts_of_the_brute_force_matcher() -> None:
    """The cpu README: drafts 70, draft tokens 332, accepted 107."""
    stem = "cpu/0.32.0-cpu-tiny-ids/on/metrics"
    before, after = parse(text(f"{stem}-before.prom")), parse(text(f"{stem}-after.prom"))
    names = (metrics.SPEC_DRAFTS, metrics.SPEC_DRAFT_TOKENS, metrics.SPEC_ACCEPTED_TOKENS)
    assert [delta(before, after, name).value for name in names] == [70, 332, 107]


# ------------------------------------------------------------------------------------------------------
# Hostile bodies (input 8)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("", "empty"),
        (" \n\n", "empty"),
        ('["a"]', "JSON"),
        ('{"detail":"Not Found"}', "JSON"),
        ("<!doctype html><html></html>", "HTML"),
        ("# HELP x y\n# TYPE x counter\n", "no series"),
        ("upstream connect error", "line 1"),
        ("x 1\nx{a=b} 2\n", "line 2"),
        ("x 1\nx{a} one\n", "line 2"),
        ("x 1\nx 2\n", "twice"),
        ('x{a="1"} 1\nx{a="1"} 1\n', "twice"),
    ],
)
def test_what_is_no_exposition_says_why(body: str, words: str) -> None:
    with pytest.raises(ExpositionError, match=words):
        parse(body)


def test_the_bounds() -> None:
    with pytest.raises(ExpositionError, match="characters"):
        parse("x 1\n" + "y" * 100, max_line=50)
    with pytest.raises(ExpositionError, match="series"):
        parse("\n".join(f"x{i} 1" for i in range(4)) + "\n", max_series=3)


def test_unusual_but_legal_text() -> None:
    scrape = parse(
        '# TYPE a counter\na_total{m="q\\"u\\\\o\\nte",z="{,}"} 1.5e+03\r\n'
        'a_created{m="q\\"u\\\\o\\nte",z="{,}"} 1.7e9\n'
        'h_bucket{le="+Inf"} 3 # {trace_id="x"} 0.5\n'
        "inf +Inf\n# EOF\nlast 7\n"
    )
    assert scrape.total("a_total", m='q"u\\o\nte', z="{,}") == 1500
    assert scrape.total("h_bucket", le="+Inf") == 3
    assert scrape.total("inf") == float("inf")
    assert scrape.total("last") == 7
    assert scrape.types["a"] == "counter"


def test_absent_is_never_zero() -> None:
    scrape = parse('x_total{engine="0"} 0\n')
    assert scrape.total("x_total") == 0
    assert scrape.total("y_total") is None
    assert scrape.total("x_total", engine="1") is None
    assert scrape.by_label("x_total", "position") is None
    assert delta(scrape, scrape, "y_total").reason == "absent"
    assert delta(scrape, scrape, "y_total").value is None


def drafts(*values: tuple[str, str, float], created: float = 1.0, start: float | None = None) -> Exposition:
    lines = [f'd_total{{engine="{engine}",model_name="{model}"}} {value}' for engine, model, value in values]
    lines += [f'd_created{{engine="{engine}",model_name="{model}"}} {created}' for engine, model, _ in values]
    lines += [] if start is None else [f"process_start_time_seconds {start}"]
    return parse("\n".join(lines) + "\nother 1\n")


def test_engines_are_summed_and_a_reset_of_one_spoils_the_sum() -> None:
    before = drafts(("0", "m", 900), ("1", "m", 800))
    assert delta(before, drafts(("0", "m", 940), ("1", "m", 1000)), "d_total").value == 240
    # the sum would have risen for the second of these: 1700 to 2040
    for after in (drafts(("0", "m", 40), ("1", "m", 1000)), drafts(("0", "m", 40), ("1", "m", 2000))):
        found = delta(before, after, "d_total")
        assert (found.value, found.reason) == (None, "reset")
        assert 'engine="0"' in found.detail


def test_a_reset_that_the_values_hide_is_seen_by_created_and_by_the_process() -> None:
    before = drafts(("0", "m", 5), start=100)
    assert delta(before, drafts(("0", "m", 9), created=2), "d_total").reason == "reset"
    assert delta(before, drafts(("0", "m", 9), start=200), "d_total").reason == "reset"
    assert delta(before, drafts(("0", "m", 9)), "d_total").value == 4  # a detector may be absent


def test_a_series_in_one_scrape_only() -> None:
    one, both = drafts(("0", "m", 5)), drafts(("0", "m", 6), ("1", "m", 7))
    assert delta(one, both, "d_total").reason == "absent-before"  # a new engine may have counted before
    assert delta(both, one, "d_total", engine="1").reason == "absent-after"
    assert delta(drafts(), one, "d_total").reason == "absent-before"
    born = 'r_total{engine="0",reason="stop"} 3\nr_total{engine="0",reason="abort"} 2\n'
    grown = delta(parse('r_total{engine="0",reason="stop"} 1\n'), parse(born), "r_total", reason="abort")
    assert grown.value == 2  # the same engine exposed the family: the child was not there yet


def test_models_are_not_mixed() -> None:
    before, after = drafts(("0", "m", 1), ("0", "n", 1)), drafts(("0", "m", 2), ("0", "n", 5))
    assert delta(before, after, "d_total").reason == "mixed-models"
    assert delta(before, after, "d_total", model_name="n").value == 4
    with pytest.raises(MixedModelsError, match="m, n"):
        after.total("d_total")
    assert after.by_label("d_total", "model_name") == {"m": 2, "n": 5}


LABELS = st.dictionaries(st.from_regex(re.compile(r"[a-z_][a-z0-9_]{0,5}", re.ASCII), fullmatch=True), st.text())
KEYS = st.tuples(
    st.from_regex(re.compile(r"[a-z_:][a-z0-9_:]{0,8}", re.ASCII), fullmatch=True),
    LABELS.map(lambda labels: tuple(sorted(labels.items()))),
)


@given(st.dictionaries(KEYS, st.floats(allow_nan=False, allow_infinity=False)))
def test_the_journal_form_is_exact(series: dict[tuple[str, tuple[tuple[str, str], ...]], float]) -> None:
    written = json.loads(json.dumps(to_json(Exposition(series, {}), lambda _: True)))
    assert from_json(written).series == series


@pytest.mark.parametrize("key", ["x{", "x{}", 'x{a="1"', 'x{a="1"}y', "x{a=1}", 'x{a="\\q"}'])
def test_a_key_that_was_not_written_by_us_is_refused(key: str) -> None:
    with pytest.raises(ExpositionError, match="no series key"):
        from_json({key: 1})


def test_kept() -> None:
    assert kept("vllm:spec_decode_num_drafts_created")
    assert kept("vllm:a_metric_of_tomorrow_total")
    assert not kept("vllm:request_params_n_created")
    assert not kept("vllm:e2e_request_latency_seconds_bucket")
    assert not kept("http_requests_total")
