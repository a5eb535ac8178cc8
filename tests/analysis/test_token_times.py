"""Times of single requests and tokens: worked out by hand, each between the bounds that its clock leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from journals import both, client, edit_events, make_record, old, streamed, streaming, watched

from runner.analysis.cell import cell
from runner.analysis.cell_latency import METRICS, OF_TOKENS, Quantiles, quantiles
from runner.analysis.chunk_gap import chunk_gap
from runner.analysis.client import client_facts
from runner.analysis.e2e_latency import e2e_latency
from runner.analysis.interval import Interval, Intervals
from runner.analysis.itl import itl
from runner.analysis.quantile import FLOOR, carried, percentiles, quantile
from runner.analysis.stamps import ClockError
from runner.analysis.tpot import tpot
from runner.analysis.ttft import ttft
from runner.analysis.value import Absent
from runner.record.events import RequestDone, TokenEvents

MS = 1_000_000
EXACT = ClockError()


def reply(at_ms: list[float], tokens: list[int] | None, usage: int | None, **fields: Any) -> RequestDone:
    """A streamed reply: events at these milliseconds after sending, `usage` completion tokens."""
    sent = 5_000 * MS
    bounds = [(number, int(earliest * MS)) for number, earliest in fields.pop("bounds", [])]
    given = {
        "arm": "a",
        "replicate": 1,
        "phase": "load",
        "concurrency": 1,
        "round": 1,
        "engine": "e",
        "index": 0,
        "role": "measured",
        "body_id": "b",
        "planned_ns": sent,
        "sent_ns": sent,
        "first_byte_ns": sent,
        "first_token_ns": sent,
        "last_byte_ns": sent + int(at_ms[-1] * MS) + 2 * MS,
        "ended_ns": sent + int(at_ms[-1] * MS) + 3 * MS,
        "verdict": "ok",
        "detail": "",
        "status": 200,
        "finish_reason": "stop",
        "prompt_tokens": 1,
        "completion_tokens": usage,
        "output_id": None,
        "clock": "kernel",
        "events": TokenEvents(at_ns=[int(at * MS) for at in at_ms], tokens=tokens, bounds=bounds),
    }
    return RequestDone.model_validate({**given, **fields})


def times(found: Intervals | Absent) -> list[Interval]:
    assert not isinstance(found, Absent), found
    return list(found)


def values(found: Intervals | Absent) -> list[float]:
    return [one.value for one in times(found)]


BURST = reply([50, 80, 110, 140], [1, 4, 3, 4], 12)
"""Speculative decoding: 12 tokens in four events, 30 ms apart."""
PLAIN = reply([50 + 30 * number for number in range(12)], [1] * 12, 12)
"""The same tokens, one an event, 30 ms apart."""


def test_a_burst_of_tokens_is_not_a_token() -> None:
    assert values(chunk_gap(BURST, EXACT)) == pytest.approx([0.030] * 3)
    assert values(chunk_gap(PLAIN, EXACT)) == pytest.approx([0.030] * 11)
    assert values(tpot(BURST, EXACT)) == pytest.approx([0.090 / 11])
    assert values(tpot(PLAIN, EXACT)) == pytest.approx([0.030])
    assert values(itl(BURST, EXACT)) == pytest.approx([0.030 / 4] * 4 + [0.030 / 3] * 3 + [0.030 / 4] * 4)
    assert values(itl(PLAIN, EXACT)) == pytest.approx([0.030] * 11)
    assert sum(values(itl(BURST, EXACT))) == pytest.approx(0.090)
    for one in (BURST, PLAIN):
        assert values(ttft(one, EXACT)) == pytest.approx([0.050])
    assert values(e2e_latency(BURST, EXACT)) == pytest.approx([0.142])


def test_the_first_events_tokens_came_before_the_time_that_is_divided() -> None:
    prompt_echo = reply([50, 80, 110], [6, 2, 2], 10)
    assert values(tpot(prompt_echo, EXACT)) == pytest.approx([0.060 / 4])
    # Usage counts what no event carried, too: a stop token.
    assert values(tpot(reply([50, 80, 110], [6, 2, 2], 11), EXACT)) == pytest.approx([0.060 / 5])


@pytest.mark.parametrize("metric", [tpot, itl])
def test_what_the_server_did_not_count_is_not_counted_by_chunks(metric: Any) -> None:
    assert metric(reply([50, 80], None, 2), EXACT) == Absent("event-tokens-unknown")
    assert values(chunk_gap(reply([50, 80], None, 2), EXACT)) == pytest.approx([0.030])


def test_without_usage_there_is_no_time_per_token() -> None:
    assert tpot(reply([50, 80], [1, 1], None), EXACT) == Absent("event-tokens-unknown")


@pytest.mark.parametrize("name", OF_TOKENS)
def test_a_reply_without_token_events_says_so(name: str) -> None:
    for nothing in (None, TokenEvents(at_ns=[], tokens=[])):
        assert METRICS[name](BURST.model_copy(update={"events": nothing}), EXACT) == Absent("no-token-events")


def test_one_event_has_no_time_between() -> None:
    one = reply([50], [3], 3)
    assert [times(metric(one, EXACT)) for metric in (tpot, itl, chunk_gap)] == [[], [], []]
    assert values(ttft(one, EXACT)) == pytest.approx([0.050])


def test_an_event_that_added_no_token_leaves_its_time_to_the_next() -> None:
    assert values(itl(reply([50, 60, 80], [1, 0, 2], 3), EXACT)) == pytest.approx([0.015] * 2)


def test_a_reply_whose_end_was_not_stamped_has_no_latency() -> None:
    assert e2e_latency(BURST.model_copy(update={"last_byte_ns": None}), EXACT) == Absent("no-last-byte")


# ------------------------------------------------------------------------------------------------------
# Bounds


def test_an_upper_bound_of_the_users_clock_is_no_more_exact_than_that_clock() -> None:
    """The last token came at most 1 ms before what closed its stream, by a clock that is up to 20 ms late."""
    one = reply([50, 110], [1, 1], 2, bounds=[(1, 109)], clock="user")
    late = ClockError(late=0.020)
    assert times(chunk_gap(one, late)) == [pytest.approx((0.040, 0.060, 0.080))]
    assert times(chunk_gap(one, EXACT)) == [pytest.approx((0.059, 0.060, 0.060))]


def test_an_event_behind_which_the_read_held_more_came_after_the_read_before() -> None:
    """Three events in one read at 110 ms; the read before was at 50 ms."""
    one = reply([50, 110, 110, 110], [1, 1, 1, 1], 4, bounds=[(1, 50), (2, 50)])
    first, second, third = times(chunk_gap(one, EXACT))
    assert first == pytest.approx((0.0, 0.060, 0.060))
    assert second == pytest.approx((0.0, 0.0, 0.060))
    assert third == pytest.approx((0.0, 0.0, 0.060))
    # First and last have stamps of their own: what is between them does not matter.
    assert times(tpot(one, EXACT)) == [pytest.approx((0.020, 0.020, 0.020))]
    held = reply([50, 50, 80], [1, 1, 1], 3, bounds=[(0, 0)])
    assert times(ttft(held, EXACT)) == [pytest.approx((0.0, 0.050, 0.050))]
    assert times(tpot(held, EXACT)) == [pytest.approx((0.015, 0.015, 0.040))]


def test_the_users_clock_is_late_and_never_early() -> None:
    late = ClockError(late=0.004)
    assert times(ttft(BURST, late)) == [pytest.approx((0.046, 0.050, 0.050))]
    assert times(e2e_latency(BURST, late)) == [pytest.approx((0.138, 0.142, 0.142))]
    assert times(chunk_gap(BURST, late))[0] == pytest.approx((0.026, 0.030, 0.034))
    assert times(tpot(BURST, late)) == [pytest.approx((0.086 / 11, 0.090 / 11, 0.094 / 11))]
    assert times(ttft(BURST, ClockError(late=1.0)))[0].low == 0.0  # nothing comes before it was asked for


def test_the_kernels_clock_drifts_either_way() -> None:
    drift = ClockError(drift=0.001)
    assert times(ttft(BURST, drift)) == [pytest.approx((0.049, 0.050, 0.051))]
    assert times(e2e_latency(BURST, drift)) == [pytest.approx((0.141, 0.142, 0.143))]
    assert times(chunk_gap(BURST, drift))[0] == pytest.approx((0.029, 0.030, 0.031))


# ------------------------------------------------------------------------------------------------------
# Quantiles


@pytest.mark.parametrize(
    ("ordered", "percent", "found"),
    [
        ([7.0], 99, 7.0),
        ([1.0, 2.0], 50, 1.5),
        ([0.0, 10.0, 20.0], 50, 10.0),
        ([0.0, 10.0, 20.0, 30.0, 40.0], 90, 36.0),
        ([float(n) for n in range(101)], 99, 99.0),
        ([float(n) for n in range(11)], 25, 2.5),
    ],
)
def test_quantiles_are_linear_between_ranks(ordered: list[float], percent: float, found: float) -> None:
    assert quantile(ordered, percent) == pytest.approx(found)


@pytest.mark.parametrize(("n", "known"), [(1, {50}), (9, {50}), (10, {50, 90}), (99, {50, 90}), (100, {50, 90, 99})])
def test_a_percentile_of_few_values_is_the_maximum_in_disguise(n: int, known: set[int]) -> None:
    found = percentiles(Intervals.of(*[Interval(1.0, 1.0, 1.0)] * n))
    assert {percent for percent, one in found.items() if not isinstance(one, Absent)} == known
    for percent in {90, 99} - known:
        assert found[percent] == Absent("too-few-values", {"n": n, "needed": {90: 10, 99: 100}[percent]})


@pytest.mark.parametrize(
    ("one", "does"),
    [
        (Interval(0.951, 1.0, 1.049), True),
        (Interval(0.949, 1.0, 1.0), False),
        (Interval(1.0, 1.0, 1.051), False),
        (Interval(0.0, FLOOR, FLOOR), True),
        (Interval(0.0, 0.0, 2 * FLOOR), False),
    ],
)
def test_a_clock_carries_what_its_bounds_are_near_to(one: Interval, does: bool) -> None:
    assert carried(one) is does
    found = percentiles(Intervals.of(one))[50]
    assert found == (one if does else Absent("clock-cannot-carry", {"low": one.low, "high": one.high}))


def test_the_bounds_of_a_quantile_are_the_quantiles_of_the_bounds() -> None:
    """One of eleven values is known badly: the median does not rest on it, the p90 next to it does."""
    pool = [Interval(float(n), float(n), float(n)) for n in range(1, 11)]
    found = percentiles(Intervals.of(*pool, Interval(1.0, 11.0, 11.0)))
    assert found[50] == Absent("clock-cannot-carry", {"low": 5.0, "high": 6.0})
    wide = percentiles(Intervals.of(*[Interval(1.0, 1.0, 1.0)] * 10, Interval(1.0, 11.0, 11.0)))
    assert wide[50] == Interval(1.0, 1.0, 1.0)


# ------------------------------------------------------------------------------------------------------
# A cell

TOKENS = TokenEvents(at_ns=[50 * MS + 30 * MS * n for n in range(68)], tokens=[1] * 68)


def test_a_cell_pools_its_rounds_and_has_no_mean_of_quantiles(tmp_path: Path) -> None:
    """64 requests of the first round wait 50 ms, 64 of the second one 90 ms; one of the first waits 2 s."""

    def moved(by: int) -> Any:
        return TokenEvents(at_ns=[at + by * MS for at in TOKENS.at_ns], tokens=TOKENS.tokens)

    change = both(
        streamed(TOKENS),
        streamed(moved(40), lambda e: e.round == 2),
        streamed(moved(1950), lambda e: e.round == 1 and e.index == 7),
    )
    record = make_record(tmp_path, streaming, change=change)
    found = quantiles(cell(record, "on", 4), "ttft")
    assert isinstance(found, Quantiles) and found.n == 128 and found.bounded
    known = {percent: one.value for percent, one in found.percentiles.items() if not isinstance(one, Absent)}
    # In order: 63 × 50 ms, 64 × 90 ms, 2 s. The rounds' medians are 50 and 90 ms, and their mean is 70 ms.
    assert known == pytest.approx({50: 0.090, 90: 0.090, 99: 0.090})
    gaps = quantiles(cell(record, "on", 4), "itl")
    assert isinstance(gaps, Quantiles) and gaps.n == 128 * 67


def test_failed_excluded_and_warm_up_requests_are_in_no_quantile(tmp_path: Path) -> None:
    slow = TokenEvents(at_ns=[at + 500 * MS for at in TOKENS.at_ns], tokens=TOKENS.tokens)

    def tolerant(spec: dict[str, Any]) -> None:
        streaming(spec)
        spec["limits"] = {"max-failed": 4}

    change = both(
        streamed(TOKENS),
        streamed(slow, lambda e: e.role == "warm-up"),
        streamed(slow, lambda e: e.index in (9, 10), verdict="truncated"),
    )
    found = quantiles(cell(make_record(tmp_path, tolerant, change=change), "on", 4), "ttft")
    assert isinstance(found, Quantiles) and found.n == 124
    assert all(one == pytest.approx((0.049998, 0.050, 0.050002)) for one in found.percentiles.values())


def test_one_request_that_does_not_tell_leaves_no_quantile(tmp_path: Path) -> None:
    silent = streamed(TokenEvents(at_ns=TOKENS.at_ns, tokens=None), lambda e: e.index == 9)
    record = make_record(tmp_path, streaming, change=both(streamed(TOKENS), silent))
    assert quantiles(cell(record, "on", 4), "itl") == Absent("event-tokens-unknown")
    assert isinstance(quantiles(cell(record, "on", 4), "chunk-gap"), Quantiles)


def test_what_a_cell_cannot_say_has_its_reason(tmp_path: Path) -> None:
    record = make_record(tmp_path)
    for name in OF_TOKENS:
        assert quantiles(cell(record, "on", 4), name) == Absent("not-streamed")
    failing = edit_events(
        RequestDone, lambda e: e.model_copy(update={"verdict": "reset"}), lambda e: e.concurrency == 4 and e.index == 3
    )
    broken = make_record(tmp_path, change=failing)
    assert quantiles(cell(broken, "on", 4), "e2e-latency") == Absent("requests-failed", {"failed": 2, "allowed": 0})


def test_single_events_alone_leave_nothing_to_time(tmp_path: Path) -> None:
    one = streamed(TokenEvents(at_ns=[50 * MS], tokens=[68]))
    record = make_record(tmp_path, streaming, change=one)
    assert quantiles(cell(record, "on", 4), "tpot") == Absent("nothing-to-time")


@pytest.mark.parametrize(
    "unknown",
    [old, client(), edit_events(RequestDone, lambda e: e.model_copy(update={"clock": None}))],
    ids=["old", "unwatched", "no-clock"],
)
def test_a_clock_of_unknown_error_times_whole_requests_and_no_tokens(tmp_path: Path, unknown: Any) -> None:
    record = make_record(tmp_path, streaming, change=both(streamed(TOKENS), unknown))
    for name in OF_TOKENS:
        assert quantiles(cell(record, "on", 4), name) == Absent("clock-unknown")
    whole = quantiles(cell(record, "on", 4), "e2e-latency")
    assert isinstance(whole, Quantiles) and not whole.bounded
    assert whole.percentiles[50] == pytest.approx((1.0, 1.0, 1.0))


def test_the_process_that_lagged_most_is_the_users_clocks_error(tmp_path: Path) -> None:
    """A lag of 19 ms, and the timer's own, is 2 % of a request of a second, and more than half of a gap of 30 ms."""
    user = edit_events(RequestDone, lambda e: e.model_copy(update={"clock": "user"}))
    lag = client(watched(loop_lag_p99_ns=1 * MS), watched(loop_lag_p99_ns=19 * MS))
    record = make_record(tmp_path, streaming, change=both(streamed(TOKENS), user, lag))
    own = cell(record, "on", 4)
    gaps, whole = quantiles(own, "chunk-gap"), quantiles(own, "e2e-latency")
    assert isinstance(gaps, Quantiles) and isinstance(whole, Quantiles)
    lost = gaps.percentiles[50]
    assert isinstance(lost, Absent) and lost.reason == "clock-cannot-carry"
    assert lost.figures == pytest.approx({"low": 0.010, "high": 0.050})
    assert whole.percentiles[50] == pytest.approx((0.980, 1.0, 1.0))
    # The same lag of a client whose bytes the kernel stamps moves no gap; its drift would.
    kernel = make_record(tmp_path, streaming, change=both(streamed(TOKENS), lag))
    exact = quantiles(cell(kernel, "on", 4), "chunk-gap")
    assert isinstance(exact, Quantiles) and exact.percentiles[99] == pytest.approx((0.029998, 0.030, 0.030002))
    drifting = client(watched(drift_ns=1_000), watched(drift_ns=-5 * MS))
    record = make_record(tmp_path, streaming, change=both(streamed(TOKENS), drifting))
    found = quantiles(cell(record, "on", 4), "chunk-gap")
    assert isinstance(found, Quantiles) and isinstance(found.percentiles[50], Absent)


