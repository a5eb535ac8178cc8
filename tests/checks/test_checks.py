"""Every check: what passes, what fails, what cannot be known, and every parameter's effect."""

from pathlib import Path
from typing import Any

import pytest
from journals import (
    EFFECTS,
    EQUAL,
    Change,
    Edit,
    around,
    client,
    edit_events,
    make_record,
    over,
    restored,
    saved,
    watched,
    without_series,
)

from runner.analysis.confounding import confounders
from runner.checks import CHECKS, run_checks
from runner.checks.registry import load_checks
from runner.engine import metrics
from runner.record import events
from runner.record.record import Record
from runner.spec.invariants import Invariants
from runner.spec.strict import kebab


def judged(record: Record, name: str) -> tuple[str, set[str]]:
    """The judgement of one check, and the reasons of its findings with that judgement."""
    [result] = [one for one in run_checks(record) if one.check == name]
    return str(result.judgement), {one.reason for one in result.findings if one.judgement is result.judgement}


def with_invariant(name: str, parameters: dict[str, Any]) -> Edit:
    return lambda spec: spec["invariants"].update({name: parameters})


def is_on(event: Any) -> bool:
    return bool(event.arm == "on")


def of_cell(arm: str, level: int, number: int = 1) -> Any:
    return lambda event: (event.arm, event.concurrency, event.round) == (arm, level, number)


def updated(**fields: Any) -> Any:
    return lambda event: event.model_copy(update=fields)


LAGS = watched(read_lag_p99_ns=500_000_000)
"""A quarter of a request of `off`, half of one of `on`."""


def idle(event: Any) -> Any:
    """Each of its four slots waits half a second before every request."""
    by = (event.index - 1) // 4 * 500_000_000
    return event.model_copy(
        update={name: getattr(event, name) + by for name in ("sent_ns", "last_byte_ns", "ended_ns")}
    )


def measured_of_4(event: Any) -> bool:
    return (event.arm, event.concurrency, event.role) == ("on", 4, "measured")


def gpu_values(**fields: Any) -> Any:
    """A sample of the GPUs in which each one says so."""
    return lambda event: event.model_copy(update={"gpus": [one.model_copy(update=fields) for one in event.gpus]})


def grown(name: str, by: float) -> Any:
    """A scrape in which one series is larger."""

    def change(event: events.Scraped) -> events.Scraped:
        series = {key: value + by * (key.partition("{")[0] == name) for key, value in (event.series or {}).items()}
        return event.model_copy(update={"series": series})

    return change


def after(arm: str, level: int, number: int = 1) -> Any:
    return lambda event: of_cell(arm, level, number)(event) and event.moment == "after"


def test_every_invariant_of_the_language_has_one_check() -> None:
    load_checks()
    assert set(CHECKS) == {kebab(name) for name in Invariants.model_fields}


def test_a_clean_run_passes_everything(tmp_path: Path) -> None:
    results = run_checks(make_record(tmp_path))
    assert {str(one.judgement) for one in results} == {"pass"}
    # What changed nothing that was there has nothing to put back.
    assert {one.check for one in results} == set(CHECKS) - {"baseline-restored"}


def unproved(state: str) -> Change:
    """The proof's request moved no counter, and nothing says that it should have."""
    return edit_events(events.CountersProved, updated(state=state, must_move=None, verdict="unknown"), is_on)


def flat(event: events.Scraped) -> events.Scraped:
    """A scrape in which no draft was ever counted."""
    series = {key: 0.0 if key.startswith(metrics.SPEC_DRAFTS) else v for key, v in (event.series or {}).items()}
    return event.model_copy(update={"series": series})


def slower_round(journal: list[events.Event]) -> Any:
    """`on` C=4 round 2 as slow as three times the baseline: the ranges overlap, the mean does not say so."""
    change = edit_events(
        events.RequestDone,
        lambda e: e.model_copy(
            update={"last_byte_ns": e.last_byte_ns + 20 * 10**9, "ended_ns": e.ended_ns + 20 * 10**9}
        ),
        lambda e: of_cell("on", 4, 2)(e) and e.index == 64,
    )
    return change(journal)


EVIDENCE = events.EvidenceRead
NOTHING = events.FeatureFound(value=None, quote=None, source=None)
ARGUMENT = events.ArgumentFound(
    name="spec_tokens", wanted=5, parsed=None, configured=None, verdict="unknown", reason="", quote=None
)

OTHER = events.OtherProcess(pid=4242, gpu=0, name="python", memory_mib=12.0, before=False)

