"""The report for programs: `result.json`."""

import json
import re
from collections import Counter
from typing import Any

from runner.analysis.acceptance import drafting, speculates, tokens_per_decode_step
from runner.analysis.cell import Cell, cells, concurrencies, surplus
from runner.analysis.cell_latency import METRICS, quantiles
from runner.analysis.client import client_facts
from runner.analysis.comparison import comparison
from runner.analysis.confounding import confounders
from runner.analysis.counters import counter_delta
from runner.analysis.gauges import Spread, gauge, gpu_gauge, steady_samples
from runner.analysis.in_flight import achieved_concurrency, in_flight
from runner.analysis.knee import Knee, knee
from runner.analysis.latency import mean_latency
from runner.analysis.neighbours import neighbours
from runner.analysis.restoration import unproved, unrestored
from runner.analysis.separation import separation
from runner.analysis.throughput import throughput
from runner.analysis.transport import transport_doubt
from runner.analysis.value import Absent
from runner.analysis.wall import wall_seconds
from runner.checks.finding import Result
from runner.checks.outcome import outcome
from runner.engine import metrics
from runner.record.record import Baseline, Record, Round

FORMAT = 1


def render_result(record: Record, results: list[Result]) -> str:
    """JSON text. Seconds, requests a second, ratios; a figure that does not exist is `{"absent": REASON}`."""
    code = outcome(record, results)
    value = {
        "format": FORMAT,
        "run": record.started.run,
        "name": record.plan.name,
        "started": record.started.started_at,
        "runner": record.started.runner_version,
        "target": record.started.target,
        "simulated": None if not (record.simulated or record.real) else record.simulated,
        "spec_sha256": record.plan.spec_sha256,
        "exit_code": int(code),
        "outcome": code.name.lower().replace("_", "-"),
        "checks": [_check(result) for result in results],
        "comparisons": [
            _comparison(record, arm.id, level) for arm in record.plan.others for level in concurrencies(record)
        ],
        "confounded": {arm.label: [one.feature for one in confounders(record, arm)] for arm in record.plan.others},
        "knee": {arm.label: _knee(record, arm.id) for arm in record.plan.arms},
        "cells": [_cell(cell) for cell in cells(record)],
        **_place(record),
    }
    return _PAIR.sub(r"[\1, \2]", json.dumps(value, ensure_ascii=False, indent=2, default=_plain)) + "\n"


_PAIR = re.compile(r"\[\s*\n\s+([-+.\deE]+),\n\s+([-+.\deE]+)\n\s+\]")
"""Two numbers, as of a point of a series: on one line, for there are thousands. No JSON string holds a line break."""


def _place(record: Record) -> dict[str, Any]:
    """What became of the place where the engines ran, and the way to them; each only where there is any."""
    doubted = {arm.label: doubt.figures for arm in record.plan.arms if (doubt := transport_doubt(record, arm.id))}
    found: dict[str, Any] = {
        "client_times_doubted": doubted,
        "baselines": [_baseline(one) for one in record.baselines],
        "warnings": [one.model_dump(exclude={"event"}) for one in record.warnings],
    }
    return {name: value for name, value in found.items() if value}


def _baseline(one: Baseline) -> dict[str, Any]:
    """`as_before` is null where it is not known."""
    return {
        "what": one.saved.what,
        "existed": one.saved.existed,
        "as_before": False if unrestored(one) else None if unproved(one) else True,
        "why": unrestored(one) or unproved(one),
        "restored": None if one.restored is None else one.restored.model_dump(exclude={"event", "what", "by_hand"}),
        "by_hand": one.by_hand,
    }


def _check(result: Result) -> dict[str, Any]:
    return {
        "check": result.check,
        "judgement": result.judgement,
        "parameters": result.parameters,
        "findings": [
            {
                "judgement": finding.judgement,
                "subject": finding.subject,
                "reason": finding.reason,
                "figures": finding.figures,
            }
            for finding in result.findings
        ],
    }


def _comparison(record: Record, arm: str, level: int) -> dict[str, Any]:
    pair = comparison(record, arm, level)
    found = separation(record, arm, level)
    return {
        "condition": record.plan.arm(arm).label,
        "baseline": record.plan.arm(record.plan.baseline).label,
        "concurrency": level,
        "throughput_ratio": pair.throughput_ratio,
        "latency_ratio": pair.latency_ratio,
        "lowest_throughput_ratio": pair.lowest_ratio("throughput"),
        "separation": found if isinstance(found, Absent) else found.verdict,
    }


