"""What may be compared with what: mixes of prompts, phases, controls, windows, and arms of which nothing is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from journals import EFFECTS, SECOND, Change, edit_events, make_record

from runner.analysis.cell import cell
from runner.analysis.comparison import comparison
from runner.analysis.confounding import controls
from runner.analysis.forward import forward_model
from runner.analysis.knee import GridPoint, Knee, find_knee, knee
from runner.analysis.separation import Separation, separation
from runner.analysis.sequential import mean_seconds, statistic
from runner.analysis.value import Absent
from runner.checks.registry import run_checks
from runner.engine import metrics
from runner.record import events


def three_slots(spec: dict[str, Any]) -> None:
    """A third condition, which has the runner and the scheduling of `on` and does not speculate."""
    features = {name: EFFECTS[name] for name in ("async-scheduling", "model-runner")}
    spec["conditions"]["control"] = {"env": {"X": "1"}, "sets": features}


def shown(arm: str, **values: Any) -> Change:
    """Features as the engine of an arm shows them."""
    found = {name: events.FeatureFound(value=value, quote=None, source="log") for name, value in values.items()}
    renamed = {name.replace("_", "-"): value for name, value in found.items()}
    return edit_events(
        events.EvidenceRead,
        lambda event: event.model_copy(update={"features": {**event.features, **renamed}}),
        lambda event: event.arm == arm,
    )


def test_a_control_is_the_baseline_but_for_what_it_shares(tmp_path: Path) -> None:
    like_on = shown("control", async_scheduling="disabled", model_runner="V1")
    record = make_record(tmp_path, three_slots, change=like_on)
    assert [(arm.id, shared) for arm, shared in controls(record, record.plan.arm("on"))] == [
        ("control", ["async-scheduling", "model-runner"])
    ]
    # What nobody shows is not shared, and an arm that speculates too is no control.
    unknown = shown("control", async_scheduling=None, model_runner=None)
    assert controls(make_record(tmp_path, three_slots, change=unknown), record.plan.arm("on")) == []

    def also_on(spec: dict[str, Any]) -> None:
        spec["conditions"]["control"] = {"args": {"spec-method": "ngram", "spec-tokens": 3}, "side-effects": EFFECTS}

    assert controls(make_record(tmp_path, also_on), record.plan.arm("on")) == []


def two_prompts(spec: dict[str, Any]) -> None:
    spec["prompts"]["q"] = {"messages": [{"role": "user", "content": "Something else."}]}


def other_prompt_at_32(spec: dict[str, Any]) -> None:
    two_prompts(spec)
    spec["phases"]["sequential"]["prompts"] = ["p"]
    load = spec["phases"]["load"]
    load["prompts"] = ["p"]
    load["concurrency"] = [4, 16]
    spec["phases"]["other"] = {**load, "concurrency": [32], "prompts": ["q"]}


def slow_at_32(event: events.RequestDone) -> events.RequestDone:
    late = 30 * SECOND
    return event.model_copy(update={"ended_ns": (event.ended_ns or 0) + late})


def test_another_phases_prompts_confirm_nothing(tmp_path: Path) -> None:
    slow = edit_events(
        events.RequestDone, slow_at_32, lambda e: e.arm == "on" and e.concurrency == 32 and e.index == 64
    )
    assert separation(make_record(tmp_path, change=slow), "on", 16) == Separation("overlaps", (32,))
    assert separation(make_record(tmp_path, other_prompt_at_32, change=slow), "on", 16) == Separation("faster")
    assert knee(make_record(tmp_path, other_prompt_at_32), "on") == Absent("phases-differ")


def test_what_would_have_to_confirm_and_is_not_known_leaves_it_open(tmp_path: Path) -> None:
    gone = edit_events(events.RoundFinished, lambda _: None, lambda e: e.arm == "on" and e.concurrency == 32)
    assert separation(make_record(tmp_path, change=gone), "on", 16) == Absent("same-batch-unknown", {"levels": "C=32"})


def test_a_knee_lies_above_every_lower_throughput() -> None:
    grid = [(2, 2.0), (4, 0.842), (8, 1.103), (16, 1.143)]
    assert find_knee([GridPoint(level, rate, 0.0) for level, rate in grid]) == Knee(2, 4)


def test_an_excluded_request_does_not_change_the_mix_of_prompts(tmp_path: Path) -> None:
    """Two prompts in turn, one five times as long: equally fast conditions are equally fast."""

    def timed(journal: list[events.Event]) -> Any:
        for event in journal:
            if isinstance(event, events.RequestDone) and event.concurrency == 1:
                seconds = 1 if event.index % 2 == 0 else 5
                end = (event.sent_ns or 0) + seconds * SECOND
                body = f"{event.body_id}-{event.index % 2}"
                yield event.model_copy(update={"last_byte_ns": end, "ended_ns": end, "body_id": body})
            elif isinstance(event, events.BodySeen):
                yield event
                for number in (0, 1):
                    yield event.model_copy(update={"body_id": f"{event.body_id}-{number}", "prompt": "pq"[number]})
            else:
                yield event

    record = make_record(tmp_path, two_prompts, change=timed)
    assert len(cell(record, "on", 1).rounds[0].ok) == 9
    assert mean_seconds(cell(record, "on", 1)) == mean_seconds(cell(record, "off", 1)) == 3.0
    assert comparison(record, "on", 1).speedup == 1.0
    assert statistic(cell(record, "on", 1), max) == Absent("several-prompts")


def test_the_forward_model_measures_over_the_window_of_its_histograms(tmp_path: Path) -> None:
    """An excluded request that took 3 s more is in both: the model still explains what was measured."""

    def more(event: events.Scraped) -> events.Scraped:
        series = {
            key: value + 3.0 * (key.partition("{")[0] in (metrics.ITL_SUM, metrics.E2E_SUM))
            for key, value in (event.series or {}).items()
        }
        return event.model_copy(update={"series": series})

    slow_first = edit_events(events.Scraped, more, lambda e: (e.arm, e.concurrency, e.moment) == ("on", 1, "after"))
    record = make_record(tmp_path, change=slow_first)
    model = forward_model(cell(record, "off", 1), cell(record, "on", 1))
    assert model.measured_in_window == pytest.approx(20 / 13)
    assert model.with_step_cost == pytest.approx(20 / 13, rel=0.02)
    assert comparison(record, "on", 1).speedup == 2.0
    assert {one.check: str(one.judgement) for one in run_checks(record)}["forward-model"] == "pass"


def test_foreign_requests_do_not_make_a_request_draft_more(tmp_path: Path) -> None:
    def four_more(event: events.Scraped) -> events.Scraped:
        by = {
            metrics.E2E_COUNT: 4,
            metrics.SPEC_DRAFTS: 32,
            metrics.SPEC_DRAFT_TOKENS: 160,
            metrics.SPEC_ACCEPTED_TOKENS: 136,
        }
        series = {key: value + by.get(key.partition("{")[0], 0) for key, value in (event.series or {}).items()}
        return event.model_copy(update={"series": series})

    foreign = edit_events(events.Scraped, four_more, lambda e: (e.arm, e.concurrency, e.moment) == ("on", 1, "after"))
    record = make_record(tmp_path, change=foreign)
    model = forward_model(cell(record, "off", 1), cell(record, "on", 1))
    assert (model.requests, model.drafts, model.accepted, model.predicted) == (14.0, 8.0, 34.0, 2.0)


def test_of_an_arm_that_never_ran_nothing_is_said(tmp_path: Path) -> None:
    def dead(journal: list[events.Event]) -> Any:
        return [event for event in journal if not (isinstance(event, events.OfLaunch) and event.arm == "on")]

    judged = {one.check: str(one.judgement) for one in run_checks(make_record(tmp_path, change=dead))}
    for name in ("acceptance-constant", "positions-add-up", "forward-model", "latency-cross-check"):
        assert judged[name] == "inconclusive", name


def test_a_baseline_that_speculates_has_a_reason_of_its_own(tmp_path: Path) -> None:
    record = make_record(tmp_path, lambda spec: spec.update({"baseline": "on"}))
    [result] = [one for one in run_checks(record) if one.check == "forward-model"]
    assert [(str(one.judgement), one.reason) for one in result.findings] == [("not-applicable", "baseline-speculates")]


def test_a_grid_of_1_has_nothing_to_judge_under_load(tmp_path: Path) -> None:
    record = make_record(tmp_path, lambda spec: spec["phases"].pop("load"))
    judged = {one.check: {finding.reason for finding in one.findings} for one in run_checks(record)}
    for name in ("latency-cross-check", "spread-below-effect", "memory-per-running"):
        assert judged[name] == {"only-sequential"}, name