ABSENT = saved(existed=False, facts={}, artifact=None, how="removed")
DIFFERENT = events.Compared(fact="arguments", before="--a", after="--b", equal=False)
UNSEEN = events.Compared(fact="replies", before="yes", after=None, equal=None)

CASES: list[tuple[str, str, str, Change]] = [
    # configuration-in-force
    ("configuration-in-force", "inconclusive", "arguments-unknown",
     edit_events(EVIDENCE, lambda e: e.model_copy(update={"arguments": [*e.arguments, ARGUMENT]}), is_on)),
    ("configuration-in-force", "inconclusive", "no-evidence", edit_events(EVIDENCE, lambda _: None, is_on)),
    ("configuration-in-force", "fail", "version-differs", edit_events(EVIDENCE, updated(version="0.27.0"), is_on)),
    ("configuration-in-force", "inconclusive", "counters-absent", lambda journal: unproved("absent")(
        list(without_series(metrics.SPEC_DRAFTS, is_on)(journal)))),
    ("configuration-in-force", "inconclusive", "counters-flat", lambda journal: unproved("flat")(
        list(edit_events(events.Scraped, flat, is_on)(journal)))),
    ("configuration-in-force", "fail", "setting-refused", lambda journal: [
        *journal[:-1], events.Refused(arm="on", replicate=1, reasons=["no"]), journal[-1]]),
    # one-engine-process
    ("one-engine-process", "fail", "engine-restarted",
     edit_events(events.Scraped, grown(metrics.PROCESS_START, 5), of_cell("on", 16))),
    ("one-engine-process", "fail", "engine-restarted",
     edit_events(events.RequestDone, updated(engine="pid 2"), of_cell("off", 32))),
    ("one-engine-process", "fail", "counters-fell",
     edit_events(events.Scraped, grown(metrics.E2E_COUNT, -300), after("off", 32, 2))),
    ("one-engine-process", "inconclusive", "start-time-absent", without_series(metrics.PROCESS_START, is_on)),
    ("one-engine-process", "fail", "engine-died", lambda journal: [
        *journal[:-1], events.EngineFailed(arm="on", replicate=1, stage="run", reason="gone", words=[]), journal[-1]]),
    # request-count
    ("request-count", "fail", "round-contaminated",
     edit_events(events.Scraped, grown(metrics.E2E_COUNT, 4), after("on", 4, 2))),
    ("request-count", "fail", "requests-unfinished",
     edit_events(events.Scraped, grown(metrics.E2E_COUNT, -1), after("on", 4, 2))),
    ("request-count", "inconclusive", "series-absent", without_series(metrics.E2E_COUNT, is_on)),
    ("request-count", "inconclusive", "never-idle",
     edit_events(events.RoundFinished, updated(busy_before="busy"), of_cell("off", 4))),
    ("request-count", "inconclusive", "scrape-missing",
     edit_events(events.Scraped, updated(series=None, error="HTTP 500"), after("off", 4))),
    # same-output, same-token-count
    ("same-output", "fail", "outputs-differ", lambda journal: [
        journal[0], events.OutputSeen(output_id="other", text="same test", reasoning="", token_ids=None),
        *edit_events(events.RequestDone, updated(output_id="other"),
                     lambda e: of_cell("on", 16)(e) and e.index == 7)(journal[1:])]),
    ("same-output", "inconclusive", "no-output", edit_events(events.RequestDone, updated(verdict="empty"), is_on)),
    ("same-token-count", "fail", "token-counts-differ",
     edit_events(events.RequestDone, updated(completion_tokens=66), lambda e: of_cell("on", 16)(e) and e.index == 7)),
    ("same-token-count", "inconclusive", "tokens-unknown",
     edit_events(events.RequestDone, updated(completion_tokens=None), lambda e: of_cell("on", 16)(e) and e.index == 7)),
    # acceptance-constant
    ("acceptance-constant", "fail", "acceptance-varies",
     edit_events(events.Scraped, grown(metrics.SPEC_ACCEPTED_TOKENS, -100), after("on", 32, 2))),
    ("acceptance-constant", "inconclusive", "series-absent", without_series(metrics.SPEC_DRAFT_TOKENS, is_on)),
    ("acceptance-constant", "inconclusive", "series-absent", without_series(metrics.SPEC_ACCEPTED_TOKENS, is_on)),
    # declared-differences
    ("declared-differences", "fail", "difference-undeclared",
     edit_events(EVIDENCE, lambda e: e.model_copy(update={"parsed": {**e.parsed, "seed": 7}}), is_on)),
    ("declared-differences", "inconclusive", "arguments-unseen", edit_events(EVIDENCE, updated(parsed=None), is_on)),
    ("declared-differences", "inconclusive", "difference-unseen", edit_events(EVIDENCE, lambda e: e.model_copy(update={
        "features": {**e.features, "model-runner": NOTHING}}), is_on)),
    ("declared-differences", "inconclusive", "features-unknown",
     edit_events(EVIDENCE, lambda e: e.model_copy(update={
        "features": {**e.features, "max-num-batched-tokens": NOTHING}}), lambda e: e.arm == "off")),
    ("declared-differences", "fail", "difference-undeclared", edit_events(EVIDENCE, lambda e: e.model_copy(update={
        "features": {**e.features, "max-num-batched-tokens": events.FeatureFound(value=512, quote="", source="log")}}),
        is_on)),
    # request-options
    ("request-options", "inconclusive", "no-evidence", edit_events(EVIDENCE, lambda _: None, is_on)),
    # speedup
    ("speedup", "inconclusive", "requests-failed",
     edit_events(events.RequestDone, updated(verdict="truncated"), lambda e: of_cell("on", 4)(e) and e.index == 9)),
    ("speedup", "inconclusive", "rounds-missing",
     edit_events(events.RoundFinished, lambda _: None, of_cell("off", 4))),
    # queue-only-above
    ("queue-only-above", "fail", "queue-below-limit",
     edit_events(events.Sampled, updated(waiting=3.0), lambda e: e.arm == "on" and e.concurrency == 4)),
    ("queue-only-above", "fail", "queue-missing",
     edit_events(events.Sampled, updated(waiting=0.0), lambda e: e.arm == "on" and e.concurrency == 32)),
    ("queue-only-above", "inconclusive", "gauge-absent",
     edit_events(events.Sampled, updated(waiting=None), lambda e: e.arm == "on" and e.concurrency == 32)),
    ("queue-only-above", "inconclusive", "too-few-samples",
     edit_events(events.Sampled, lambda _: None, lambda e: e.at_ns % 2 == 0 and of_cell("off", 4)(e))),
    ("queue-only-above", "inconclusive", "too-few-samples",
     edit_events(events.Sampled, lambda e: e.model_copy(update={"at_ns": e.at_ns + 10**15}), of_cell("off", 4))),
    # sequential-separated
    ("sequential-separated", "fail", "ranges-overlap", edit_events(
        events.RequestDone, lambda e: e.model_copy(update={"last_byte_ns": e.last_byte_ns + 2 * 10**9}),
        lambda e: of_cell("on", 1)(e) and e.index == 5)),
    ("sequential-separated", "inconclusive", "requests-failed",
     edit_events(events.RequestDone, updated(verdict="truncated"), lambda e: of_cell("on", 1)(e) and e.index == 9)),
    # positions-add-up
    ("positions-add-up", "fail", "positions-disagree",
     edit_events(events.Scraped, grown(metrics.SPEC_ACCEPTED_TOKENS, -1), after("on", 16, 2))),
    ("positions-add-up", "fail", "positions-rise",
     edit_events(events.Scraped, grown(metrics.SPEC_DRAFTS, -300), after("on", 16, 2))),
    ("positions-add-up", "inconclusive", "series-absent", without_series(metrics.SPEC_ACCEPTED_PER_POS, is_on)),
    ("positions-add-up", "inconclusive", "series-absent", without_series(metrics.SPEC_ACCEPTED_TOKENS, is_on)),
    # forward-model
    ("forward-model", "fail", "forward-disagrees",
     edit_events(events.Scraped, grown(metrics.ITL_SUM, 1.0), after("on", 1))),
    ("forward-model", "inconclusive", "series-absent", without_series(metrics.ITL_SUM, is_on)),
    ("forward-model", "inconclusive", "series-absent", without_series(metrics.GENERATION_TOKENS)),
    # latency-cross-check
    ("latency-cross-check", "fail", "latencies-disagree",
     edit_events(events.Scraped, grown(metrics.E2E_SUM, 10.0), after("off", 4, 2))),
    ("latency-cross-check", "inconclusive", "series-absent", without_series(metrics.E2E_SUM, is_on)),
    # spread-below-effect
    ("spread-below-effect", "inconclusive", "effect-within-spread", slower_round),
    ("spread-below-effect", "inconclusive", "rounds-missing",
     edit_events(events.RoundFinished, lambda _: None, of_cell("off", 32))),
    # same-prefix-hits
    ("same-prefix-hits", "fail", "prefix-hits-differ",
     edit_events(events.Scraped, grown(metrics.PREFIX_CACHE_HITS, -50), after("on", 16, 2))),
    ("same-prefix-hits", "inconclusive", "series-absent", without_series(metrics.PREFIX_CACHE_QUERIES, is_on)),
    ("same-prefix-hits", "inconclusive", "division-by-zero", edit_events(
        events.Scraped, lambda e: e.model_copy(update={"series": {
            key: 0.0 if "prefix_cache" in key else value for key, value in e.series.items()}}), is_on)),
    # memory-per-running
    ("memory-per-running", "fail", "memory-above",
     edit_events(events.GpuSampled, gpu_values(memory_mib=6000.0), lambda e: is_on(e) and e.concurrency == 16)),
    ("memory-per-running", "inconclusive", "gpu-not-sampled",
     edit_events(events.GpuSampled, lambda _: None, lambda e: is_on(e) and e.concurrency == 16)),
    ("memory-per-running", "inconclusive", "gpu-shared",
     edit_events(events.OthersSeen, updated(others=[OTHER]), of_cell("on", 16))),
    ("memory-per-running", "inconclusive", "gpu-shared",
     edit_events(events.OthersSeen, updated(others=[OTHER]), of_cell("off", 16, 2))),
    ("memory-per-running", "inconclusive", "gpu-shared", lambda journal: edit_events(
        events.OthersSeen, updated(others=[OTHER], unknown="ids differ"))(list(edit_events(
            events.GpuSampled, gpu_values(memory_mib=9000.0), is_on)(journal)))),
    ("memory-per-running", "inconclusive", "gpu-others-unknown",
     edit_events(events.OthersSeen, updated(unknown="ids differ"), of_cell("off", 4))),
    ("memory-per-running", "inconclusive", "gpu-others-not-looked", edit_events(events.OthersSeen, lambda _: None)),
    ("memory-per-running", "not-applicable", "gpu-not-sampled",
     edit_events(events.GpuSampled, lambda _: None)),
    # baseline-restored: not asked for, and judged
    ("baseline-restored", "pass", "baseline-equal", around([saved()], [restored()])),
    ("baseline-restored", "pass", "baseline-removed", around([ABSENT], [restored(compared=[])])),
    ("baseline-restored", "fail", "never-restored", around([saved()])),
    ("baseline-restored", "fail", "never-restored", around([ABSENT])),
    ("baseline-restored", "fail", "restore-failed",
     around([saved()], [restored(restored=False, reason="Conflict: changed by argocd")])),
    ("baseline-restored", "fail", "restore-failed", around([saved()], [restored(restored=False)])),
    ("baseline-restored", "fail", "restore-failed",
     around([ABSENT], [restored(compared=[], restored=False, reason="still there")])),
    ("baseline-restored", "fail", "baseline-differs", around([saved()], [restored(*EQUAL, DIFFERENT)])),
    ("baseline-restored", "fail", "baseline-differs", around([saved()], [restored(UNSEEN, DIFFERENT, restored=False)])),
    ("baseline-restored", "fail", "baseline-fields-differ", around([saved()], [restored(differences=["x: 1 → 2"])])),
    ("baseline-restored", "inconclusive", "baseline-unknown", around([saved()], [restored(*EQUAL, UNSEEN)])),
    ("baseline-restored", "inconclusive", "baseline-unknown", around([ABSENT], [restored(UNSEEN)])),
    ("baseline-restored", "inconclusive", "baseline-uncompared", around([saved()], [restored(compared=[])])),
    # Times over a way that is not to be trusted
    ("latency-cross-check", "inconclusive", "transport-doubted", over("port-forward", "by the API server", "on")),
    ("forward-model", "inconclusive", "transport-doubted", over("port-forward", "by the API server", "on")),
    ("forward-model", "inconclusive", "transport-doubted", over("port-forward", "by the API server", "off")),
    ("sequential-separated", "inconclusive", "transport-doubted", over("port-forward", "by the API server", "on")),
    ("sequential-separated", "inconclusive", "transport-doubted", over("port-forward", "by the API server", "off")),
    ("speedup", "inconclusive", "transport-doubted", over("port-forward", "by the API server", "on")),
    ("speedup", "inconclusive", "transport-doubted", over("port-forward", "by the API server", "off")),
    ("speedup", "pass", "speedup-above", over("cluster IP", None)),
    ("latency-cross-check", "pass", "latencies-agree", over("cluster IP", None)),
    # A client that was the limit
    ("latency-cross-check", "inconclusive", "client-lag", client(LAGS, where=is_on)),
    ("latency-cross-check", "inconclusive", "client-limit", edit_events(events.RequestDone, idle, measured_of_4)),
    ("latency-cross-check", "pass", "latencies-agree", client(watched(), watched())),
    ("forward-model", "inconclusive", "client-lag", client(LAGS, where=is_on)),
    ("forward-model", "inconclusive", "client-lag", client(LAGS, where=lambda e: e.arm == "off")),
    ("sequential-separated", "inconclusive", "client-lag", client(LAGS, where=is_on)),
    ("speedup", "inconclusive", "client-lag", client(LAGS, where=is_on)),
    ("speedup", "pass", "speedup-above", client(LAGS, where=lambda e: e.concurrency > 1)),
    ("spread-below-effect", "pass", "effect-above-spread", client(LAGS, where=is_on)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "judgement", "reason", "change"), CASES, ids=[f"{c[0]}-{c[2]}" for c in CASES])
