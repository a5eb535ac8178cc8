"""The tables `latency` and `client`, what marks a client that was the limit, and what programs are told of them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from journals import (
    SECOND,
    Change,
    both,
    client,
    edit_events,
    make_record,
    old,
    over,
    streamed,
    streaming,
    watched,
)

from runner.checks.registry import run_checks
from runner.record import events
from runner.record.record import Record
from runner.report.numbers import Numbers
from runner.report.render import render_report, render_tables
from runner.report.result import render_result
from runner.report.words import Words

MS = SECOND // 1000
BURST = events.TokenEvents(at_ns=[50 * MS + 30 * MS * number for number in range(17)], tokens=[4] * 17)
"""68 tokens: four an event, 30 ms apart."""


def table(record: Record, name: str, language: str = "en") -> tuple[list[list[str]], list[str]]:
    """A table's rows, its header first, with its footnotes put back; and its other notes."""
    lines = render_tables(record, run_checks(record), [name], language).splitlines()
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines if line.startswith("|")]
    notes = [line.removeprefix("- ") for line in lines if line.startswith("- ")]
    marks = {note[0]: note[2:] for note in notes if note[0] in "¹²³⁴⁵⁶⁷⁸⁹"}
    put_back = [[f"– ({marks[cell[1]]})" if cell[1:] in marks else cell for cell in row] for row in rows]
    return [put_back[0], *put_back[2:]], [note for note in notes if note[0] not in marks]


def gaps(record: Record, language: str = "en") -> str:
    return render_report(record, run_checks(record), language).partition(f"## {Words(language)('not-checked')}")[2]


def result(record: Record) -> Any:
    return json.loads(render_result(record, run_checks(record)))


def of_cell(record: Record, level: int, condition: str = "on") -> Any:
    [one] = [one for one in result(record)["cells"] if (one["condition"], one["concurrency"]) == (condition, level)]
    return one


# ------------------------------------------------------------------------------------------------------
# Latency


def test_a_streamed_cell_has_a_row_for_each_metric(tmp_path: Path) -> None:
    rows, notes = table(make_record(tmp_path, streaming, change=streamed(BURST)), "latency")
    assert rows[0] == ["Condition", "Concurrency", "Metric", "p50", "p90", "p99", "n", "Clock"]
    few = "– (too few values (10 needed))", "– (too few values (100 needed))"
    # At concurrency 1 the first request of `on` is excluded, and nothing is streamed.
    assert [row for row in rows if row[:2] == ["on", "1"]] == [["on", "1", "E2E", "1.000 s", *few, "9", "kernel"]]
    assert [row[2:] for row in rows if row[:2] == ["on", "4"]] == [
        ["TTFT", *["50.00 ms"] * 3, "128", "kernel"],
        ["TPOT", *["7.500 ms"] * 3, "128", "kernel"],
        ["ITL", *["7.500 ms"] * 3, "8,192", "kernel"],
        ["chunk gap", *["30.00 ms"] * 3, "2,048", "kernel"],
        ["E2E", *["1.000 s"] * 3, "128", "kernel"],
    ]
    assert "C=1: not streamed, so that there is E2E alone and nothing of tokens." in notes


def test_in_korean_too(tmp_path: Path) -> None:
    rows, notes = table(make_record(tmp_path, streaming, change=streamed(BURST)), "latency", "ko")
    assert ["on", "4", "chunk 간격", *["30.00ms"] * 3, "2,048", "kernel"] in rows
    assert "C=1: streaming하지 않아 토큰의 지연은 없고 E2E만 있다." in notes


