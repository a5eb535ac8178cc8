"""The step time's formula, and what the article's profile gives for the published measurement, in virtual time.

That the stored files are what the command makes is held in tests/fidelity, with the judgement of each profile.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from fit_step_time import solve
from recorded_rounds import Arm, Cell, Series, article
from step_time_judgement import Model, levels

from runner.simulator import profile, step_time
from runner.simulator.step_time import StepTime


def stored(name: str = "article") -> dict[str, Any]:
    return dict(profile.load(name).step_time)


@pytest.mark.parametrize("name", profile.PROFILES)
def test_formula(name: str) -> None:
    parameters = stored(name)["parameters"]
    drafting = step_time.of(stored(name), runner="V1", asynchronous=False, proposes_on_cpu=True)
    plain = step_time.of(stored(name), runner="V1", asynchronous=False, proposes_on_cpu=False)
    assert drafting.seconds(12, 3) == pytest.approx(
        parameters["a"]["V1 sync"] + 12 * parameters["b"] + 3 * (parameters["c"] + parameters["d"]) + parameters["e"]
    )
    assert drafting.seconds(12, 3) - plain.seconds(12, 3) == pytest.approx(parameters["e"] + 3 * parameters["d"])


@pytest.mark.parametrize("name", profile.PROFILES)
@pytest.mark.parametrize("runner", ["V1", "V2"])
@pytest.mark.parametrize("asynchronous", [True, False])
def test_every_kind_of_engine_takes_time(name: str, runner: str, asynchronous: bool) -> None:
    timing = step_time.of(stored(name), runner=runner, asynchronous=asynchronous, proposes_on_cpu=False)
    row = f"{runner} {'async' if asynchronous else 'sync'}"
    assert timing.seconds(0, 0) == stored(name)["parameters"]["a"][row] > 0


@pytest.mark.parametrize("known", [(0.03, 0.02, 1e-4, 0.0, 3e-4), (0.01, 0.02, 0.0, 5e-4, 2e-4), (0.02, 0.03, 0, 0, 0)])
def test_the_fit_gives_back_the_rounds_that_it_was_given(known: tuple[float, ...]) -> None:
    """Rounds made by known step times; which of b, c, d carries the cost of a request cannot always be told."""
    off, on, b, c, d = known
    cells = []
    for cell in article().cells:
        arm: Arm = cell.arm
        timing = StepTime(on if arm.drafts else off, b, c, d if arm.drafts else 0.0)
        wall = cell.play(timing, 0.002).wall
        cells.append(Cell(arm, cell.clients, cell.requests, (len(cell.requests) / wall,), ()))
    found = solve(Series("made here", cells, 0.002), drafts_apart=False)
    assert found.steps == ["V2 async", "V1 sync"]
    assert found.values[:2] == pytest.approx([off, on], rel=1e-3)
    for cell in cells:
        wall = cell.play(found.of(cell.arm), 0.002).wall
        assert len(cell.requests) / wall == pytest.approx(cell.throughput, rel=1e-3)


def test_what_drafts_cost_is_told_apart_where_one_kind_of_engine_ran_with_and_without_them() -> None:
    cells = []
    for cell in article().cells:
        arm = replace(cell.arm, step="V1 sync")
        timing = StepTime(0.02 + 0.005 * arm.drafts, 1e-4, 0.0, 2e-4 * arm.drafts)
        wall = cell.play(timing, 0.002).wall
        cells.append(Cell(arm, cell.clients, cell.requests, (len(cell.requests) / wall,), ()))
    found = solve(Series("made here", cells, 0.002), drafts_apart=True)
    assert found.steps == ["V1 sync"]
    assert (found.values[0], found.values[-1]) == pytest.approx((0.02, 0.005), rel=1e-2)


def test_published_throughput_follows_within_two_percent() -> None:
    for row in stored()["requests_per_second"]:
        assert abs(row["percent"]) < 2, row
    for level in levels(article(), Model.of(stored())):
        assert level.throughput == pytest.approx(level.cell.throughput, rel=0.02)


def test_published_throughput_is_the_one_that_is_fitted() -> None:
    measured = {(row["arm"], row["concurrency"]): row["measured"] for row in stored()["requests_per_second"]}
    assert measured["off", 16] == 6.327
    assert measured["on", 32] == 11.412
    assert measured["off", 1] == round(1 / 2.392, 3)
    assert len(measured) == 8
    bounds = [cell.arm.limits for cell in article().cells]
    assert {(one.max_num_seqs, one.max_num_scheduled_tokens, one.max_model_len) for one in bounds} == {(16, 2048, 4096)}
    assert {one.drafting.tokens for one in bounds if one.drafting} == {5}


def test_throughput_saturates_at_max_num_seqs() -> None:
    rates = {(row["arm"], row["concurrency"]): row["model"] for row in stored()["requests_per_second"]}
    for arm in ("off", "on"):
        assert rates[arm, 16] > 3 * rates[arm, 4]
        assert rates[arm, 32] < 1.05 * rates[arm, 16]


@pytest.mark.parametrize("name", profile.PROFILES)
def test_a_stored_file_says_how_it_was_made(name: str) -> None:
    document = stored(name)
    assert document["made_by"] == f"benchmarks/fit_step_time.py {name}"
    assert document["assumed"]
    assert set(document["parameters"]["a"]) == {"V2 async", "V1 async", "V2 sync", "V1 sync"}
    assert json.dumps(document["parameters"]) not in [
        json.dumps(stored(other)["parameters"]) for other in profile.PROFILES if other != name
    ]