def test_what_goes_wrong_is_found(tmp_path: Path, name: str, judgement: str, reason: str, change: Change) -> None:
    record = make_record(tmp_path, change=change)
    assert judged(record, name) == (judgement, {reason})


def only_off(spec: dict[str, Any]) -> None:
    del spec["conditions"]["on"], spec["phases"]["sequential"]["exclude-first"]


def sets(spec: dict[str, Any], runner: str) -> None:
    """The runner is what `on` is about, not a side effect of it."""
    effects = {name: value for name, value in EFFECTS.items() if name != "model-runner"}
    spec["conditions"]["on"].update({"side-effects": effects, "sets": {"model-runner": runner}})


EDITS: list[tuple[str, str, str, Edit]] = [
    ("declared-differences", "fail", "difference-undeclared",
     lambda spec: spec["conditions"]["on"]["side-effects"].pop("model-runner")),
    ("declared-differences", "fail", "difference-contradicted",
     lambda spec: spec["conditions"]["on"].update({"side-effects": {**EFFECTS, "model-runner": "V2"}})),
    ("declared-differences", "pass", "differences-declared", lambda spec: sets(spec, "V1")),
    ("declared-differences", "fail", "difference-contradicted", lambda spec: sets(spec, "V2")),
    ("declared-differences", "not-applicable", "one-condition", only_off),
    ("speedup", "not-applicable", "one-condition", only_off),
    ("acceptance-constant", "not-applicable", "no-speculation", only_off),
    ("positions-add-up", "not-applicable", "no-speculation", only_off),
    ("forward-model", "not-applicable", "no-speculation", only_off),
    ("sequential-separated", "not-applicable", "one-condition", only_off),
    ("sequential-separated", "not-applicable", "no-sequential", lambda spec: spec["phases"].pop("sequential")),
    ("spread-below-effect", "not-applicable", "one-condition", only_off),
    ("spread-below-effect", "inconclusive", "one-round", lambda spec: spec["phases"]["load"].update({"rounds": 1})),
    ("same-prefix-hits", "not-applicable", "one-condition", only_off),
    ("memory-per-running", "not-applicable", "one-condition", only_off),
    ("latency-cross-check", "not-applicable", "few-waves",
     lambda spec: spec["phases"]["load"].update({"concurrency": [32]})),
    ("baseline-restored", "not-applicable", "nothing-to-restore",
     lambda spec: spec["invariants"].update({"baseline-restored": {}})),
    ("request-options", "fail", "options-disabled", lambda spec: spec["request"].update({"min_p": 0.1})),
    ("speedup", "inconclusive", "one-round", lambda spec: spec["phases"]["load"].update({"rounds": 1})),
]  # fmt: skip


