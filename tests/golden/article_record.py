"""The published measurement as a record: its raw figures, put where a run's journal would have them."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from runner.engine import metrics
from runner.plan.build import build_plan
from runner.plan.model import Plan
from runner.record import events
from runner.record.record import Record, build_record
from runner.spec.load import load_spec

HERE = Path(__file__).parent
SPEC = HERE.parents[1] / "specs" / "ngram-spec.yaml"
SECOND = 1_000_000_000
SAMPLES = 12
LABELS = '{engine="0",model_name="qwen2.5-3b"}'
START = {"off": 1000.0, "on": 2000.0}
FEATURES: dict[str, dict[str, Any]] = {
    "off": {"async-scheduling": "enabled", "model-runner": "V2", "unsupported-sampling": []},
    "on": {"async-scheduling": "disabled", "model-runner": "V1", "unsupported-sampling": ["min_p", "logit_bias"]},
}


def measurements() -> dict[str, Any]:
    loaded: dict[str, Any] = YAML(typ="safe").load((HERE / "article_measurements.yaml").read_text("utf-8"))
    return loaded


def article_record(figures: dict[str, Any]) -> Record:
    """A record of these figures; the same figures give the same record."""
    plan = build_plan(load_spec(SPEC), "embedded")
    return build_record(plan, list(_events(plan, copy.deepcopy(figures))))


def latencies(summary: dict[str, Any], count: int) -> list[float]:
    """`count` latencies with exactly this mean, median, minimum and maximum."""
    low, high, middle = summary["min"], summary["max"], summary["median"]
    inner = [middle] * (2 - count % 2)
    each = (count - 2 - len(inner)) // 2
    # Two further values, one on each side of the median, taken `each` times, make the mean.
    pair = (count * summary["mean"] - low - high - sum(inner)) / each
    below, above = (middle, pair - middle) if pair > 2 * middle else (pair - middle, middle)
    return [low, *[below] * each, *inner, *[above] * each, high]


def _events(plan: Plan, figures: dict[str, Any]) -> Iterable[events.Event]:
    yield events.RunStarted(
        run="article",
        started_at="2026-08-04T05:00:00+00:00",
        runner_version="0",
        target="embedded",
        simulated=False,
        target_settings={},
        host={},
    )
    yield events.OutputSeen(output_id="out", text="text", reasoning="", token_ids=None)
    for arm in plan.arms:
        yield from _launch(plan, arm.id, figures)
    yield events.RunFinished(seconds=1.0)


def _launch(plan: Plan, arm: str, figures: dict[str, Any]) -> Iterable[events.Event]:
    of: dict[str, Any] = {"arm": arm, "replicate": 1}
    wanted = plan.arm(arm).wanted
    on = arm == "on"
    yield events.LaunchStarted(**of)
    yield events.EngineLaunched(**of, command=["vllm"], env={}, endpoint="http://e", log="l")
    yield events.EngineReady(**of, engine="pod", seconds=1.0, version="0.26.0", models=["qwen2.5-3b"])
    yield events.EvidenceRead(
        **of,
        version="0.26.0",
        arguments=[
            events.ArgumentFound(
                name=name, wanted=value, parsed=value, configured=None, verdict="in-force", reason="", quote=None
            )
            for name, value in wanted.items()
        ],
        parsed=dict(wanted),
        features={
            **{n: events.FeatureFound(value=v, quote=f"line of {n}", source="log") for n, v in FEATURES[arm].items()},
            "max-num-batched-tokens": events.FeatureFound(value=2048, quote=None, source="log"),
        },
        speculation=events.Speculation(method="ngram", model=None, tokens=5) if on else None,
        engine_config={},
        kv_cache_tokens=1000,
        model_memory_gib=2.0,
        quotes={"speculative": "line"},
    )
    yield events.CountersProved(
        **of,
        state="moved" if on else "absent",
        must_move=on,
        verdict="in-force",
        detail="",
        drafts=8 if on else None,
        draft_tokens=40 if on else None,
        accepted=34 if on else None,
    )
    body = plan.body(plan.arm(arm), plan.sent_prompts[0], stream=False)
    yield events.BodySeen(body_id=f"body-{arm}", prompt=plan.sent_prompts[0], body=body)
    engine = _Engine(arm)
    for phase, level in plan.grid:
        for number in range(1, phase.rounds + 1):
            at = {**of, "phase": phase.name, "concurrency": level, "round": number, "engine": "pod"}
            if level == 1:
                yield from _sequential(at, engine, figures)
            else:
                [one] = [
                    r
                    for r in figures["rounds"]
                    if (r["condition"], r["concurrency"], r["round"]) == (arm, level, number)
                ]
                yield from _round(at, engine, figures, one)
    yield events.EngineStopped(**of, how="stopped", exit_code=0)


class _Engine:
    """Counters and the clock of one engine process."""

    def __init__(self, arm: str) -> None:
        self.arm = arm
        self.now = 0
        self.totals = {metrics.E2E_COUNT: 0.0, metrics.E2E_SUM: 0.0}

    def add(self, **deltas: float) -> None:
        for name, delta in deltas.items():
            self.totals[name] = self.totals.get(name, 0.0) + delta

    def scrape(self, at: dict[str, Any], moment: Any, hidden: tuple[str, ...] = ()) -> events.Scraped:
        series = {f"{name}{LABELS}": value for name, value in self.totals.items() if name not in hidden}
        for name in [name for name in self.totals if name.startswith("position ")]:
            del series[f"{name}{LABELS}"]
            if "positions" not in hidden:
                key = f'{{engine="0",model_name="qwen2.5-3b",position="{name.split()[1]}"}}'
                series[metrics.SPEC_ACCEPTED_PER_POS + key] = self.totals[name]
        series[metrics.PROCESS_START] = START[self.arm]
        return events.Scraped(**at, moment=moment, at_ns=self.now, artifact="a", series=series, error=None)


def _sequential(at: dict[str, Any], engine: _Engine, figures: dict[str, Any]) -> Iterable[events.Event]:
    summary = figures["sequential"][engine.arm]
    first = [summary["first"]] if "first" in summary else []
    times = [*first, *latencies(summary, summary["requests"] - len(first))]
    on = engine.arm == "on"
    if on:
        engine.add(**dict.fromkeys(_counters(figures), 0.0))
    yield events.RoundStarted(**at, requests=len(times))
    yield engine.scrape(at, "before")
    for index, seconds in enumerate(times):
        role = "excluded" if index < len(first) else "measured"
        yield _request(at, figures, index, role, engine.now, seconds)
        engine.now += round(seconds * SECOND)
    engine.add(**{metrics.E2E_COUNT: len(times), metrics.E2E_SUM: sum(times)})
    if on:
        engine.add(**_counters(figures))
    yield engine.scrape(at, "after")
    yield _finished(at)


def _counters(figures: dict[str, Any]) -> dict[str, float]:
    counters = figures["counters"]
    return {
        metrics.SPEC_DRAFTS: counters["drafts"],
        metrics.SPEC_DRAFT_TOKENS: counters["draft_tokens"],
        metrics.SPEC_ACCEPTED_TOKENS: counters["accepted"],
        **{f"position {index}": value for index, value in enumerate(counters["positions"])},
    }


def _round(at: dict[str, Any], engine: _Engine, figures: dict[str, Any], one: dict[str, Any]) -> Iterable[events.Event]:
    mean = one.get("mean_latency") or one["delta_sum"] / one["delta_count"]
    level, requests = one["concurrency"], 64
    # What the article does not print of this round does not exist in its scrapes.
    hidden: tuple[str, ...] = (metrics.SPEC_DRAFTS, "positions")
    if "draft_tokens" not in one:
        hidden += (metrics.SPEC_DRAFT_TOKENS, metrics.SPEC_ACCEPTED_TOKENS)
    yield events.RoundStarted(**at, requests=requests)
    yield engine.scrape(at, "before", hidden)
    yield _request(at, figures, 0, "warm-up", engine.now, mean)
    begin = engine.now + 10 * SECOND
    spacing = (one["wall"] - mean) / (requests - 1)
    for index in range(requests):
        sent = begin + round(index * spacing * SECOND)
        seconds = one["wall"] - (requests - 1) * spacing
        if index == requests - 1:
            seconds = (begin + round(one["wall"] * SECOND) - sent) / SECOND
        yield _request(at, figures, 1 + index, "measured", sent, seconds)
    [gauges] = [r for r in figures["resources"] if (r["condition"], r["concurrency"]) == (engine.arm, level)]
    last = begin + round((requests - 1) * spacing * SECOND)
    for index in range(SAMPLES):
        yield events.Sampled(
            **at,
            at_ns=begin + (last - begin) * index // SAMPLES,
            running=float(gauges["running"]),
            waiting=float(gauges["waiting"]),
            waiting_by_reason={"capacity": float(gauges["waiting"]), "deferred": 0.0},
            kv_cache_usage=0.1,
        )
        yield events.GpuSampled(
            **at,
            at_ns=begin + (last - begin) * index // SAMPLES,
            gpus=[
                events.GpuValues(
                    index=0,
                    utilization=float(gauges["utilization"][index % 2]),
                    memory_mib=float(gauges["memory"]),
                )
            ],
        )
    engine.add(
        **{
            metrics.E2E_COUNT: one["delta_count"],
            metrics.E2E_SUM: one["delta_sum"] if "delta_sum" in one else mean * one["delta_count"],
        }
    )
    if "draft_tokens" in one:
        engine.add(**{metrics.SPEC_DRAFT_TOKENS: one["draft_tokens"], metrics.SPEC_ACCEPTED_TOKENS: one["accepted"]})
    engine.now = begin + round((one["wall"] + 10) * SECOND)
    yield engine.scrape(at, "after", hidden)
    yield _finished(at)


def _request(
    at: dict[str, Any], figures: dict[str, Any], index: int, role: Any, sent: int, seconds: float
) -> events.RequestDone:
    end = sent + round(seconds * SECOND)
    return events.RequestDone(
        **at,
        index=index,
        role=role,
        body_id=f"body-{at['arm']}",
        planned_ns=sent,
        sent_ns=sent,
        first_byte_ns=end,
        first_token_ns=None,
        last_byte_ns=end,
        ended_ns=end,
        verdict="ok",
        detail="",
        status=200,
        finish_reason="stop",
        prompt_tokens=73,
        completion_tokens=figures["completion_tokens"],
        output_id="out",
    )


def _finished(at: dict[str, Any]) -> events.RoundFinished:
    return events.RoundFinished(**at, busy_before=None, busy_after=None, sampling_interval=2.0, complete=True)