def test_a_round_that_was_over_before_a_timer_fired_does_not_tell_the_users_clocks_error(tmp_path: Path) -> None:
    user = edit_events(RequestDone, lambda e: e.model_copy(update={"clock": "user"}))
    short = client(watched(), watched(loop_lag_p99_ns=None, loop_lag_max_ns=None))
    own = cell(make_record(tmp_path, streaming, change=both(streamed(TOKENS), user, short)), "on", 4)
    assert quantiles(own, "ttft") == Absent("clock-unknown")
    whole = quantiles(own, "e2e-latency")
    assert isinstance(whole, Quantiles) and not whole.bounded
    assert own.client_limit is None
    facts = client_facts(own)
    assert facts is not None and facts.loop_lag == Absent("no-timer")
    # The kernel's clock needs no timer.
    kernel = cell(make_record(tmp_path, streaming, change=both(streamed(TOKENS), short)), "on", 4)
    assert isinstance(quantiles(kernel, "ttft"), Quantiles)


def test_events_that_share_a_read_are_not_carried(tmp_path: Path) -> None:
    """Every second event shares the read of the one behind it: half of the gaps may be anything up to 60 ms."""
    at = [50 * MS + 60 * MS * (number // 2) for number in range(68)]
    bounds = [(number, max(at[number] - 60 * MS, 0)) for number in range(0, 68, 2)]
    joined = TokenEvents(at_ns=at, tokens=[1] * 68, bounds=bounds)
    record = make_record(tmp_path, streaming, change=streamed(joined))
    for name in ("chunk-gap", "itl"):
        found = quantiles(cell(record, "on", 4), name)
        assert isinstance(found, Quantiles)
        assert all(isinstance(one, Absent) for one in found.percentiles.values())