@pytest.mark.parametrize(("name", "judgement", "reason", "edit"), EDITS, ids=[f"{e[0]}-{e[2]}" for e in EDITS])
def test_what_the_spec_says_decides(tmp_path: Path, name: str, judgement: str, reason: str, edit: Edit) -> None:
    found = judged(make_record(tmp_path, edit), name)
    assert found[0] == judgement and reason in found[1]


CONTAMINATED = edit_events(events.Scraped, grown(metrics.E2E_COUNT, 4), after("on", 4, 2))
VARYING = edit_events(events.Scraped, grown(metrics.SPEC_ACCEPTED_TOKENS, -100), after("on", 32, 2))
SHORT = edit_events(events.RequestDone, updated(completion_tokens=66), lambda e: of_cell("on", 16)(e) and e.index == 7)


def one_other_text(journal: list[events.Event]) -> Any:
    other = events.OutputSeen(output_id="other", text="same test", reasoning="", token_ids=None)
    change = edit_events(
        events.RequestDone, updated(output_id="other"), lambda e: of_cell("on", 16)(e) and e.index == 7
    )
    return [journal[0], other, *change(journal[1:])]


OVERLAP = edit_events(
    events.RequestDone,
    lambda e: e.model_copy(update={"last_byte_ns": e.last_byte_ns + 2 * 10**9}),
    lambda e: of_cell("on", 1)(e) and e.index == 5,
)
WALL = edit_events(events.Scraped, grown(metrics.E2E_SUM, 15.0), after("off", 4, 2))
HITS = edit_events(events.Scraped, grown(metrics.PREFIX_CACHE_HITS, -50), after("on", 16, 2))
STEPS = edit_events(events.Scraped, grown(metrics.ITL_SUM, 1.0), after("on", 1))

