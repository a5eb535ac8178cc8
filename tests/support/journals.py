"""Journals made by hand: a whole run's events with figures that a reader can check in his head.

The made-up engine serves every request in the same time, has 16 slots, and drafts as the reference article's:
8 drafts, 40 draft tokens, 34 accepted a request.
"""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from runner.engine import metrics
from runner.plan.build import build_plan
from runner.plan.model import Plan
from runner.record import events
from runner.record.directory import JOURNAL, PLAN
from runner.record.journal import JournalWriter
from runner.record.record import Record, build_record
from runner.spec.load import load_spec

SLOTS = 16
LATENCY = {"off": 2.0, "on": 1.0}
TOKENS = 68
STEPS = {"off": 67, "on": 33}  # decode steps of a request: one a token but for the first, which the prefill gives
STEP_SECONDS = {"off": 0.029, "on": 0.029 * 67 / 33 / 2}  # so that steps and their cost give the speed-up of 2
START = {"off": 1000.0, "on": 2000.0}
SECOND = 1_000_000_000
EFFECTS = {
    "async-scheduling": "disabled",
    "model-runner": "V1",
    "unsupported-sampling": ["min_p", "logit_bias"],
}

SPEC: dict[str, Any] = {
    "name": "made-up",
    "engine": {"version": "0.26.0"},
    "model": "org/model",
    "args": {"served-model-name": "m", "max-num-seqs": SLOTS},
    "conditions": {
        "off": {},
        "on": {"args": {"spec-method": "ngram", "spec-tokens": 5}, "side-effects": EFFECTS},
    },
    "prompts": {"p": {"messages": [{"role": "user", "content": "Repeat this."}]}},
    "request": {"model": "m", "temperature": 0, "max_tokens": 256},
    "phases": {
        "sequential": {"concurrency": [1], "requests": 10, "exclude-first": {"on": 1}},
        "load": {
            "concurrency": [4, 16, 32],
            "requests": 64,
            "rounds": 2,
            "warm-up": {"requests": 1, "counted": True},
        },
    },
    "invariants": {
        "same-output": {},
        "same-token-count": {},
        "acceptance-constant": {},
        "speedup": {},
        "queue-only-above": {"argument": "max-num-seqs"},
        "sequential-separated": {},
        "positions-add-up": {},
        "forward-model": {},
        "latency-cross-check": {},
        "spread-below-effect": {},
        "same-prefix-hits": {},
        "memory-per-running": {"max-mib": 30},
    },
}

Edit = Callable[[dict[str, Any]], Any]
Change = Callable[[list[events.Event]], Iterable[events.Event]]


def write_spec(folder: Path, *edits: Edit, spec: dict[str, Any] = SPEC) -> Path:
    """The spec as a YAML file (JSON is YAML), after `edits` to its plain value."""
    value = copy.deepcopy(spec)
    for edit in edits:
        edit(value)
    path = folder / "spec.yaml"
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    return path


def make_plan(folder: Path, *edits: Edit) -> Plan:
    return build_plan(load_spec(write_spec(folder, *edits)), "embedded")


def make_record(folder: Path, *edits: Edit, change: Change = list) -> Record:
    """A record of the edited spec, after `change` to its events."""
    plan = make_plan(folder, *edits)
    return build_record(plan, change(list(make_events(plan))))


def write_run(folder: Path, plan: Plan, journal: Iterable[events.Event]) -> Path:
    """A run directory with these events; the folder must not exist."""
    folder.mkdir(parents=True)
    (folder / PLAN).write_text(plan.model_dump_json(by_alias=True), encoding="utf-8")
    with JournalWriter(folder / JOURNAL) as writer:
        for event in journal:
            writer(event)
    return folder


def make_events(plan: Plan) -> Iterable[events.Event]:
    yield events.RunStarted(
        run="made-up-1",
        started_at="2026-01-01T00:00:00+00:00",
        runner_version="0",
        target="embedded",
        simulated=True,
        target_settings={},
        host={},
    )
    yield events.OutputSeen(output_id="out", text="same text", reasoning="", token_ids=None)
    for launch in plan.launches:
        yield from _launch(plan, launch.arm, launch.replicate)
    yield events.RunFinished(seconds=1.0)