def test_each_percentile_says_for_itself_why_it_is_absent(tmp_path: Path) -> None:
    """By a clock that may be 10 ms late a gap of 30 ms is not known, and a TTFT of 50 ms is not either."""
    user = edit_events(events.RequestDone, lambda e: e.model_copy(update={"clock": "user"}))
    lag = client(watched(loop_lag_p99_ns=9 * MS, clock="user", why_user="TLS is read inside Python"))
    record = make_record(tmp_path, streaming, change=both(streamed(BURST), user, lag))
    rows, _ = table(record, "latency")
    [gap] = [row for row in rows if row[:3] == ["on", "4", "chunk gap"]]
    assert gap[3:] == [*["– (the clock cannot carry it: between 0.020000 and 0.040000 s)"] * 3, "2,048", "user"]
    [whole] = [row for row in rows if row[:3] == ["on", "4", "E2E"]]
    assert whole[3:] == [*["1.000 s"] * 3, "128", "user"]
    assert (
        "when exactly the replies of `off`, `on` came in: the client stamped them as it read them, not the kernel "
        "(TLS is read inside Python)" in gaps(record)
    )
    told = of_cell(record, 4)["latency"]
    lost = {"absent": "clock-cannot-carry", "low": pytest.approx(0.02), "high": pytest.approx(0.04)}
    assert told["chunk-gap"] == {"n": 2048, "p50": lost, "p90": lost, "p99": lost}
    assert told["e2e-latency"]["p99"] == pytest.approx({"low": 0.99, "value": 1.0, "high": 1.0})


def test_an_old_record_times_whole_requests_by_the_users_clock(tmp_path: Path) -> None:
    record = make_record(tmp_path, streaming, change=both(streamed(BURST), old))
    rows, _ = table(record, "latency")
    unknown = "– (the error of the clock is not known)"
    assert [row[2:] for row in rows if row[:2] == ["on", "4"]] == [
        *[[metric, *[unknown] * 3, "–", "user"] for metric in ("TTFT", "TPOT", "ITL", "chunk gap")],
        ["E2E", *["1.000 s"] * 3, "128", "user"],
    ]
    assert "not the kernel (the runner that recorded them had no other clock)" in gaps(record)
    told = of_cell(record, 4)["latency"]
    assert told["ttft"] == {"absent": "clock-unknown"}
    assert told["e2e-latency"]["p50"] == {"low": None, "value": 1.0, "high": None}


def test_what_was_not_streamed_is_a_gap_of_its_phases(tmp_path: Path) -> None:
    sentence = "TTFT and inter-token latency"
    plain = gaps(make_record(tmp_path))
    assert f"- {sentence}: nothing was streamed, so there is only the whole response time" in plain
    mixed = gaps(make_record(tmp_path, streaming, change=streamed(BURST)))
    assert f"- {sentence} of `sequential`: not streamed, so there is only the whole response time" in mixed

    def all_streamed(spec: dict[str, Any]) -> None:
        streaming(spec)
        spec["phases"]["sequential"]["stream"] = True

    assert sentence not in gaps(make_record(tmp_path, all_streamed, change=streamed(BURST)))
    assert "stamped" not in plain  # the kernel's clock


def test_an_incomplete_cell_has_no_quantiles(tmp_path: Path) -> None:
    lost = edit_events(events.RoundFinished, lambda _: None, lambda e: e.arm == "on" and e.concurrency == 16)
    rows, notes = table(make_record(tmp_path, change=lost), "latency")
    [row] = [row for row in rows if row[:2] == ["on ‡", "16"]]
    assert row[3:6] == ["– (incomplete: 0 of 2 rounds)"] * 3 and row[6] == "–"
    assert "‡ on C=16: incomplete: 0 of 2 rounds." in notes


def test_times_over_a_doubtful_way_are_marked(tmp_path: Path) -> None:
    rows, notes = table(make_record(tmp_path, change=over("port-forward", "why", "on")), "latency")
    assert {row[0] for row in rows if "§" in row[3]} == {"on"}
    assert notes[-1] == "§ on: times taken over port-forward are not the engine's: why."


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (2.39211, "2.392 s"),
        (0.99996, "1.000 s"),
        (0.18243, "182.4 ms"),
        (0.035214, "35.21 ms"),
        (90 / 11 / 1000, "8.182 ms"),
        (0.0000421, "0.042 ms"),
        (0.0, "0.000 ms"),
    ],
)
def test_short_times_keep_their_digits(seconds: float, shown: str) -> None:
    assert Numbers(Words("en")).duration(seconds) == shown
    assert Numbers(Words("ko")).duration(seconds) == shown.replace(" ms", "ms").replace(" s", "초")


