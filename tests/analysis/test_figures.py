"""Figures of the made-up run, against values worked out by hand (tests/support/journals.py says what it does)."""

from pathlib import Path
from typing import Any

import pytest
from journals import LATENCY, SECOND, Change, edit_events, make_record, without_series

from runner.analysis.acceptance import accepted_per_position, drafting, speculates, tokens_per_decode_step
from runner.analysis.cell import cell, surplus
from runner.analysis.comparison import comparison
from runner.analysis.confounding import confounders, side_effects
from runner.analysis.gauges import Spread, gauge, steady_samples, waiting_reasons
from runner.analysis.knee import GridPoint, Knee, find_knee
from runner.analysis.value import Absent, combine, mean, ratio
from runner.analysis.wall import wall_seconds
from runner.engine import metrics
from runner.record import events

# 64 requests, min(C, 16) slots, one wave per request time.
WAVES = {4: 16, 16: 4, 32: 4}


@pytest.mark.parametrize("arm", ["off", "on"])
@pytest.mark.parametrize("level", [4, 16, 32])
def test_wall_throughput_and_latency_of_a_load_cell(tmp_path: Path, arm: str, level: int) -> None:
    one = cell(make_record(tmp_path), arm, level)
    assert one.wall == pytest.approx(WAVES[level] * LATENCY[arm])
    assert one.throughput == pytest.approx(64 / (WAVES[level] * LATENCY[arm]))
    assert one.mean_latency == pytest.approx(LATENCY[arm] * (2 if level == 32 else 1))


