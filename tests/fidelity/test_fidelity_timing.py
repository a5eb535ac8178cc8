"""Step times against the recordings, all in virtual time: what is committed is what the command makes and finds."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import fidelity_timing
import fit_step_time
import pytest
import recorded_rounds
from closed_loop import Outcome, Request
from recorded_rounds import Arm, Cell, Series
from step_time_judgement import Level, Model, Ratio, exceptions, levels, ratios, report

from runner.simulator import profile
from runner.simulator.scheduler import Limits
from runner.simulator.step_time import StepTime

RECORDINGS = Path(__file__).parents[1] / "recordings"
JUDGED = [name for name, source in fit_step_time.SOURCES.items() if source.judged]
ANY = StepTime(0.018, 0.0, 0.0, 0.0)


def held_out(name: str) -> Series:
    judged = fit_step_time.SOURCES[name].judged
    assert judged is not None
    return judged()


def stored(name: str) -> Model:
    return Model.of(profile.load(name).step_time)


@pytest.mark.parametrize("name", profile.PROFILES)
def test_the_stored_step_times_are_what_the_command_makes(name: str) -> None:
    assert profile.load(name).step_time == fit_step_time.fit(name)


def test_fitted_and_judged_recordings_are_not_the_same() -> None:
    assert set(fit_step_time.SOURCES) == set(profile.PROFILES)
    sources = {
        name: (source.series().source, source.judged and source.judged().source)
        for name, source in fit_step_time.SOURCES.items()
    }
    assert sources == {
        "article": ("benchmarks/article_figures.yaml", None),
        "h200": ("tests/recordings/h200", "tests/recordings/h200-b2048"),
        "cpu": ("tests/recordings/cpu/0.32.0-cpu-tiny", "tests/recordings/cpu/0.26.0-cpu-tiny"),
    }


@pytest.mark.parametrize("name", JUDGED)
def test_held_out_ratios_are_within_tolerance_but_for_the_stated_exceptions(name: str) -> None:
    series = held_out(name)
    judged = ratios(levels(series, stored(name)))
    outside = {ratio.subject for ratio in judged if not ratio.within}
    assert outside == set(exceptions(series.source))
    assert all(exceptions(series.source).values())
    assert len(judged) == len({ratio.subject for ratio in judged})


@pytest.mark.parametrize(("name", "arms", "clients"), [("h200", 4, 4), ("cpu", 2, 3)])
def test_every_arm_and_concurrency_is_judged(name: str, arms: int, clients: int) -> None:
    judged = levels(held_out(name), stored(name))
    assert len(judged) == arms * clients
    assert len(ratios(judged)) == 2 * ((arms - 1) * clients + arms * (clients - 1))


@pytest.mark.parametrize("name", JUDGED)
def test_the_command_prints_both_tolerances_of_every_ratio(name: str) -> None:
    series = held_out(name)
    judged = ratios(levels(series, stored(name)))
    text = report(series, stored(name))
    lines = re.findall(
        r"^  (.+?) +[\d.]+ -> +[\d.]+ +([+-][\d.]+)% \(5\.0 %, (.+?)\) (within|OUTSIDE: .+)$", text, re.M
    )
    assert [subject for subject, *_ in lines] == [ratio.subject for ratio in judged]
    for ratio, (_, error, spread, verdict) in zip(judged, lines, strict=True):
        assert float(error) == pytest.approx(100 * ratio.error, abs=0.051)
        assert spread == ("not known" if ratio.spread is None else f"{100 * ratio.spread:.1f} %")
        assert (verdict == "within") is ratio.within
    assert "no reason is stated" not in text


def test_a_level_that_drifts_is_no_error_but_a_ratio_that_does_is() -> None:
    series = held_out("h200")
    slower = json.loads(json.dumps(stored("h200").parameters))
    for step in slower["a"]:
        slower["a"][step] *= 2
    slower["d"] *= 2
    drifted = Model(slower, 2 * stored("h200").turnaround)
    outside = {ratio.subject for ratio in ratios(levels(series, drifted)) if not ratio.within}
    assert outside == set(exceptions(series.source))
    slower["a"]["V2 async"] *= 1.3
    outside = {ratio.subject for ratio in ratios(levels(series, drifted)) if not ratio.within}
    assert "on / off at C=1, throughput" in outside - set(exceptions(series.source))


def cell(clients: int, throughputs: tuple[float, ...], latencies: tuple[float, ...], arm: str = "off") -> Cell:
    return Cell(Arm(arm, "V2 async", Limits(16, 2048, 4096)), clients, (), throughputs, latencies)


def test_the_spread_is_the_larger_one_and_one_round_has_none() -> None:
    assert Level(cell(4, (9.0, 10.0, 11.0), (1.0, 1.1)), 0, 0, 1).spread == pytest.approx(0.2)
    assert Level(cell(4, (10.0, 10.5), (1.0, 1.5)), 0, 0, 1).spread == pytest.approx(0.4)
    assert Level(cell(1, (10.0,), (1.0,)), 0, 0, 1).spread is None
    found = ratios(
        [
            Level(cell(1, (1.0,), (1.0,)), 1.0, 1.0, 1),
            Level(cell(4, (3.6, 4.4), (1.0, 1.0)), 4.0, 1.0, 1),
            Level(cell(1, (2.0,), (0.5,), "on"), 2.2, 0.5, 1),
            Level(cell(4, (8.0, 8.8), (0.5, 0.5), "on"), 8.4, 0.5, 1),
        ]
    )
    by_subject = {ratio.subject: ratio for ratio in found}
    alone = by_subject["on / off at C=1, throughput"]
    assert (alone.spread, alone.tolerance, alone.within) == (None, 0.05, False)
    assert alone.error == pytest.approx(0.1)
    assert by_subject["on / off at C=4, throughput"].spread == pytest.approx(0.2)  # off's, not the sum
    assert by_subject["C=4 / C=1 of on, latency"].spread == pytest.approx(0.8 / 8.4)


@pytest.mark.parametrize(
    ("embedded", "spread", "within"),
    [(1.04, None, True), (0.96, None, True), (1.06, None, False), (0.94, 0.01, False), (1.06, 0.07, True)],
)
def test_within_is_five_percent_or_the_spread(embedded: float, spread: float | None, within: bool) -> None:
    assert Ratio("any", 1.0, embedded, spread).within is within


def test_the_other_processes_throughputs_are_read_from_the_readme() -> None:
    rounds = {(one.arm.name, one.clients): one for one in held_out("h200").cells}
    assert rounds["off", 16].throughputs[2:] == (14.5, 15.4)
    assert rounds["on", 32].throughputs[2:] == (22.6, 21.3)
    assert rounds["on", 1].throughputs[1:] == (1.56,)
    assert len(rounds["off-v1-async", 16].throughputs) == len(rounds["off-v1-noasync", 4].throughputs) == 2
    # The README's columns of the processes that are here agree with their timings to its few digits.
    text = (RECORDINGS / "h200-b2048" / "README.md").read_text("utf-8")
    columns = recorded_rounds.readme_throughputs(text)
    for column, arm in (
        ("off a", "off"),
        ("on a", "on"),
        ("V1 async", "off-v1-async"),
        ("V1 no async", "off-v1-noasync"),
    ):
        for clients, printed in columns[column].items():
            assert printed == pytest.approx(rounds[arm, clients].throughputs[: len(printed)], rel=0.01)


def counted(folder: Path, cell_name: str) -> tuple[int, int, int]:
    """Drafts, draft tokens and accepted tokens that a cell added to vLLM's counters."""
    counts = []
    for side in ("before", "after"):
        text = (folder / f"{cell_name}-{side}.prom").read_text("utf-8")
        names = ("num_drafts", "num_draft_tokens", "num_accepted_tokens")
        found = [re.search(rf"^vllm:spec_decode_{name}_total\{{.*\}} (\S+)$", text, re.M) for name in names]
        counts.append([float(one[1]) for one in found if one])
    return tuple(int(after - before) for before, after in zip(*counts, strict=True))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("series", "arm", "metrics"),
    [("h200", "q3b-on", "h200/q3b-on/metrics"), ("h200_b2048", "on", "h200-b2048/on-a/metrics")],
)
def test_the_loops_on_the_h200_draft_as_recorded(series: str, arm: str, metrics: str) -> None:
    for one in getattr(recorded_rounds, series)().cells:
        if one.arm.name == arm:
            played = one.play(ANY, 0.0025)
            name = ("c1-kr" if series == "h200" else "c1-r1") if one.clients == 1 else f"c{one.clients}-r1"
            assert (played.drafts, played.draft_tokens, played.accepted) == counted(RECORDINGS / metrics, name)