# ------------------------------------------------------------------------------------------------------
# The client


def test_the_client_says_how_it_kept_up(tmp_path: Path) -> None:
    rows, _ = table(make_record(tmp_path, change=client(watched(), watched(loop_lag_p99_ns=3 * MS))), "client")
    assert rows[0] == [
        *("Condition", "Concurrency", "Processes", "Asked", "Achieved", "Loop lag p99", "Read lag p99", "CPU share"),
        *("Waiting for a CPU", "Clock", "Stamps that are upper bounds", "Clock drift"),
    ]
    lags = ["3.000 ms", "0.045 ms", "15.0%", "2.5%", "kernel", "– (not streamed)", "0.002 ms"]
    assert ["on", "4", "2", "4", "4.00 (100.0%)", *lags] in rows
    # Of 64 requests at 32 two waves are sent at once, and the others when the first ones are answered.
    assert ["on", "32", "2", "32", "32.00 (100.0%)", *lags] in rows


def test_an_old_record_has_what_its_stamps_tell(tmp_path: Path) -> None:
    rows, _ = table(make_record(tmp_path, change=old), "client")
    unwatched = "– (the client did not watch itself)"
    [row] = [row for row in rows if row[:2] == ["on", "4"]]
    assert row[2:] == [
        *(unwatched, "4", "4.00 (100.0%)", *[unwatched] * 4, "user", "– (not streamed)", unwatched),
    ]


def test_a_cell_of_which_nothing_is_known_is_not_there(tmp_path: Path) -> None:
    def few(spec: dict[str, Any]) -> None:
        spec["phases"]["load"]["requests"] = 16

    rows, _ = table(make_record(tmp_path, few, change=old), "client")
    assert [row[1] for row in rows[1:]] == ["1", "1", "4", "4"]  # at 16 and 32 all are sent at once
    rows, _ = table(make_record(tmp_path, few), "client")
    assert ["on", "32", "1", "16", "– (all were sent at once)"] in [row[:5] for row in rows]


LAGGING = client(watched(read_lag_p99_ns=80 * MS), where=lambda e: e.arm == "on" and e.concurrency in (1, 4))
WHY = "the client was the limit: it was 0.0800 s late, beside requests of 1.0000 s (median)"


def idle(level: int) -> Change:
    """Slots of `on` that wait a tenth of a second after each of their requests."""

    def later(event: events.RequestDone) -> events.RequestDone:
        by = (event.index - 1) // level * SECOND // 10
        moved = {name: getattr(event, name) + by for name in ("sent_ns", "last_byte_ns", "ended_ns")}
        return event.model_copy(update=moved)

    return edit_events(events.RequestDone, later, lambda e: (e.arm, e.concurrency, e.role) == ("on", level, "measured"))


def test_a_client_that_was_the_limit_has_no_latencies(tmp_path: Path) -> None:
    record = make_record(tmp_path, streaming, change=both(streamed(BURST), LAGGING))
    rows, _ = table(record, "latency")
    assert all(row[3:6] == [f"– ({WHY})"] * 3 for row in rows if row[:2] in (["on", "1"], ["on", "4"]))
    assert not [row for row in rows if row[:2] not in (["on", "1"], ["on", "4"]) and WHY in row[4]]
    rows, notes = table(record, "client")
    assert [row[:2] for row in rows[1:] if "§" in row[0]] == [["on §", "1"], ["on §", "4"]]
    assert f"§ on C=1, on C=4: {WHY}." in notes
    assert f"- how long requests and tokens take at on C=1, on C=4: {WHY}" in gaps(record)
    told = of_cell(record, 4)
    assert told["client"]["limit"] == {"absent": "client-lag", "lag": 0.08, "duration": 1.0}
    assert {one["absent"] for one in told["latency"].values()} == {"client-lag"}
    assert of_cell(record, 16)["client"]["limit"] is None