def _knee(record: Record, arm: str) -> Any:
    found = knee(record, arm)
    return {"concurrency": found.concurrency, "beyond": found.beyond} if isinstance(found, Knee) else found


def _cell(cell: Cell) -> dict[str, Any]:
    counted = drafting(cell.rounds)
    drafts = {
        "drafts": counted.drafts,
        "draft_tokens": counted.draft_tokens,
        "accepted_tokens": counted.accepted,
        "acceptance_rate": counted.rate,
    }
    return {
        "condition": cell.arm.label,
        "phase": cell.phase.name,
        "concurrency": cell.concurrency,
        "incomplete": cell.incomplete,
        "throughput": cell.throughput,
        "mean_latency": cell.mean_latency,
        "wall": cell.wall,
        "latency": {metric: _quantiles(cell, metric) for metric in METRICS},
        "client": _client(cell),
        "failed": dict(sorted(Counter(request.verdict for request in cell.failed).items())),
        "speculation": drafts if speculates(cell.record, cell.arm.id) else Absent("no-speculation"),
        "tokens_per_decode_step": tokens_per_decode_step(cell.rounds),
        "running": _gauge(gauge(cell.rounds, lambda sample: sample.running)),
        "waiting": _gauge(gauge(cell.rounds, lambda sample: sample.waiting)),
        "gpu": _gpu(cell),
        "rounds": [_round(cell, round_) for round_ in cell.rounds],
    }


def _quantiles(cell: Cell, metric: str) -> Any:
    """Seconds; `low` and `high` are the same quantile of the values' bounds, null where these are not known."""
    found = quantiles(cell, metric)
    if isinstance(found, Absent):
        return found
    shown = {
        f"p{percent}": one
        if isinstance(one, Absent)
        else {
            "low": one.low if found.bounded else None,
            "value": one.value,
            "high": one.high if found.bounded else None,
        }
        for percent, one in found.percentiles.items()
    }
    return {"n": found.n, **shown}


def _client(cell: Cell) -> Any:
    """Seconds and shares, of several rounds and processes the worst; `limit` says why the client was the limit, null
    where nothing says so."""
    facts = client_facts(cell)
    if facts is None:
        return Absent("client-unwatched")
    return {
        "limit": cell.client_limit,
        "processes": facts.processes,
        "asked_concurrency": facts.asked,
        "achieved_concurrency": facts.achieved,
        "loop_lag_p99": facts.loop_lag,
        "read_lag_p99": facts.read_lag,
        "cpu_share": facts.cpu,
        "queued_share": facts.queued,
        "clock": facts.clocks,
        "why_user": facts.why_user,
        "upper_bound_share": facts.upper_bounds,
        "drift": facts.drift,
    }


def _steps(round_: Round) -> list[list[float]]:
    """Requests in flight: (seconds after the round's first sending, how many from then on)."""
    steps = in_flight(round_)
    return [[(at - steps[0][0]) / 1e9, count] for at, count in steps]


def _gpu(cell: Cell) -> dict[str, Any]:
    """Percent, MiB, and the strange processes on the GPUs."""
    there = neighbours(cell)
    return {
        "utilization": _gauge(gpu_gauge(cell.rounds, lambda sample: sample.utilization)),
        "memory_mib": _gauge(gpu_gauge(cell.rounds, lambda sample: sample.memory_mib)),
        "others": [one.model_dump() for one in there.found] if there.found else there.unknown or [],
        "others_unknown": there.unknown,
    }


def _round(cell: Cell, round_: Round) -> dict[str, Any]:
    return {
        "replicate": round_.replicate,
        "round": round_.number,
        "wall": wall_seconds(round_),
        "throughput": throughput(round_),
        "mean_latency": mean_latency(round_, cell.phase),
        "ok": len(round_.ok),
        "delta_count": counter_delta(round_, metrics.E2E_COUNT),
        "delta_sum": counter_delta(round_, metrics.E2E_SUM),
        "surplus": surplus(round_, cell.phase),
        "steady_samples": len(steady_samples(round_)),
        "achieved_concurrency": achieved_concurrency(round_),
        "in_flight": _steps(round_),
        "troubles": [one.model_dump(include={"at_ns", "kind", "index", "detail"}) for one in round_.troubles],
    }


def _gauge(found: Spread | Absent) -> Any:
    if isinstance(found, Absent):
        return found
    return {"median": found.median, "low": found.low, "high": found.high, "samples": found.samples}


def _plain(value: Any) -> Any:
    if isinstance(value, Absent):
        return {"absent": value.reason, **value.figures}
    raise TypeError(f"{type(value).__name__} has no place in result.json")
