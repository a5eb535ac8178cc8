"""Proving that a condition is in force before anything is measured under it."""

from dataclasses import dataclass

import httpx

from runner.engine import drafting, evidence, features
from runner.engine.exposition import Exposition
from runner.engine.log import LogEvidence, read_log
from runner.engine.verdict import Verdict
from runner.execution.context import Context, Stopped
from runner.execution.idle import IdleWatch
from runner.execution.requests import Place, duration_s, keep_responses, request_done
from runner.load.closed_loop import Load, closed_loop
from runner.load.reading import Judged, judge_exchange
from runner.plan.model import Arm, Launch, encode_body
from runner.record.events import ArgumentFound, CountersProved, EvidenceRead, FeatureFound, Speculation
from runner.sample.scrape import Idle, Scrape
from runner.target.base import RunningEngine


@dataclass(frozen=True, slots=True)
class Proved:
    """Why the condition must not be measured (empty: nothing speaks against it), and the time of one whole
    request in seconds, from which the sampling interval follows."""

    reasons: list[str]
    latency: float | None


async def prove(context: Context, place: Place, arm: Arm, engine: RunningEngine, watch: IdleWatch) -> Proved:
    """Read the log and the metrics, then send one whole request and see which counters move.

    Every arm gets the same request, so that their caches and counts stay alike.
    """
    async with httpx.AsyncClient(trust_env=False) as client:
        log = read_log(engine.log() or [])
        before = (await watch.idle(client)).scrape
        context.keep_scrape(before, place.folder, "proof-before.prom")
        reasons = _read_evidence(context, place.launch, arm, log, before.exposition)
        if reasons:
            return Proved(reasons, None)
        judged, prompt_text = await _whole_request(context, place, arm, engine)
        watch.answered([judged])
        after = await watch.idle(client)
        context.keep_scrape(after.scrape, place.folder, "proof-after.prom")
    event = _judge_counters(place.launch, log, before, after, prompt_text, judged)
    context.emit(event)
    ignored = [event.detail] if event.verdict == "ignored" else []
    return Proved(ignored, duration_s(judged) if judged.verdict is Verdict.OK else None)


def _read_evidence(
    context: Context, launch: Launch, arm: Arm, log: LogEvidence, exposition: Exposition | None
) -> list[str]:
    event = evidence_read(launch, arm, log, exposition)
    context.emit(event)
    reasons = [
        f"{one.name}: wanted {one.wanted!r}, {one.verdict}: {one.reason}"
        for one in event.arguments
        if one.verdict in evidence.CONTRADICTING
    ]
    wanted = context.plan.engine_version
    if wanted is not None and log.version is not None and log.version != wanted:
        reasons.append(f"engine version: wanted {wanted}, found {log.version}")
    return reasons


def evidence_read(launch: Launch, arm: Arm, log: LogEvidence, exposition: Exposition | None) -> EvidenceRead:
    """What a log and a scrape say about the arm, as the journal keeps it."""
    configured = log.speculative
    return EvidenceRead(
        arm=launch.arm,
        replicate=launch.replicate,
        version=log.version,
        arguments=[
            ArgumentFound(
                name=one.name,
                wanted=one.wanted,
                parsed=_plain(one.parsed),
                configured=_plain(one.configured),
                verdict=str(one.verdict),
                reason=one.reason,
                quote=one.quote,
            )
            for one in evidence.judge(arm.wanted, log, exposition)
        ],
        parsed=log.non_default_args,
        features={
            name: FeatureFound(
                value=list(one.value) if isinstance(one.value, tuple) else one.value,
                quote=one.quote,
                source=one.source,
            )
            for name, one in features.features(log, exposition).items()
        },
        speculation=(
            Speculation(method=configured.method, model=configured.model, tokens=configured.tokens)
            if configured is not None
            else None
        ),
        engine_config=log.engine_config,
        kv_cache_tokens=log.kv_cache_tokens,
        model_memory_gib=log.model_memory_gib,
        quotes=log.quotes,
    )


async def _whole_request(context: Context, place: Place, arm: Arm, engine: RunningEngine) -> tuple[Judged, str]:
    phase = context.plan.phases[0]
    prompt = phase.prompts[0]
    body = context.plan.body(arm, prompt, stream=phase.stream)
    load = Load(engine.endpoint, [encode_body(body)], 1, context.plan.limits.request_timeout_seconds)
    done = next(iter(await closed_loop(load, clock=context.clock, stop=context.stop)), None)
    if done is None:
        raise Stopped
    judged = judge_exchange(done, model=str(body["model"]), stream=phase.stream)
    keep_responses(context, place, [judged])
    context.emit(request_done(context, place, "proof", judged, context.body_seen(prompt, body)))
    text = "\n".join(message["content"] for message in context.plan.prompts[prompt].messages)
    return judged, text


def _judge_counters(
    launch: Launch, log: LogEvidence, before: Scrape, after: Idle, prompt: str, judged: Judged
) -> CountersProved:
    def event(state: str, must_move: bool | None, verdict: str, detail: str) -> CountersProved:
        return CountersProved(
            arm=launch.arm,
            replicate=launch.replicate,
            state=state,
            must_move=must_move,
            verdict=verdict,
            detail=detail,
            drafts=moved.drafts if moved is not None else None,
            draft_tokens=moved.draft_tokens if moved is not None else None,
            accepted=moved.accepted_tokens if moved is not None else None,
        )

    moved: drafting.CountersMoved | None = None
    if before.exposition is None or after.scrape.exposition is None:
        return event("absent", None, "unknown", f"no metrics: {before.error or after.scrape.error}")
    if judged.reply is None or judged.verdict is not Verdict.OK:
        return event("unknown", None, "unknown", f"the request itself failed: {judged.verdict}: {judged.detail}")
    moved = drafting.speculation_counters(before.exposition, after.scrape.exposition)
    if log.speculative is None:
        if moved.state == "moved" and log.speculative_off:
            return event(moved.state, False, "ignored", f"speculation is off, yet it drafted: {moved.detail}")
        unknown = not log.speculative_off and moved.state != "absent"
        return event(moved.state, False, "unknown" if unknown else "in-force", moved.detail)
    must = drafting.certainly_drafts(log.speculative.method or "", [(prompt, judged.reply.text)])
    if moved.state == "moved":
        return event(moved.state, must, "in-force", moved.detail)
    if moved.state == "flat" and must and after.reason is None:
        detail = "speculation is configured, this output repeats itself, and yet no draft was counted"
        return event(moved.state, must, "ignored", detail)
    return event(moved.state, must, "unknown", moved.detail)


def _plain(value: object) -> object:
    """ABSENT as null, tuples as lists: what JSON can hold."""
    if value is evidence.ABSENT:
        return None
    return list(value) if isinstance(value, tuple) else value