# A name, a change to the run, and two values of a parameter that must be judged differently.
PARAMETERS: list[tuple[str, Change, dict[str, Any], str, dict[str, Any], str]] = [
    ("request-count", CONTAMINATED, {"max-surplus": 4}, "pass", {"max-surplus": 3}, "fail"),
    ("same-output", one_other_text, {"max-different": 1}, "pass", {"max-different": 0}, "fail"),
    ("same-token-count", SHORT, {"tolerance": 2}, "pass", {"tolerance": 1}, "fail"),
    ("acceptance-constant", VARYING, {"tolerance": 0.05}, "pass", {"tolerance": 0.01}, "fail"),
    ("speedup", list, {"min": 1.9}, "pass", {"min": 2.1}, "fail"),
    ("speedup", slower_round, {"metric": "latency"}, "pass", {"metric": "throughput"}, "inconclusive"),
    ("speedup", slower_round, {"concurrency": [1, 16]}, "pass", {"concurrency": [4]}, "inconclusive"),
    ("speedup", list, {"min": 2.1, "conditions": ["off"]}, "inconclusive", {"min": 2.1, "conditions": ["on"]}, "fail"),
    ("forward-model", STEPS, {"tolerance": 0.2}, "pass", {"tolerance": 0.05}, "fail"),
    ("latency-cross-check", WALL, {"tolerance": 0.2}, "pass", {"tolerance": 0.05}, "fail"),
    ("spread-below-effect", slower_round, {"factor": 0.1}, "pass", {"factor": 1.0}, "inconclusive"),
    ("same-prefix-hits", HITS, {"tolerance": 0.1}, "pass", {"tolerance": 0.0}, "fail"),
    ("sequential-separated", OVERLAP, {"conditions": ["off"]}, "inconclusive", {"conditions": ["on"]}, "fail"),
    ("spread-below-effect", slower_round, {"conditions": ["off"]}, "inconclusive", {"factor": 0.1}, "pass"),
    ("memory-per-running", list, {"max-mib": 26}, "pass", {"max-mib": 24}, "fail"),
    ("queue-only-above", list, {"limit": 16}, "pass", {"limit": 32}, "fail"),
    ("queue-only-above", list, {"argument": "max_num_seqs"}, "pass", {"argument": "served-model-name"}, "inconclusive"),
]


