"""Proving that a condition is in force before anything is measured under it."""

from collections.abc import Mapping
from dataclasses import dataclass

from runner.access import http_client
from runner.engine import drafting, evidence, features, sources, speculation
from runner.engine.exposition import Exposition
from runner.engine.log import LogEvidence, read_log
from runner.engine.verdict import Verdict
from runner.execution.context import Context, Stopped
from runner.execution.idle import IdleWatch
from runner.execution.requests import PROOF, Place, duration_s, request_done
from runner.execution.said import Said
from runner.execution.sending import hear, pack, send
from runner.load.reading import Judged
from runner.plan.model import Arm, Launch, Plan, encode_body
from runner.record.events import CountersProved, EvidenceRead
from runner.record.parts import ArgumentFound, FeatureFound, Speculation
from runner.sample.scrape import Idle, Scrape
from runner.target.base import RunningEngine


@dataclass(frozen=True, slots=True)
class Proved:
    """Why the condition must not be measured (empty: nothing speaks against it), and the time of one whole
    request in seconds, from which the sampling interval follows."""

    reasons: list[str]
    latency: float | None


async def prove(
    context: Context, place: Place, arm: Arm, engine: RunningEngine, watch: IdleWatch, said: Said
) -> Proved:
    """Read the log, the metrics and what the server says of itself, then send one whole request and see which
    counters move.

    Every arm gets the same request, so that their caches and counts stay alike.
    """
    async with http_client(context.access) as client:
        lines = engine.log()
        log = None if lines is None else read_log(lines)
        before = (await watch.idle(client)).scrape
        context.keep_scrape(before, place.folder, "proof-before.prom")
        # What we started has the model and the variables that we gave it; what was there has to show them.
        shown = Shown(context.plan.model, arm.env) if not engine.command else None
        found = evidence_read(place.launch, arm, log, before.exposition, said, shown)
        context.emit(found)
        reasons = _contradictions(context.plan, found, said)
        if reasons:
            return Proved(reasons, None)
        judged, prompt_text = await _whole_request(context, place, arm, engine)
        watch.answered([judged])
        after = await watch.idle(client)
        context.keep_scrape(after.scrape, place.folder, "proof-after.prom")
    event = _judge_counters(
        place.launch, _speculation(log, before.exposition, said), before, after, prompt_text, judged
    )
    context.emit(event)
    ignored = [event.detail] if event.verdict == "ignored" else []
    return Proved(ignored, duration_s(judged) if judged.verdict is Verdict.OK else None)


@dataclass(frozen=True, slots=True)
class Shown:
    """What an engine that was not started here must show beside its arguments."""

    model: str
    env: Mapping[str, str]


def _contradictions(plan: Plan, found: EvidenceRead, said: Said) -> list[str]:
    reasons = [
        f"{one.name}: wanted {one.wanted!r}, {one.verdict}: {one.reason}"
        for one in found.arguments
        if one.verdict in evidence.CONTRADICTING
    ]
    version = found.version or said.version.version
    if plan.engine_version is not None and version not in (None, plan.engine_version):
        reasons.append(f"engine version: wanted {plan.engine_version}, found {version}")
    return reasons


def evidence_read(
    launch: Launch,
    arm: Arm,
    log: LogEvidence | None,
    exposition: Exposition | None,
    said: Said | None = None,
    shown: Shown | None = None,
) -> EvidenceRead:
    """What a log, a scrape and the server's own words say about the arm, as the journal keeps it."""
    said, parsed = said or Said(), log or LogEvidence()
    info = said.info
    wanted = arm.wanted if shown is None else {"model": shown.model, **arm.wanted}
    arguments = evidence.judge(wanted, log, exposition, info, said.models)
    if shown is not None:
        arguments += evidence.judge_environment(shown.env, info)
    told = _speculation(log, exposition, said)
    return EvidenceRead(
        arm=launch.arm,
        replicate=launch.replicate,
        version=parsed.version or (info.version if info is not None else None),
        arguments=[
            ArgumentFound(
                name=one.name,
                wanted=one.wanted,
                parsed=_plain(one.parsed),
                configured=_plain(one.configured),
                verdict=str(one.verdict),
                reason=one.reason,
                quote=one.quote,
                source=one.source,
            )
            for one in arguments
        ],
        parsed=parsed.non_default_args,
        features={
            name: FeatureFound(
                value=list(one.value) if isinstance(one.value, tuple) else one.value,
                quote=one.quote,
                source=one.source,
            )
            for name, one in features.features(log, exposition, info).items()
        },
        speculation=(
            Speculation(
                method=told.speculative.method,
                model=told.speculative.model,
                tokens=told.speculative.tokens,
            )
            if told is not None and told.speculative is not None
            else None
        ),
        speculation_source=told.source if told is not None else None,
        engine_config=parsed.engine_config,
        kv_cache_tokens=parsed.kv_cache_tokens or (info.kv_cache_tokens if info is not None else None),
        model_memory_gib=parsed.model_memory_gib,
        quotes=parsed.quotes if told is None else {**parsed.quotes, "speculative": told.quote},
        absent=said.absent if log is not None else {sources.LOG: "not to be seen by this target", **said.absent},
    )


def _speculation(log: LogEvidence | None, exposition: Exposition | None, said: Said) -> speculation.Told | None:
    """The most telling word for what the engine was configured to draft."""
    return next(iter(speculation.told(sources.Sources(log, exposition, said.info, said.models))), None)


async def _whole_request(context: Context, place: Place, arm: Arm, engine: RunningEngine) -> tuple[Judged, str]:
    phase = context.plan.phases[0]
    prompt = phase.prompts[0]
    body = context.plan.body(arm, prompt, stream=phase.stream)
    captures = await send(
        context,
        place,
        engine.endpoint,
        [encode_body(body)],
        requests=1,
        concurrency=1,
        kind=PROOF,
    )
    heard = await hear(context, captures, model=str(body["model"]), stream=phase.stream)
    judged = next(iter(heard.judged), None)
    if judged is None:
        raise Stopped
    await pack(context, place)
    context.emit(request_done(context, place, "proof", judged, context.body_seen(prompt, body)))
    text = "\n".join(message["content"] for message in context.plan.prompts[prompt].messages)
    return judged, text


def _judge_counters(
    launch: Launch, told: speculation.Told | None, before: Scrape, after: Idle, prompt: str, judged: Judged
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
    configured = told.speculative if told is not None else None
    if configured is None:
        off = told is not None
        if moved.state == "moved" and off:
            return event(moved.state, False, "ignored", f"speculation is off, yet it drafted: {moved.detail}")
        unknown = not off and moved.state != "absent"
        return event(moved.state, False, "unknown" if unknown else "in-force", moved.detail)
    must = drafting.certainly_drafts(configured.method or "", [(prompt, judged.reply.text)])
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
