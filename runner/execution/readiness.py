"""Waiting until an engine really answers."""

import asyncio
import signal

from runner.access import http_client
from runner.engine import failure, metrics
from runner.engine.verdict import Verdict
from runner.execution.context import Context, Stopped
from runner.execution.idle import IdleWatch
from runner.execution.requests import Place, request_done
from runner.execution.said import Said, ask
from runner.execution.sending import hear, pack, send
from runner.load.reading import Judged
from runner.plan.model import Arm, Launch, encode_body
from runner.record.events import EngineReady
from runner.sample.scrape import Scrape, scrape
from runner.target.base import RunningEngine, TargetError

_POLL = 0.05
_SELDOM = 20
"""One of so many polls also asks who else has the engine's place: about once a second."""


async def wait_ready(
    context: Context, launch: Launch, arm: Arm, engine: RunningEngine, watch: IdleWatch, started: int
) -> tuple[Place, Said]:
    """Wait for a real one-token completion under the wanted model name; returns the place of what comes next, and
    what the server says of itself. `started`: nanoseconds of the run at which the launch began, so that what a target
    waits for by itself, a rollout, is part of the start and of its limit.

    Raises TargetError when the process ends, refuses the request, or takes too long; Stopped when the run is
    told to stop. `/health` is not asked: it answers before the model can.
    """
    # Nothing of the experiment's own fields but the model and a prompt: any of them may contradict one token.
    planned = context.plan.body(arm, context.plan.phases[0].prompts[0], stream=False)
    body = {"model": planned["model"], "messages": planned["messages"], "max_tokens": 1, "stream": False}
    body_name = context.body_seen("readiness", body)
    async with http_client(context.access) as client:
        watch.begins(await scrape(client, engine.endpoint, context.clock))
    unknown = Place(launch, "start", 1, 0, "")
    judged = await _first_completion(context, unknown, engine, encode_body(body), str(body["model"]), started)
    await pack(context, unknown)
    watch.answered([judged])
    await engine.look()
    if (error := gone(engine, "while starting")) is not None:
        raise error
    async with http_client(context.access) as client:
        identity = engine_identity(engine, await scrape(client, engine.endpoint, context.clock))
    place = Place(launch, "start", 1, 0, identity)
    context.emit(request_done(context, place, "probe", judged, body_name))
    said = await ask(context, launch, engine.endpoint)
    context.emit(
        EngineReady(
            arm=launch.arm,
            replicate=launch.replicate,
            engine=identity,
            seconds=round((context.clock.now() - started) / 1e9, 3),
            version=said.version.version,
            models=[model.id for model in said.models or ()],
            simulated=said.version.simulated,
        )
    )
    return place, said


async def _first_completion(
    context: Context, place: Place, engine: RunningEngine, body: bytes, model: str, started: int
) -> Judged:
    limit = context.plan.limits.startup_seconds
    deadline = started + int(limit * 1e9)
    index = 0
    while not context.stop.is_set():
        await engine.look()
        asked = engine.exit_code() is not None or index % _SELDOM == 0
        if asked and (error := gone(engine, "while starting")) is not None:
            raise error
        remaining = (deadline - context.clock.now()) / 1e9
        captures = await send(
            context,
            place,
            engine.endpoint,
            [body],
            requests=1,
            concurrency=1,
            first_index=index,
            timeout=max(remaining, 0.1),
        )
        heard = await hear(context, captures, model=model, stream=False)
        judged = next(iter(heard.judged), None)
        if judged is None:
            raise Stopped
        if judged.verdict is Verdict.OK:
            return judged
        found = f"{judged.verdict}: {judged.detail}"
        status = judged.exchange.status
        if status is not None and 400 <= status < 500 and status != 429:
            raise TargetError(f"the engine refuses a one-token request: {found}", last_words(engine))
        if judged.verdict is Verdict.WRONG_MODEL:
            raise TargetError(f"another model answers: {found}", last_words(engine))
        if context.clock.now() > deadline:
            raise TargetError(f"no completion within {limit:g} s of the start; last {found}", last_words(engine))
        index += 1
        await asyncio.sleep(_POLL)
    raise Stopped


def gone(engine: RunningEngine, when: str) -> TargetError | None:
    """Why what was seen at the last look ends the work with this engine; None where nothing does.

    How it ended, of what as far as its own words say, and what else may answer in its place: a Pod that is deleted ends
    its engine, and either may be seen first.
    """
    code, other = engine.exit_code(), engine.stranger()
    if code is None:
        return None if other is None else TargetError(f"{when}: {other}", last_words(engine))
    words = last_words(engine)
    told = failure.cause(words)
    how = f"with exit code {code}" if code >= 0 else f"by {signal.Signals(-code).name}"
    ended = f"the engine ended {how} {when}{f': {told}' if told else ''}"
    return TargetError(ended if other is None else f"{ended}; {other}", words)


def last_words(engine: RunningEngine) -> list[str]:
    """The engine's own words for what went wrong."""
    return failure.last_words(engine.log() or [])


def engine_identity(engine: RunningEngine, seen: Scrape) -> str:
    """What a restart would change, as far as it can be seen now: the target's word for the process, and the start
    time that the process itself exposes."""
    started = seen.exposition.total(metrics.PROCESS_START) if seen.exposition is not None else None
    return f"{engine.identity}, start {started:.2f}" if started is not None else engine.identity


async def unreachable(context: Context, engine: RunningEngine) -> str | None:
    """Why an engine whose end nobody is told of has ended all the same; None while something answers there."""
    async with http_client(context.access) as client:
        seen = await scrape(client, engine.endpoint, context.clock)
    return f"nothing answers at {engine.endpoint} any more ({seen.error})" if seen.refused else None