@pytest.mark.parametrize("case", PARAMETERS, ids=[f"{c[0]}-{'-'.join(c[2])}" for c in PARAMETERS])
def test_a_parameter_changed_flips_the_verdict(
    tmp_path: Path, case: tuple[str, Change, dict[str, Any], str, dict[str, Any], str]
) -> None:
    name, change, first, expected, second, flipped = case
    assert judged(make_record(tmp_path, with_invariant(name, first), change=change), name)[0] == expected
    assert judged(make_record(tmp_path, with_invariant(name, second), change=change), name)[0] == flipped


def test_every_parameter_of_the_language_is_tried_here() -> None:
    tried = {(case[0], parameter) for case in PARAMETERS for parameter in case[2]}
    declared = {
        (kebab(name), kebab(parameter))
        for name, field in Invariants.model_fields.items()
        for model in [field.annotation, *getattr(field.annotation, "__args__", ())]
        if hasattr(model, "model_fields")
        for parameter in model.model_fields
        if parameter != "allow_inconclusive"  # judged by the exit code, in test_outcome.py
    }
    assert tried == declared


def test_slower_is_a_failure_and_noise_is_not_an_effect(tmp_path: Path) -> None:
    assert judged(make_record(tmp_path, change=slower_round), "speedup") == ("inconclusive", {"speedup-not-separated"})


def test_the_first_difference_is_shown(tmp_path: Path) -> None:
    [result] = [r for r in run_checks(make_record(tmp_path, change=one_other_text)) if r.check == "same-output"]
    [finding] = [f for f in result.findings if f.reason == "outputs-differ"]
    shown = {key: finding.figures[key] for key in ("n", "different", "character", "reference", "other")}
    assert shown == {"n": 400, "different": 1, "character": 7, "reference": "xt", "other": "st"}


