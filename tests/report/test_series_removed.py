"""A raw series that is not there turns the cells and checks that need it absent or inconclusive, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from journals import Change, edit_events, make_events, make_plan, make_record, without_series

from runner.checks.finding import Judgement
from runner.checks.registry import run_checks
from runner.engine import metrics
from runner.record import events
from runner.record.record import Record
from runner.report.table import TABLES, Source, Table, load_tables
from runner.report.words import Words
from runner.spec.tables import TABLE_IDS

LATENCY = {"rounds", "derived", "cross-check", "off-on", "speedup", "saturation", "saturation-change"}
TABLES_OF: Mapping[str, tuple[set[str], set[str]]] = {
    # A series, and the tables and the checks that need it.
    metrics.E2E_COUNT: (
        {
            *LATENCY,
            "round-counts",
            "operating-point",
            "acceptance-by-concurrency",
            "draft-counters",  # what a request drafted
            "forward-model",
        },
        {"request-count", "latency-cross-check", "forward-model"},
    ),
    metrics.E2E_SUM: (
        {*LATENCY, "round-counts", "operating-point", "forward-model"},
        {"latency-cross-check", "forward-model"},
    ),
    metrics.REQUEST_SUCCESS: (set(), set()),
    metrics.TTFT_COUNT: ({"forward-model"}, {"forward-model"}),
    metrics.ITL_COUNT: ({"forward-model"}, {"forward-model"}),
    metrics.ITL_SUM: ({"forward-model"}, {"forward-model"}),
    metrics.GENERATION_TOKENS: ({"forward-model"}, {"forward-model"}),
    metrics.PREFIX_CACHE_QUERIES: (set(), {"same-prefix-hits"}),
    metrics.PREFIX_CACHE_HITS: (set(), {"same-prefix-hits"}),
    metrics.RUNNING: (set(), set()),  # of scrapes between rounds; the load's gauges are the samples
    metrics.WAITING: (set(), set()),
    metrics.PROCESS_START: (set(), {"one-engine-process"}),
    metrics.SPEC_DRAFTS: (
        {"draft-counters", "acceptance-positions", "acceptance-distribution", "forward-model"},
        set(),
    ),
    metrics.SPEC_DRAFT_TOKENS: (
        {"draft-counters", "round-counts", "acceptance-by-concurrency"},
        {"acceptance-constant"},
    ),
    metrics.SPEC_ACCEPTED_TOKENS: (
        {"draft-counters", "round-counts", "acceptance-by-concurrency", "acceptance-distribution", "forward-model"},
        {"acceptance-constant", "positions-add-up"},
    ),
    metrics.SPEC_ACCEPTED_PER_POS: (
        {"acceptance-positions", "acceptance-distribution"},
        {"positions-add-up"},
    ),
}
SAMPLES_OF: Mapping[str, tuple[set[str], set[str]]] = {
    "running": ({"resources", "memory-cost"}, {"queue-only-above", "memory-per-running"}),
    # Whether requests wait decides where the knee is.
    "waiting": ({"resources", "saturation", "saturation-change", "operating-point"}, {"queue-only-above"}),
    "waiting_by_reason": ({"resources"}, set()),
    "kv_cache_usage": (set(), set()),
}
GPU_OF: Mapping[str, tuple[set[str], set[str]]] = {
    "utilization": ({"resources"}, set()),
    "memory_mib": ({"resources", "memory-cost"}, {"memory-per-running"}),
}
REQUESTS_OF: Mapping[str, tuple[set[str], set[str]]] = {
    "completion_tokens": ({"sequential-comparison", "forward-model"}, {"same-token-count"}),
    "prompt_tokens": (set(), set()),
    "first_byte_ns": (set(), set()),
    "first_token_ns": (set(), set()),
    "planned_ns": (set(), set()),
    "output_id": (set(), {"same-output"}),
}


def cells(record: Record) -> dict[tuple[str, int, int, int], str]:
    """Every cell by table id, number of the table, row and column."""
    load_tables()
    source = Source(record, run_checks(record), Words("en"))
    found: dict[tuple[str, int, int, int], str] = {}
    for name in TABLE_IDS:
        if name == "findings":  # says again what the checks say
            continue
        made: Iterable[Table] = TABLES[name](source)
        for number, table in enumerate(made):
            for row, texts in enumerate(table.rows):
                for column, text in enumerate(texts):
                    found[table.key, number, row, column] = text
    return found


def judgements(record: Record) -> dict[str, Judgement]:
    return {one.check: one.judgement for one in run_checks(record)}


def compare(tmp_path: Path, change: Change, due: tuple[set[str], set[str]], allowed: set[str]) -> None:
    whole, less = make_record(tmp_path), make_record(tmp_path, change=change)
    before, after = cells(whole), cells(less)
    changed = {cell for cell in {*before, *after} if before.get(cell) != after.get(cell)}
    tables, checks = due
    assert {name for name, _, _, _ in changed} == tables
    for cell in changed:
        # A table without its figures is not there at all; a cell says why.
        assert cell not in after or "–" in after[cell] or after[cell] in allowed, (cell, after[cell])
    one, two = judgements(whole), judgements(less)
    assert {name for name in one if one[name] != two[name]} == checks
    assert {two[name] for name in checks} <= {Judgement.INCONCLUSIVE, Judgement.NOT_APPLICABLE}


def test_every_series_and_field_is_declared(tmp_path: Path) -> None:
    journal = list(make_events(make_plan(tmp_path)))
    series = {
        key.partition("{")[0] for event in journal if isinstance(event, events.Scraped) for key in event.series or {}
    }
    assert series == set(TABLES_OF)
    fields = {*events.Sampled.model_fields} - {*events.OfRound.model_fields, "event", "at_ns", "error"}
    assert fields == set(SAMPLES_OF)
    assert {*events.GpuValues.model_fields} - {"index", "error"} == set(GPU_OF)


@pytest.mark.parametrize("name", TABLES_OF)
def test_a_series_that_is_not_there(tmp_path: Path, name: str) -> None:
    # Of two numbers that must agree, the sum says that it has nothing to be compared with.
    compare(tmp_path, without_series(name), TABLES_OF[name], set())


@pytest.mark.parametrize("arm", ["off", "on"])
@pytest.mark.parametrize("name", TABLES_OF)
def test_a_series_that_one_arm_lacks(tmp_path: Path, name: str, arm: str) -> None:
    """No more than what the series is needed for, and what changes says that it is absent."""
    whole = make_record(tmp_path)
    less = make_record(tmp_path, change=without_series(name, lambda event: event.arm == arm))
    before, after = cells(whole), cells(less)
    changed = {cell for cell in {*before, *after} if before.get(cell) != after.get(cell)}
    tables, checks = TABLES_OF[name]
    assert {table for table, _, _, _ in changed} <= tables
    assert all(cell not in after or "–" in after[cell] for cell in changed)
    one, two = judgements(whole), judgements(less)
    assert {check for check in one if one[check] != two[check]} <= checks
    # What concerns drafting alone is read of `on` alone.
    assert changed or not tables or arm == "off"


@pytest.mark.parametrize("name", SAMPLES_OF)
def test_a_gauge_that_is_not_there(tmp_path: Path, name: str) -> None:
    change = edit_events(events.Sampled, lambda event: event.model_copy(update={name: None}))
    # The operating point is set in bold, and is not where it is not known.
    compare(tmp_path, change, SAMPLES_OF[name], {"4", "16", "32"})


@pytest.mark.parametrize("name", GPU_OF)
def test_a_figure_of_the_gpu_that_is_not_there(tmp_path: Path, name: str) -> None:
    def without(event: events.GpuSampled) -> events.GpuSampled:
        return event.model_copy(update={"gpus": [one.model_copy(update={name: None}) for one in event.gpus]})

    compare(tmp_path, edit_events(events.GpuSampled, without), GPU_OF[name], {"4", "16", "32"})


@pytest.mark.parametrize("name", REQUESTS_OF)
def test_a_field_of_the_requests_that_is_not_there(tmp_path: Path, name: str) -> None:
    change: Any = edit_events(events.RequestDone, lambda event: event.model_copy(update={name: None}))
    compare(tmp_path, change, REQUESTS_OF[name], set())
