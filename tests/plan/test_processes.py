"""In how many processes load is sent: asked for, or by the rule."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from spec_files import GOOD, spoil, write

from runner.plan.build import build_plan
from runner.plan.model import Plan, PlannedLoad
from runner.plan.processes import processes
from runner.plan.show import show_plan
from runner.spec.load import load_spec

RULE = PlannedLoad()


@pytest.mark.parametrize(
    ("concurrency", "requests", "cpus", "wanted"),
    [
        (1, 1, 8, 1),
        (256, 1000, 8, 1),
        (257, 1000, 8, 2),
        (512, 1000, 8, 2),
        (513, 1000, 8, 3),
        (1024, 10_000, 64, 4),
        (1024, 10_000, 4, 3),
        (1024, 10_000, 2, 1),
        (1024, 10_000, 1, 1),
        (1024, 10, 64, 1),
        (1024, 300, 64, 2),
    ],
)
def test_the_rule(concurrency: int, requests: int, cpus: int, wanted: int) -> None:
    assert processes(RULE, concurrency, requests, cpus) == wanted


@pytest.mark.parametrize(
    ("asked", "concurrency", "requests", "wanted"),
    [(1, 1024, 10_000, 1), (4, 16, 64, 4), (4, 3, 64, 3), (4, 16, 2, 2), (64, 64, 64, 64)],
)
def test_what_was_asked_for_is_taken_but_for_processes_without_a_slot(
    asked: int, concurrency: int, requests: int, wanted: int
) -> None:
    assert processes(PlannedLoad(processes=asked), concurrency, requests, 2) == wanted


def test_the_plan_has_what_the_spec_says(tmp_path: Path) -> None:
    text = spoil("replicates: 1", "replicates: 1\nload: {connection: per-request, processes: 2}")[0]
    assert build_plan(load_spec(write(tmp_path, text)), "").load == PlannedLoad(connection="per-request", processes=2)
    assert build_plan(load_spec(write(tmp_path, GOOD)), "").load == RULE


def test_a_plan_that_was_written_before_there_was_a_block_keeps_connections(tmp_path: Path) -> None:
    old = json.loads(build_plan(load_spec(write(tmp_path, GOOD)), "").model_dump_json(by_alias=True))
    assert old.pop("load") == {"connection": "keep-alive", "processes": None}
    assert old["limits"].pop("round-seconds") is None
    read = Plan.model_validate_json(json.dumps(old))
    assert (read.load, read.limits.round_seconds) == (RULE, None)


def test_a_limit_of_a_round_is_shown_where_there_is_one(tmp_path: Path) -> None:
    assert "of a round" not in show_plan(build_plan(load_spec(write(tmp_path, GOOD)), ""))
    text = spoil("max-failed: 0", "max-failed: 0\n  round-seconds: 90")[0]
    shown = show_plan(build_plan(load_spec(write(tmp_path, text)), "")).splitlines()
    assert "  nothing more of a round is sent after 90 s" in shown