# ------------------------------------------------------------------------------------------------------
# Found by review: what once passed, or failed, and must not

NO_WARM_UP = edit_events(
    events.RequestDone, updated(verdict="http-error"), lambda e: e.arm == "on" and e.role == "warm-up"
)


def replicated(spec: dict[str, Any]) -> None:
    spec["replicates"] = 2


def second_on(event: Any) -> bool:
    return bool((event.arm, event.replicate) == ("on", 2))


def features(**values: Any) -> Any:
    found = {name.replace("_", "-"): events.FeatureFound(value=v, quote="", source="log") for name, v in values.items()}
    return lambda e: e.model_copy(update={"features": {**e.features, **found}})


def test_a_failed_warm_up_counts(tmp_path: Path) -> None:
    record = make_record(tmp_path, change=NO_WARM_UP)
    assert judged(record, "request-count") == ("inconclusive", {"window-failures"})
    assert judged(record, "speedup") == ("inconclusive", {"requests-failed"})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (edit_events(EVIDENCE, features(async_scheduling="enabled"), second_on), "difference-varying"),
        (edit_events(EVIDENCE, features(max_num_batched_tokens=512), second_on), "difference-varying"),
        (
            edit_events(EVIDENCE, lambda e: e.model_copy(update={"parsed": {**e.parsed, "seed": 7}}), second_on),
            "difference-undeclared",
        ),
        (
            edit_events(EVIDENCE, lambda e: e.model_copy(update={"parsed": {**e.parsed, "spec_tokens": 3}}), second_on),
            "difference-undeclared",
        ),
    ],
    ids=["declared-feature", "other-feature", "foreign-argument", "own-argument"],
)
def test_every_replicate_is_looked_at(tmp_path: Path, change: Change, reason: str) -> None:
    assert judged(make_record(tmp_path, replicated), "declared-differences")[0] == "pass"
    assert judged(make_record(tmp_path, replicated, change=change), "declared-differences") == ("fail", {reason})


@pytest.mark.parametrize("verdict", ["ignored", "missing", "differs"])
def test_a_contradicted_argument_fails_without_anybody_refusing(tmp_path: Path, verdict: str) -> None:
    bad = edit_events(
        EVIDENCE,
        lambda e: e.model_copy(update={"arguments": [ARGUMENT.model_copy(update={"verdict": verdict})]}),
        is_on,
    )
    assert judged(make_record(tmp_path, change=bad), "configuration-in-force") == ("fail", {"setting-refused"})
    proof = edit_events(events.CountersProved, updated(verdict="ignored", detail="flat"), is_on)
    assert judged(make_record(tmp_path, change=proof), "configuration-in-force") == ("fail", {"setting-refused"})


def test_what_was_only_parsed_is_named(tmp_path: Path) -> None:
    parsed = ARGUMENT.model_copy(update={"verdict": "parsed", "name": "max_num_seqs"})
    change = edit_events(EVIDENCE, lambda e: e.model_copy(update={"arguments": [*e.arguments, parsed]}))
    assert judged(make_record(tmp_path, change=change), "configuration-in-force") == ("pass", {"arguments-parsed"})


def test_a_round_never_started_is_missing(tmp_path: Path) -> None:
    def gone(journal: Any) -> Any:
        return [e for e in journal if not (isinstance(e, events.OfRound) and of_cell("on", 16, 2)(e))]

    # At 32 the same batch runs, and nothing confirms it any more.
    reasons = {"rounds-missing", "same-batch-unknown"}
    assert judged(make_record(tmp_path, change=gone), "speedup") == ("inconclusive", reasons)


def test_a_prompt_that_no_phase_sends_is_not_judged(tmp_path: Path) -> None:
    def unused(spec: dict[str, Any]) -> None:
        spec["prompts"]["q"] = {"messages": [{"role": "user", "content": "x"}]}
        for phase in spec["phases"].values():
            phase["prompts"] = ["p"]

    record = make_record(tmp_path, unused)
    assert judged(record, "same-output")[0] == judged(record, "same-token-count")[0] == "pass"


def test_constant_needs_two_concurrencies(tmp_path: Path) -> None:
    def one(spec: dict[str, Any]) -> None:
        spec["phases"] = {"load": {"concurrency": [4], "requests": 64, "rounds": 2}}

    assert judged(make_record(tmp_path, one), "acceptance-constant") == ("not-applicable", {"one-concurrency"})


def test_a_window_that_began_on_a_busy_engine_is_not_trusted(tmp_path: Path) -> None:
    busy = edit_events(events.RoundFinished, updated(busy_before="vllm:num_requests_running is 1"), of_cell("on", 4))
    assert judged(make_record(tmp_path, change=busy), "request-count") == ("inconclusive", {"never-idle"})