@pytest.mark.parametrize("version", ["0.32.0", "0.26.0"])
def test_the_loops_on_the_cpu_draft_and_step_as_recorded(version: str) -> None:
    for one in recorded_rounds.cpu(version).cells:
        summary: Any = json.loads(
            (RECORDINGS / "cpu" / f"{version}-cpu-tiny" / one.arm.name / "summary.json").read_text("utf-8")
        )
        measured = summary[f"c{one.clients}"]
        delta = measured["metrics_delta"]
        played: Outcome = one.play(ANY, 0.01)
        assert played.drafts == delta["vllm:spec_decode_num_drafts_total"]
        assert played.draft_tokens == delta["vllm:spec_decode_num_draft_tokens_total"]
        # Accepted tokens beyond a request's end save no step; the stand-in has those that do.
        assert played.accepted == measured["completion_tokens"] - one_per_step(measured)
        # Steps at a concurrency above 1 did not repeat between real runs either.
        assert played.steps == pytest.approx(measured["steps"], rel=0 if one.clients == 1 else 0.02)


def one_per_step(measured: Any) -> int:
    """Steps of all requests: one inter-token sample each, but for the first."""
    return int(measured["metrics_delta"]["vllm:inter_token_latency_seconds_count"]) + int(measured["requests"])


def test_rows_cover_every_cell_and_ratio() -> None:
    rows = fidelity_timing.rows()
    assert len({(row.recording, row.subject) for row in rows}) == len(rows)
    for name, source in fit_step_time.SOURCES.items():
        mine = [row for row in rows if row.subject.startswith(f"profile {name}")]
        fitted = [row for row in mine if ", fitted: " in row.subject]
        assert len(fitted) == len(source.series().cells)
        if source.judged:
            judged = levels(held_out(name), stored(name))
            verdicts = [row.verdict.split()[0] for row in mine if row.verdict.startswith(("within", "outside"))]
            assert verdicts == ["within" if ratio.within else "outside" for ratio in ratios(judged)]
            assert sum("not judged" in row.subject for row in mine) == len(judged)
    assert all(row.recorded and row.embedded and row.verdict for row in rows)


def test_a_request_is_its_prompt_and_its_output() -> None:
    for series in (recorded_rounds.h200(), held_out("h200")):
        request: Request = series.cells[0].requests[0]
        assert len(request.prompt) == (73 if series.source.endswith("h200") else 92)
        assert request.max_tokens == 68