def test_where_the_clients_times_are_compared_there_is_no_figure_and_elsewhere_a_mark(tmp_path: Path) -> None:
    record = make_record(tmp_path, change=LAGGING)
    rows, notes = table(record, "off-on")
    assert [row for row in rows if row[0] in ("on C=1", "on C=4", "on C=16")] == [
        ["on C=1", "9.000 s §", "1.000 req/s §", f"– ({WHY})"],
        ["on C=4", "16.000 s §", "4.000 req/s §", "1.000 s"],
        ["on C=16", "4.000 s", "16.000 req/s", "1.000 s"],
    ]
    assert notes[-1] == f"§ on C=1, on C=4: {WHY}."
    rows, _ = table(record, "summary")
    assert [row[1] for row in rows[1:]] == [f"– ({WHY})", "2.00× §", "2.00×", "2.00×"]
    rows, _ = table(record, "sequential-comparison")
    assert rows[2][2] == f"– ({WHY})"
    assert "§" not in render_tables(record, run_checks(record), ["resources", "draft-counters"], "en")


def test_idle_slots_are_the_clients_doing(tmp_path: Path) -> None:
    record = make_record(tmp_path, change=idle(16))
    rows, notes = table(record, "client")
    [row] = [row for row in rows if row[:2] == ["on §", "16"]]
    assert row[3:5] == ["16", "14.55 (90.9%)"]
    why = "the client was the limit: 14.55 requests in flight of the 16 asked for"
    assert notes[-1] == f"§ on C=16: {why}."
    assert of_cell(record, 16)["client"]["achieved_concurrency"] == pytest.approx(16 / 1.1)


# ------------------------------------------------------------------------------------------------------
# For programs


def test_the_step_series_of_a_round(tmp_path: Path) -> None:
    record = make_record(tmp_path, change=idle(16))
    first = of_cell(record, 16)["rounds"][0]
    assert first["in_flight"] == [
        *([0.0, 16], [1.0, 0], [1.1, 16], [2.1, 0]),
        *([2.2, 16], [3.2, 0], [3.3, 16], [4.3, 0]),
    ]
    assert first["achieved_concurrency"] == pytest.approx(16 / 1.1)
    # A point of the series is one line: there are thousands of them.
    assert "\n            [2.2, 16],\n" in render_result(record, [])
    assert of_cell(make_record(tmp_path), 4)["rounds"][1]["in_flight"] == [[0.0, 4], [16.0, 0]]


def test_nothing_becomes_a_figure_that_was_not_streamed(tmp_path: Path) -> None:
    told = of_cell(make_record(tmp_path), 4)
    assert {name for name, one in told["latency"].items() if one == {"absent": "not-streamed"}} == {
        *("ttft", "tpot", "itl", "chunk-gap")
    }
    assert told["client"]["upper_bound_share"] == {"absent": "not-streamed"}
    assert told["rounds"][0]["troubles"] == []


def test_trouble_that_passed_is_said_all_the_same(tmp_path: Path) -> None:
    at = {"arm": "on", "replicate": 1, "phase": "load", "concurrency": 4, "round": 2, "engine": "pid 1"}
    seen = events.TroubleSeen(**at, at_ns=7, kind="stalled", index=17, detail="no byte for 5 s")

    def change(journal: list[events.Event]) -> list[events.Event]:
        last = max(number for number, event in enumerate(journal) if isinstance(event, events.RoundFinished))
        return [*journal[:last], seen, *journal[last:]]

    record = make_record(tmp_path, change=change)
    _, notes = table(record, "rounds")
    assert "on C=4 round 2: trouble seen while it ran — stalled, request 17 (no byte for 5 s)." in notes
    assert "on C=4 2회차: 회차 중에 보인 문제 — 멈춤, 요청 17 (no byte for 5 s)." in table(record, "rounds", "ko")[1]
    assert of_cell(record, 4)["rounds"][1]["troubles"] == [
        {"at_ns": 7, "kind": "stalled", "index": 17, "detail": "no byte for 5 s"}
    ]