def test_a_queue_beside_free_slots_is_not_the_limits_doing(tmp_path: Path) -> None:
    kv_bound = edit_events(
        events.Sampled, updated(running=4.0, waiting=28.0), lambda e: e.arm == "on" and e.concurrency == 32
    )
    assert judged(make_record(tmp_path, change=kv_bound), "queue-only-above") == ("fail", {"queue-elsewhere"})
    beyond = edit_events(
        events.Sampled, updated(running=32.0, waiting=0.0), lambda e: e.arm == "on" and e.concurrency == 32
    )
    assert judged(make_record(tmp_path, change=beyond), "queue-only-above") == ("fail", {"limit-exceeded"})


def test_a_restart_before_the_first_round_is_a_restart(tmp_path: Path) -> None:
    restarted = edit_events(events.EngineReady, updated(engine="pid 0"), is_on)
    assert judged(make_record(tmp_path, change=restarted), "one-engine-process") == ("fail", {"engine-restarted"})


@pytest.mark.parametrize(
    ("command", "differ", "judgement"), [([], True, "fail"), ([], False, "pass"), (["vllm"], True, "pass")]
)
def test_one_server_under_two_names_is_not_two_conditions(
    tmp_path: Path, command: list[str], differ: bool, judgement: str
) -> None:
    def same_engine(spec: dict[str, Any]) -> None:
        if not differ:
            spec["conditions"]["on"] = {"request": {"temperature": 1}}

    def there(journal: list[events.Event]) -> Any:
        there_before = edit_events(events.EngineLaunched, updated(command=command))
        one_start = edit_events(
            events.Scraped,
            lambda e: e.model_copy(update={"series": (e.series or {}) | {metrics.PROCESS_START: 1000.0}}),
        )
        return one_start(list(there_before(journal)))

    record = make_record(tmp_path, same_engine, change=there)
    assert judged(record, "one-engine-process")[0] == judgement
    [result] = [one for one in run_checks(record) if one.check == "one-engine-process"]
    shared = [(one.subject, one.figures) for one in result.findings if one.reason == "process-shared"]
    assert shared == ([("off", {"other": "on"})] if judgement == "fail" else [])


def test_tolerated_foreign_traffic_is_not_said_to_agree(tmp_path: Path) -> None:
    record = make_record(tmp_path, with_invariant("request-count", {"max-surplus": 4}), change=CONTAMINATED)
    assert judged(record, "request-count") == ("pass", {"counts-agree", "surplus-tolerated"})


def test_the_second_replicates_disabled_options_count(tmp_path: Path) -> None:
    def asks(spec: dict[str, Any]) -> None:
        replicated(spec)
        spec["request"]["min_p"] = 0.1

    free = edit_events(EVIDENCE, features(unsupported_sampling=[]), lambda e: e.replicate == 1)
    assert judged(make_record(tmp_path, asks, change=free), "request-options") == ("fail", {"options-disabled"})


def slow_rounds(level: int) -> Change:
    """Every round of `on` at one concurrency lasts as long as thrice the baseline's."""
    return edit_events(
        events.RequestDone,
        lambda e: e.model_copy(
            update={"ended_ns": e.ended_ns + 30 * 10**9, "last_byte_ns": e.last_byte_ns + 30 * 10**9}
        ),
        lambda e: e.arm == "on" and e.concurrency == level and e.index == 64,
    )


@pytest.mark.parametrize(("slow", "other", "verdict"), [(32, 16, "inconclusive"), (4, 16, "pass")])
def test_an_effect_that_the_same_batch_does_not_show_again_is_noise(
    tmp_path: Path, slow: int, other: int, verdict: str
) -> None:
    # At 16 and 32 the same 16 requests run; at 4 they do not.
    parameters = with_invariant("speedup", {"concurrency": [other]})
    record = make_record(tmp_path, parameters, change=slow_rounds(slow))
    reason = "speedup-not-confirmed" if verdict == "inconclusive" else "speedup-above"
    assert judged(record, "speedup") == (verdict, {reason})


def test_what_a_condition_sets_confounds_nothing(tmp_path: Path) -> None:
    plain, chosen = make_record(tmp_path), make_record(tmp_path, lambda spec: sets(spec, "V1"))
    names = [[one.feature for one in confounders(record, record.plan.arm("on"))] for record in (plain, chosen)]
    assert names == [
        ["async-scheduling", "model-runner", "unsupported-sampling"],
        ["async-scheduling", "unsupported-sampling"],
    ]
