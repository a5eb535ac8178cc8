"""The step time's file, its formula, and what follows from it for the published measurement, in virtual time."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from runner.simulator import profile, step_time

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def fit() -> Any:
    spec = importlib.util.spec_from_file_location("fit_step_time", BENCHMARKS / "fit_step_time.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["fit_step_time"] = module
    spec.loader.exec_module(module)
    return module


def stored() -> dict[str, Any]:
    return dict(profile.load("article").step_time)


def test_formula() -> None:
    parameters = stored()["parameters"]
    drafting = step_time.of(stored(), runner="V1", asynchronous=False, proposes_on_cpu=True)
    plain = step_time.of(stored(), runner="V1", asynchronous=False, proposes_on_cpu=False)
    assert drafting.seconds(12, 3) == pytest.approx(
        parameters["a"]["V1 sync"] + 12 * parameters["b"] + 3 * (parameters["c"] + parameters["d"])
    )
    assert drafting.seconds(12, 3) - plain.seconds(12, 3) == pytest.approx(3 * parameters["d"])


def test_stored_file_is_what_the_script_makes(fit: Any) -> None:
    assert stored() == fit.fit()


def test_published_throughput_follows_within_two_percent(fit: Any) -> None:
    for row in stored()["requests_per_second"]:
        assert abs(row["percent"]) < 2, row


def test_throughput_saturates_at_max_num_seqs() -> None:
    rates = {(row["arm"], row["concurrency"]): row["model"] for row in stored()["requests_per_second"]}
    for arm in ("off", "on"):
        assert rates[arm, 16] > 3 * rates[arm, 4]
        assert rates[arm, 32] < 1.05 * rates[arm, 16]