def _launch(plan: Plan, arm: str, replicate: int) -> Iterable[events.Event]:
    kind = "on" if plan.arm(arm).wanted.get("spec_method") else "off"
    of = {"arm": arm, "replicate": replicate}
    yield events.LaunchStarted(**of)
    yield events.EngineLaunched(**of, command=["vllm"], env={}, endpoint="http://e", log="l")
    yield events.EngineReady(**of, engine="pid 1", seconds=1.0, version="0.26.0", models=["m"])
    yield events.GpusFound(
        **of,
        source="NVML, driver 1",
        gpus=[events.GpuFound(index=0, uuid="GPU-1", name="H200", total_mib=100_000.0, before_mib=0.0)],
        doubt=None,
        reason=None,
        others=[],
        unknown=None,
    )
    yield _evidence(plan, arm, kind, of)
    yield events.CountersProved(
        **of,
        state="moved" if kind == "on" else "absent",
        must_move=kind == "on",
        verdict="in-force",
        detail="",
        drafts=8 if kind == "on" else None,
        draft_tokens=40 if kind == "on" else None,
        accepted=34 if kind == "on" else None,
    )
    body = plan.body(plan.arm(arm), "p", stream=False)
    yield events.BodySeen(body_id=f"body-{arm}", prompt="p", body=body)
    clock = itertools.count(0, 10_000)
    finished = 1
    for phase, level in plan.grid:
        for number in range(1, phase.rounds + 1):
            at = {**of, "phase": phase.name, "concurrency": level, "round": number, "engine": "pid 1"}
            window = phase.requests + phase.warm_up
            yield from _round(plan, arm, kind, at, phase, level, next(clock), finished)
            finished += window
    yield events.EngineStopped(**of, how="stopped", exit_code=0)


def _evidence(plan: Plan, arm: str, kind: str, of: dict[str, Any]) -> events.EvidenceRead:
    on = kind == "on"
    features = {
        "async-scheduling": "disabled" if on else "enabled",
        "model-runner": "V1" if on else "V2",
        "max-num-batched-tokens": 2048,
        "unsupported-sampling": ["min_p", "logit_bias"] if on else [],
    }
    wanted = plan.arm(arm).wanted
    return events.EvidenceRead(
        **of,
        version="0.26.0",
        arguments=[
            events.ArgumentFound(
                name=name,
                wanted=value,
                parsed=value,
                configured=None,
                verdict="in-force",
                reason="",
                quote=None,
            )
            for name, value in wanted.items()
        ],
        parsed={**wanted, "host": "h", "port": 1 if on else 2},
        features={
            name: events.FeatureFound(value=value, quote=f"line of {name}", source="log")
            for name, value in features.items()
        },
        speculation=events.Speculation(method="ngram", model=None, tokens=5) if on else None,
        engine_config={},
        kv_cache_tokens=1000,
        model_memory_gib=2.0,
        quotes={"speculative": "line"},
    )


