"""A whole run: launch after launch, until the plan is done, something forbids to go on, or a signal comes."""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, TypeVar

from runner.execution.context import Context, Stopped
from runner.execution.gpus.watch import GpuWatch
from runner.execution.idle import IdleWatch
from runner.execution.proof import prove
from runner.execution.readiness import gone, last_words, unreachable, wait_ready
from runner.execution.requests import Place, launch_folder
from runner.execution.rounds import RoundRunner
from runner.plan.model import Arm, Launch
from runner.record.events import DeclinedToRun, EngineFailed, EngineLaunched, EngineStopped, LaunchStarted, Refused
from runner.sample.gauges import FIRST_REQUEST
from runner.target.base import Declined, RunningEngine, Stay, Target, TargetError

T = TypeVar("T")

_SHOWN_SECONDS = 5.0
_SHOWN_POLL = 0.2


async def execute(context: Context, target: Target) -> None:
    """Carry the plan out. What goes wrong with an engine becomes an event; an engine is always stopped.

    A condition that does not start, or is not in force, ends the run: without it there is no comparison, and
    a GPU's time is not spent on half of one. An engine that dies under load ends its own launch only.
    """
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(context.load)
        try:
            stay = Stay(context.plan, context.directory.name, context.directory, context.emit)
            await _unless_stopped(context, stack.enter_async_context(target.stay(stay)))
        except Declined as error:
            context.emit(DeclinedToRun(reason=str(error)))
            return
        except TargetError as error:
            first = context.plan.launches[0]
            context.emit(LaunchStarted(arm=first.arm, replicate=first.replicate))
            _failed(context, first, "start", error)
            return
        except Stopped:
            return
        for launch in context.plan.launches:
            if context.stop.is_set():
                return
            async with GpuWatch(context, launch) as gpus:
                if not await _launch(context, target, launch, gpus):
                    return


async def _launch(context: Context, target: Target, launch: Launch, gpus: GpuWatch) -> bool:
    """Whether the run may go on."""
    arm = context.plan.arm(launch.arm)
    context.emit(LaunchStarted(arm=launch.arm, replicate=launch.replicate))
    log = context.artifact(launch_folder(launch), "engine.log")
    begun = context.clock.now()
    try:
        engine = await _unless_stopped(context, target.launch(context.plan.model, arm, log))
    except TargetError as error:
        _failed(context, launch, "start", error)
        return False
    except Stopped:
        return False
    go_on = False
    try:
        context.emit(
            EngineLaunched(
                arm=launch.arm,
                replicate=launch.replicate,
                command=engine.command,
                env=engine.env,
                endpoint=engine.endpoint,
                log=None if engine.log() is None else log.relative_to(context.directory).as_posix(),
                transport=None if engine.transport is None else engine.transport.name,
                transport_doubt=None if engine.transport is None else engine.transport.doubt,
                facts=engine.facts,
            )
        )
        go_on = await _measure(context, launch, arm, engine, gpus, begun)
    except TargetError as error:
        _failed(context, launch, "start", error)
    except Stopped:
        pass
    finally:
        how = await engine.stop()
        context.emit(EngineStopped(arm=launch.arm, replicate=launch.replicate, how=how, exit_code=engine.exit_code()))
    if go_on and engine.remains is not None:
        # The next engine would be measured beside it.
        _failed(context, launch, "run", TargetError(f"it could not be ended: {engine.remains}", last_words(engine)))
        return False
    return go_on


async def _unless_stopped(context: Context, work: Coroutine[Any, Any, T]) -> T:
    """What `work` returns or raises. Stopped when the run is told to stop, which ends a work that takes its time; what
    it puts in order on its way out is waited for."""
    task = asyncio.ensure_future(work)
    told = asyncio.ensure_future(context.stop.wait())
    try:
        await asyncio.wait({task, told}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise Stopped
    finally:
        told.cancel()
        await _ended(task)


async def _ended(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait for its end; cancelled meanwhile, tell the task again, and wait all the same."""
    again: asyncio.CancelledError | None = None
    while not task.done():
        task.cancel()
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            again = error
    if not task.cancelled():
        task.exception()  # heard
    if again is not None:
        raise again


async def _measure(
    context: Context, launch: Launch, arm: Arm, engine: RunningEngine, gpus: GpuWatch, begun: int
) -> bool:
    watch = IdleWatch(context, engine)
    start, said = await wait_ready(context, launch, arm, engine, watch, begun)
    await gpus.find(engine)
    proved = await prove(context, start, arm, engine, watch, said)
    if proved.reasons:
        context.emit(Refused(arm=launch.arm, replicate=launch.replicate, reasons=proved.reasons))
        return False
    latency = None if proved.latency is None else proved.latency / FIRST_REQUEST
    for phase in context.plan.phases:
        rounds = RoundRunner(context, arm, phase, engine, watch, gpus)
        for concurrency in phase.concurrency:
            for number in range(1, phase.rounds + 1):
                if context.stop.is_set():
                    return False
                place = Place(launch, phase.name, concurrency, number, start.engine)
                latency = await rounds.run(place, latency)
                if (error := await _lost(context, engine, f"during {place.stem}")) is not None:
                    _failed(context, launch, "run", error)
                    return True
    return True


async def _lost(context: Context, engine: RunningEngine, when: str) -> TargetError | None:
    """Why nothing more can be measured on this engine; None where it still answers, and answers alone."""
    await engine.look()
    if (error := gone(engine, when)) is not None or context.stop.is_set():
        return error
    reason = await unreachable(context, engine)
    if reason is None:
        return None
    return await _seen_to_end(engine, when) or TargetError(f"{reason} {when}", last_words(engine))


async def _seen_to_end(engine: RunningEngine, when: str) -> TargetError | None:
    """How an engine ended that does not answer any more. Where others watch over it, they show that a moment later."""
    deadline = asyncio.get_running_loop().time() + _SHOWN_SECONDS
    while engine.command and gone(engine, when) is None and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(_SHOWN_POLL)
        await engine.look()
    return gone(engine, when)


def _failed(context: Context, launch: Launch, stage: str, error: TargetError) -> None:
    context.emit(
        EngineFailed.model_validate(
            {
                "arm": launch.arm,
                "replicate": launch.replicate,
                "stage": stage,
                "reason": str(error),
                "words": error.words,
                "seconds": error.seconds,
            }
        )
    )