def test_at_concurrency_1_the_excluded_request_is_outside(tmp_path: Path) -> None:
    first_slow = edit_events(
        events.RequestDone,
        lambda e: e.model_copy(update={"last_byte_ns": e.sent_ns + SECOND * 4 // 5}),
        lambda e: e.role == "excluded",
    )
    one = cell(make_record(tmp_path, change=first_slow), "on", 1)
    assert one.wall == pytest.approx(9 * LATENCY["on"])
    assert one.throughput == pytest.approx(1 / LATENCY["on"])
    assert one.mean_latency == pytest.approx(LATENCY["on"])
    assert len(one.latencies) == 9


def test_failed_requests_are_not_fast_ones(tmp_path: Path) -> None:
    """Half of the requests fail at once: the rate halves, the time they took stays, the ratio is void."""
    failing = edit_events(
        events.RequestDone,
        lambda e: e.model_copy(update={"verdict": "http-error", "last_byte_ns": e.sent_ns + 1}),
        lambda e: e.arm == "on" and e.concurrency == 4 and e.role == "measured" and e.index % 2,
    )
    record = make_record(tmp_path, change=failing)
    one = cell(record, "on", 4)
    assert one.throughput == pytest.approx(32 / (16 * LATENCY["on"]))
    assert isinstance(one.incomplete, Absent) and one.incomplete.figures == {"failed": 64, "allowed": 0}
    assert comparison(record, "on", 4).throughput_ratio == one.incomplete
    assert comparison(record, "on", 16).throughput_ratio == pytest.approx(2.0)


def test_ratios_are_of_unrounded_means(tmp_path: Path) -> None:
    pair = comparison(make_record(tmp_path), "on", 4)
    assert pair.throughput_ratio == pytest.approx(2.0)
    assert pair.latency_ratio == pytest.approx(2.0)
    assert pair.lowest_ratio("throughput") == pytest.approx(2.0)


def test_a_missing_round_is_not_averaged_over(tmp_path: Path) -> None:
    gone = edit_events(events.RoundFinished, lambda _: None, lambda e: (e.arm, e.concurrency, e.round) == ("on", 16, 2))
    one = cell(make_record(tmp_path, change=gone), "on", 16)
    assert one.throughput == Absent("rounds-missing", {"done": 1, "planned": 2})
    assert one.incomplete == Absent("rounds-missing", {"done": 1, "planned": 2})


def test_counters_of_speculation(tmp_path: Path) -> None:
    record = make_record(tmp_path)
    one = cell(record, "on", 1)
    counted = drafting(one.rounds)
    assert (counted.drafts, counted.draft_tokens, counted.accepted) == (80, 400, 340)
    assert (counted.rate, counted.accepted_per_draft, counted.tokens_per_draft) == (0.85, 4.25, 5)
    assert accepted_per_position(one.rounds) == {0: 70, 1: 70, 2: 70, 3: 70, 4: 60}
    # 10 requests of 68 tokens, one of them the first, in 33 decode steps each.
    assert tokens_per_decode_step(one.rounds) == pytest.approx((680 - 10) / 330)
    off = drafting(cell(record, "off", 1).rounds)
    assert isinstance(off.drafts, Absent) and isinstance(off.rate, Absent)


def test_nothing_drafted_has_no_rate(tmp_path: Path) -> None:
    flat = edit_events(
        events.Scraped,
        lambda e: e.model_copy(
            update={"series": {key: 0.0 if "spec_decode" in key else v for key, v in e.series.items()}}
        ),
    )
    counted = drafting(cell(make_record(tmp_path, change=flat), "on", 4).rounds)
    assert counted.drafts == 0 and counted.rate == Absent("no-drafts") == counted.accepted_per_draft


@pytest.mark.parametrize(("by", "found"), [(4.0, 4.0), (0.0, 0.0), (-2.0, -2.0)])
def test_the_surplus_of_a_round(tmp_path: Path, by: float, found: float) -> None:
    def moved(event: events.Scraped) -> events.Scraped:
        series = {k: v + by * k.startswith(metrics.E2E_COUNT) for k, v in (event.series or {}).items()}
        return event.model_copy(update={"series": series})

    def where(e: Any) -> Any:
        return (e.arm, e.concurrency, e.round, e.moment) == ("on", 4, 2, "after")

    one = cell(make_record(tmp_path, change=edit_events(events.Scraped, moved, where)), "on", 4)
    assert [surplus(round_, one.phase) for round_ in one.rounds] == [0.0, found]
    assert [round_.number for round_ in one.contaminated] == ([2] if found > 0 else [])


def test_ramp_down_samples_are_kept_apart(tmp_path: Path) -> None:
    record = make_record(tmp_path)
    [first, _] = cell(record, "off", 32).rounds
    late = first.samples[0].model_copy(update={"at_ns": 10**18, "running": 1.0, "waiting": 0.0})
    first.samples.append(late)
    assert late in first.samples and late not in steady_samples(first)
    assert gauge([first], lambda sample: sample.waiting) == Spread(16, 16, 16, 12)
    assert waiting_reasons([first]) == ["capacity"]


@pytest.mark.parametrize(("kept", "enough"), [(10, True), (9, False)])
def test_ten_samples_are_enough(tmp_path: Path, kept: int, enough: bool) -> None:
    [first, _] = cell(make_record(tmp_path), "off", 4).rounds
    del first.samples[kept:]
    found = gauge([first], lambda sample: sample.running)
    assert found == (Spread(4, 4, 4, 10) if enough else Absent("too-few-samples", {"n": 9, "needed": 10}))


def test_each_round_needs_its_own_samples(tmp_path: Path) -> None:
    [first, second] = cell(make_record(tmp_path), "off", 4).rounds
    del second.samples[5:]
    assert isinstance(gauge([first, second], lambda sample: sample.running), Absent)


def test_samples_that_failed_say_why(tmp_path: Path) -> None:
    failed = edit_events(
        events.Sampled, lambda e: e.model_copy(update={"running": None, "waiting": None, "error": "HTTP 500"})
    )
    one = cell(make_record(tmp_path, change=failed), "off", 4)
    assert gauge(one.rounds, lambda sample: sample.waiting) == Absent("scrapes-failed", {"why": "HTTP 500"})


def points(*values: tuple[int, float | None, float | None]) -> list[GridPoint]:
    absent = Absent("not-measured")
    return [
        GridPoint(level, absent if rate is None else rate, absent if waiting is None else waiting)
        for level, rate, waiting in values
    ]


@pytest.mark.parametrize(
    ("grid", "found"),
    [
        ([(1, 1, 0), (4, 4, 0), (8, 4.1, 4)], Knee(4, 8)),
        ([(1, 1, 0), (4, 4, 0), (8, 8, 0), (16, 8.1, 8)], Knee(8, 16)),
        ([(1, 1, 0), (4, 4, 0), (8, 7.9, 0)], Absent("knee-not-reached", {"highest": 8})),
        ([(4, 4, 0), (8, 8, 3)], Knee(4, 8)),  # throughput still grows, but a queue stands
        ([(4, 4, None), (8, 4.1, None)], Knee(4, 8)),  # an unknown queue leaves it to the throughput
        ([(8, 8.1, 4), (4, 4, 0), (1, 1, 0)], Knee(4, 8)),  # in any order of the spec
        ([(1, 1, 0), (4, 1.09, 0)], Knee(1, 4)),  # 9 % more is not material
        ([(32, 8, 16), (64, 8, 48)], Absent("knee-below-grid", {"lowest": 32})),
        ([(1, 1, 0), (4, 1.11, 0)], Absent("knee-not-reached", {"highest": 4})),
        ([(4, 4, 0), (16, 4.2, 0), (32, 20, 0)], Absent("knee-not-reached", {"highest": 32})),
        ([(4, 4, 0), (16, 4.2, 0), (32, 20, 0), (64, 20, 32)], Knee(32, 64)),  # a dip is not the knee
        ([(4, 4, 0), (16, 16, None), (32, 16, 16)], Absent("queue-unknown", {"concurrency": 16})),
        ([(1, 1, 0), (4, None, 0), (8, 1, 0)], Absent("not-measured")),
        ([(4, 4, 0)], Absent("knee-not-reached", {"highest": 4})),
    ],
)
def test_the_knee(grid: list[tuple[int, float | None, float | None]], found: Knee | Absent) -> None:
    assert find_knee(points(*grid)) == found


def test_side_effects_by_status(tmp_path: Path) -> None:
    record = make_record(tmp_path)
    arm = record.plan.arm("on")
    assert {one.feature: one.status for one in side_effects(record, arm)} == {
        "async-scheduling": "declared",
        "model-runner": "declared",
        "unsupported-sampling": "declared",
    }


def test_what_the_baseline_has_too_does_not_confound(tmp_path: Path) -> None:
    def same_runner(event: events.EvidenceRead) -> events.EvidenceRead:
        feature = events.FeatureFound(value="V1", quote=None, source="log")
        return event.model_copy(update={"features": {**event.features, "model-runner": feature}})

    record = make_record(tmp_path, change=edit_events(events.EvidenceRead, same_runner))
    arm = record.plan.arm("on")
    assert {one.feature: one.status for one in side_effects(record, arm)}["model-runner"] == "no-difference"
    assert "model-runner" not in [one.feature for one in confounders(record, arm)]


def test_an_absent_series_is_absent_in_every_figure_that_needs_it(tmp_path: Path) -> None:
    one = cell(make_record(tmp_path, change=without_series(metrics.E2E_SUM)), "off", 4)
    assert one.mean_latency == Absent("series-absent", {"name": metrics.E2E_SUM})
    assert isinstance(one.throughput, float)
    assert isinstance(wall_seconds(one.rounds[0]), float)


def test_arithmetic_with_absent_values() -> None:
    gone = Absent("not-measured")
    assert mean([1.0, 2.0]) == 1.5 and mean([1.0, gone]) is gone and mean([]) == gone
    assert ratio(1.0, 0.0) == Absent("division-by-zero")
    assert ratio(gone, 0.0) is gone and combine(max, 1.0, gone) is gone


def some(verdict: str, ended: int) -> Change:
    """The last four of `on` C=4 round 1 fail, and end when they end."""
    return edit_events(
        events.RequestDone,
        lambda e: e.model_copy(
            update={"verdict": verdict, "last_byte_ns": None, "ended_ns": e.sent_ns + ended * SECOND}
        ),
        lambda e: (e.arm, e.concurrency, e.round) == ("on", 4, 1) and e.index >= 61,
    )


def tolerant(spec: dict[str, Any]) -> None:
    spec["limits"] = {"max-failed": 4}


def test_the_time_of_failed_requests_is_not_given_back(tmp_path: Path) -> None:
    [first, _] = cell(make_record(tmp_path, tolerant, change=some("timed-out", 30)), "on", 4).rounds
    assert wall_seconds(first) == pytest.approx(15 * LATENCY["on"] + 30)


def test_a_histogram_that_may_hold_failed_requests_is_no_mean(tmp_path: Path) -> None:
    one = cell(make_record(tmp_path, tolerant, change=some("empty", 1)), "on", 4)
    assert one.incomplete is None
    assert one.mean_latency == Absent("failed-in-window")
    assert isinstance(one.throughput, float)


def test_a_speculating_engine_without_its_series_still_speculates(tmp_path: Path) -> None:
    bare = without_series(metrics.SPEC_DRAFTS)
    record = make_record(tmp_path, change=bare)
    assert speculates(record, "on") and not speculates(record, "off")


def test_at_concurrency_1_the_speed_up_is_of_latencies(tmp_path: Path) -> None:
    pause = edit_events(  # the client pauses a second between requests: no doing of the engine's
        events.RequestDone,
        lambda e: e.model_copy(
            update={name: getattr(e, name) + e.index * SECOND for name in ("sent_ns", "last_byte_ns", "ended_ns")}
        ),
        lambda e: e.arm == "on" and e.concurrency == 1,
    )
    pair = comparison(make_record(tmp_path, change=pause), "on", 1)
    assert pair.speedup == pytest.approx(2.0)
    assert isinstance(pair.throughput_ratio, float) and pair.throughput_ratio < 1.2


def test_declared_side_effects_that_are_there_confound(tmp_path: Path) -> None:
    record = make_record(tmp_path)
    found = [one.feature for one in confounders(record, record.plan.arm("on"))]
    assert found == ["async-scheduling", "model-runner", "unsupported-sampling"]


def test_a_declared_side_effect_that_nothing_shows_may_confound(tmp_path: Path) -> None:
    def hide(event: events.EvidenceRead) -> events.EvidenceRead:
        unseen = events.FeatureFound(value=None, quote=None, source=None)
        return event.model_copy(update={"features": {**event.features, "model-runner": unseen}})

    record = make_record(tmp_path, change=edit_events(events.EvidenceRead, hide, lambda e: e.arm == "on"))
    assert "model-runner" in [one.feature for one in confounders(record, record.plan.arm("on"))]


def test_a_request_whose_end_was_not_seen_makes_no_shorter_wall(tmp_path: Path) -> None:
    lost = edit_events(
        events.RequestDone,
        lambda e: e.model_copy(update={"ended_ns": None}),
        lambda e: (e.arm, e.concurrency, e.index) == ("on", 4, 64),
    )
    assert wall_seconds(cell(make_record(tmp_path, change=lost), "on", 4).rounds[0]) == Absent("interrupted")