def _round(
    plan: Plan, arm: str, kind: str, at: dict[str, Any], phase: Any, level: int, second: int, finished: int
) -> Iterable[events.Event]:
    start = second * SECOND
    latency = LATENCY[kind]
    window = phase.requests + phase.warm_up
    excluded = phase.excluded.get(arm, 0)
    yield events.RoundStarted(**at, requests=phase.requests)
    yield _scrape(at, kind, "before", start, finished, level)
    for index in range(phase.warm_up):
        yield _request(at, arm, index, "warm-up", start, latency)
    begin = start + 100 * SECOND
    # Slots answer in the time of one request; what has none waits for the next wave.
    for number in range(phase.requests):
        wave = number // min(level, SLOTS)
        done = begin + int((wave + 1) * latency * SECOND)
        sent = begin + int(max(number // min(level, SLOTS) - level // SLOTS + 1, 0) * latency * SECOND)
        if level <= SLOTS:
            sent = begin + int(wave * latency * SECOND)
        role = "excluded" if number < excluded else "measured"
        yield _request(at, arm, phase.warm_up + number, role, sent, (done - sent) / SECOND)
    sending = begin + int((phase.requests // min(level, SLOTS) - max(level // SLOTS, 1)) * latency * SECOND)
    for index in range(12):
        yield events.Sampled(
            **at,
            at_ns=begin + (sending - begin) * (index + 1) // 13,
            running=float(min(level, SLOTS)),
            waiting=float(max(level - SLOTS, 0)),
            waiting_by_reason={"capacity": float(max(level - SLOTS, 0)), "deferred": 0.0},
            kv_cache_usage=0.1,
        )
        memory = 5000.0 + (25.0 * min(level, SLOTS) if kind == "on" else 0.0)
        yield events.GpuSampled(
            **at,
            at_ns=begin + (sending - begin) * (index + 1) // 13,
            gpus=[events.GpuValues(index=0, utilization=30.0, memory_mib=memory)],
        )
    yield events.OthersSeen(**at, at_ns=sending, others=[], unknown=None)
    yield events.ClientWatched(**at, processes=[watched(slots=level, requests=phase.requests)])
    yield _scrape(at, kind, "after", begin + 1000 * SECOND, finished + window, level)
    yield events.RoundFinished(**at, busy_before=None, busy_after=None, sampling_interval=1.0, complete=True)


def _request(at: dict[str, Any], arm: str, index: int, role: Any, sent: int, seconds: float) -> events.RequestDone:
    return events.RequestDone(
        **at,
        index=index,
        role=role,
        body_id=f"body-{arm}",
        planned_ns=sent,
        sent_ns=sent,
        first_byte_ns=sent + int(seconds * SECOND),
        first_token_ns=None,
        last_byte_ns=sent + int(seconds * SECOND),
        ended_ns=sent + int(seconds * SECOND),
        verdict="ok",
        detail="",
        status=200,
        finish_reason="stop",
        prompt_tokens=20,
        completion_tokens=TOKENS,
        output_id="out",
        clock="kernel",
    )


def watched(**fields: Any) -> events.ProcessWatched:
    """One process of a load generator that kept up, unless other figures are given."""
    given = {
        "slots": 1,
        "requests": 1,
        "seconds": 10.0,
        "cpu_seconds": 1.5,
        "queued_seconds": 0.25,
        "loop": "uvloop",
        "loop_lag_p99_ns": 200_000,
        "loop_lag_max_ns": 900_000,
        "reads": 1000,
        "read_lag_p50_ns": 9_000,
        "read_lag_p99_ns": 45_000,
        "read_lag_max_ns": 700_000,
        "clock": "kernel",
        "why_user": None,
        "drift_ns": -2_000,
        "peak_memory_bytes": 50_000_000,
        "address": "127.0.0.1:8000",
        "capture": "a",
    }
    return events.ProcessWatched.model_validate({**given, **fields})


def _scrape(at: dict[str, Any], kind: str, moment: Any, at_ns: int, finished: int, level: int) -> events.Scraped:
    labels = '{engine="0",model_name="m"}'
    mean = LATENCY[kind] * max(level / SLOTS, 1)
    # A counter that only grows, by the cell's own mean a request: the sum is kept per cell, which is enough for Δ.
    series = {
        f"{metrics.E2E_COUNT}{labels}": float(finished),
        f"{metrics.E2E_SUM}{labels}": finished * mean,
        f"{metrics.REQUEST_SUCCESS}{labels}": float(finished),
        f"{metrics.TTFT_COUNT}{labels}": float(finished),
        f"{metrics.ITL_COUNT}{labels}": float(finished * STEPS[kind]),
        f"{metrics.ITL_SUM}{labels}": finished * STEPS[kind] * STEP_SECONDS[kind],
        f"{metrics.PREFIX_CACHE_QUERIES}{labels}": finished * 20.0,
        f"{metrics.PREFIX_CACHE_HITS}{labels}": finished * 16.0,
        f"{metrics.GENERATION_TOKENS}{labels}": float(finished * TOKENS),
        f"{metrics.RUNNING}{labels}": 0.0,
        f"{metrics.WAITING}{labels}": 0.0,
        metrics.PROCESS_START: START[kind],
    }
    if kind == "on":
        series[f"{metrics.SPEC_DRAFTS}{labels}"] = finished * 8.0
        series[f"{metrics.SPEC_DRAFT_TOKENS}{labels}"] = finished * 40.0
        series[f"{metrics.SPEC_ACCEPTED_TOKENS}{labels}"] = finished * 34.0
        for position, accepted in enumerate((7, 7, 7, 7, 6)):
            key = f'{metrics.SPEC_ACCEPTED_PER_POS}{{engine="0",model_name="m",position="{position}"}}'
            series[key] = float(finished * accepted)
    return events.Scraped(**at, moment=moment, at_ns=at_ns, artifact="a", series=series, error=None)


def edit_events(
    kind: type[events.Event],
    change: Callable[[Any], events.Event | None],
    where: Callable[[Any], bool] = lambda _: True,
) -> Change:
    """A change that replaces (or, by None, drops) the events of one kind that fit."""

    def changed(journal: list[events.Event]) -> Iterable[events.Event]:
        for event in journal:
            kept = change(event) if isinstance(event, kind) and where(event) else event
            if kept is not None:
                yield kept

    return changed


def client(*processes: events.ProcessWatched, where: Callable[[Any], bool] = lambda _: True) -> Change:
    """The same journal with other words of the load generator about itself; with none it did not watch itself."""
    return edit_events(
        events.ClientWatched,
        lambda event: event.model_copy(update={"processes": list(processes)}) if processes else None,
        where,
    )


def streamed(tokens: events.TokenEvents, where: Callable[[Any], bool] = lambda _: True, **fields: Any) -> Change:
    """The same journal with these events in its replies, and other fields of the requests."""

    def change(event: events.RequestDone) -> events.RequestDone:
        first = None if event.sent_ns is None else event.sent_ns + tokens.at_ns[0]
        return event.model_copy(update={"events": tokens, "first_token_ns": first, **fields})

    return edit_events(events.RequestDone, change, where)


def streaming(spec: dict[str, Any]) -> None:
    """An edit of the spec: the load is streamed."""
    spec["phases"]["load"]["stream"] = True


def old(journal: list[events.Event]) -> Iterable[events.Event]:
    """The same journal as a runner before 0.2 wrote it: nothing of its clock, and nothing of itself."""
    for event in journal:
        if isinstance(event, events.RequestDone):
            yield event.model_copy(update={"clock": None})
        elif not isinstance(event, events.ClientWatched):
            yield event


def both(*changes: Change) -> Change:
    """One change after the other."""

    def changed(journal: list[events.Event]) -> Iterable[events.Event]:
        for change in changes:
            journal = list(change(journal))
        return journal

    return changed


def without_series(name: str, where: Callable[[Any], bool] = lambda _: True) -> Change:
    """The same journal from an engine that does not expose a series."""

    def drop(event: events.Scraped) -> events.Scraped:
        kept = {key: value for key, value in (event.series or {}).items() if key.partition("{")[0] != name}
        return event.model_copy(update={"series": kept})

    return edit_events(events.Scraped, drop, where)


WHAT = "Deployment demo/qwen"
BY_HAND = "kubectl replace -f artifacts/baseline.yaml"
EQUAL = (
    events.Compared(fact="model", before="org/model", after="org/model", equal=True),
    events.Compared(fact="template hash", before="5d4f", after="5d4f", equal=True),
)


def saved(**fields: Any) -> events.BaselineSaved:
    """What existed before the run, saved."""
    given = {
        "what": WHAT,
        "existed": True,
        "how": "replaced by the saved object",
        "facts": {"model": "org/model", "template hash": "5d4f"},
        "artifact": "artifacts/baseline.yaml",
        "by_hand": BY_HAND,
    }
    return events.BaselineSaved.model_validate({**given, **fields})


def restored(*compared: events.Compared, **fields: Any) -> events.BaselineRestored:
    """Put back, and equal in every fact, unless others are given."""
    given = {
        "what": WHAT,
        "how": "replaced by the saved object",
        "restored": True,
        "reason": None,
        "compared": compared or EQUAL,
        "differences": [],
        "by_hand": BY_HAND,
        "seconds": 12.5,
    }
    return events.BaselineRestored.model_validate({**given, **fields})


def around(first: Iterable[events.Event], last: Iterable[events.Event] = ()) -> Change:
    """The same journal with events after its beginning and before its end."""
    return lambda journal: [journal[0], *first, *journal[1:-1], *last, journal[-1]]


def over(transport: str | None, doubt: str | None, *arms: str) -> Change:
    """The same journal with a way to the engines of some conditions (default: all)."""
    return edit_events(
        events.EngineLaunched,
        lambda event: event.model_copy(update={"transport": transport, "transport_doubt": doubt}),
        lambda event: not arms or event.arm in arms,
    )
