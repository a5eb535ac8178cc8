"""One round: scrape, load with sampling, wait until the engine is idle, scrape."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from runner.access import http_client
from runner.engine.verdict import Verdict
from runner.execution.context import Context
from runner.execution.gpus.watch import GpuWatch
from runner.execution.idle import IdleWatch
from runner.execution.readiness import engine_identity
from runner.execution.requests import WARM_UP, Place, duration_s, request_done
from runner.execution.sending import hear, pack, send
from runner.load.generator import InFlight
from runner.load.reading import Heard, Judged
from runner.plan.model import Arm, PlannedPhase, encode_body
from runner.record.events import ClientWatched, RoundFinished, RoundStarted, Sampled, Scraped
from runner.sample.gauges import Sampler, sampling_interval
from runner.sample.scrape import Scrape
from runner.target.base import RunningEngine

_BETWEEN_LOOKS = 1.0
"""Seconds: an engine that dies is named within seconds, and looking costs its place nearly nothing."""


class RoundRunner:
    """Runs the rounds of one phase on one engine."""

    def __init__(
        self,
        context: Context,
        arm: Arm,
        phase: PlannedPhase,
        engine: RunningEngine,
        watch: IdleWatch,
        gpus: GpuWatch,
    ) -> None:
        self._context, self._arm, self._phase, self._engine = context, arm, phase, engine
        self._watch, self._gpus = watch, gpus
        bodies = [(name, context.plan.body(arm, name, stream=phase.stream)) for name in phase.prompts]
        self._body_ids = [context.body_seen(name, body) for name, body in bodies]
        self._encoded = [encode_body(body) for _, body in bodies]
        self._model = str(bodies[0][1]["model"])

    async def run(self, place: Place, latency: float | None) -> float | None:
        """One round; `latency` is the latest known time of one request in seconds, and so is what returns."""
        context, phase = self._context, self._phase
        context.emit(RoundStarted(**_round(place), requests=phase.requests))
        async with http_client(context.access) as client:
            warm: list[Judged] = []
            if not phase.warm_up_counted:
                warm = await self._warm_up(place)
            before = await self._watch.idle(client)
            place = replace(place, engine=engine_identity(self._engine, before.scrape))
            self._scraped(place, "before", before.scrape)
            if phase.warm_up_counted:
                warm = await self._warm_up(place)
            interval = sampling_interval(
                context.plan.sampling_interval,
                latency=_fastest(warm, latency),
                requests=phase.requests,
                concurrency=place.concurrency,
            )
            sampler = Sampler(self._engine.endpoint, interval, context.clock, context.access)
            gpus = self._gpus.series(interval)
            async with _meanwhile(sampler.run(), *([gpus.run()] if gpus is not None else [])):
                captures = await self._send(
                    place, phase.requests, place.concurrency, phase.warm_up, listen=context.in_flight
                )
            others = await self._gpus.others(place, gpus)
            heard = await self._hear(captures)
            measured = heard.judged
            after = await self._watch.idle(client)
        self._record(place, warm, heard, sampler)
        for sample in self._gpus.sampled(place, gpus):
            context.emit(sample)
        for seen in others:
            context.emit(seen)
        place = replace(place, engine=engine_identity(self._engine, after.scrape))
        await self._engine.look()
        self._scraped(place, "after", after.scrape)
        whole = (len(warm), len(measured)) == (phase.warm_up, phase.requests)
        lived = self._lived(after.scrape) and not context.stop.is_set()
        context.emit(
            RoundFinished(
                **_round(place),
                busy_before=before.reason,
                busy_after=after.reason,
                sampling_interval=interval,
                complete=lived and whole,
                cut_after=context.plan.limits.round_seconds if lived and not whole else None,
            )
        )
        await pack(context, place)  # once it is in the journal: nothing of it is lost where the disk is full
        return _fastest([*warm, *measured], latency)

    async def _warm_up(self, place: Place) -> list[Judged]:
        """One after the other, and not watched: whoever warms up is in no hurry."""
        heard = await self._hear(await self._send(place, self._phase.warm_up, 1, 0, kind=WARM_UP))
        return heard.judged

    async def _send(
        self,
        place: Place,
        count: int,
        concurrency: int,
        first_index: int,
        *,
        kind: str = "",
        listen: Callable[[InFlight], None] = lambda _: None,
    ) -> list[Path]:
        context = self._context
        async with _while_it_lives(self._engine, context.stop) as over:
            return await send(
                context,
                place,
                self._engine.endpoint,
                self._encoded,
                requests=count,
                concurrency=concurrency,
                kind=kind,
                first_index=first_index,
                seconds=context.plan.limits.round_seconds,
                stop=over,
                listen=listen,
            )

    async def _hear(self, captures: list[Path]) -> Heard:
        heard = await hear(self._context, captures, model=self._model, stream=self._phase.stream)
        self._watch.answered(heard.judged)
        return heard

    def _lived(self, last: Scrape) -> bool:
        """Whether nothing says that the engine has ended: the requests that a dead one refuses come back at once."""
        return self._engine.exit_code() is None and self._engine.stranger() is None and not last.refused

    def _prompt(self, index: int) -> int:
        return index % len(self._encoded)

    def _scraped(self, place: Place, moment: str, scrape: Scrape) -> None:
        name, series = self._context.keep_scrape(scrape, place.folder, f"{place.stem}-{moment}.prom")
        self._context.emit(
            Scraped.model_validate(
                {
                    **place.fields,
                    "moment": moment,
                    "at_ns": scrape.at_ns,
                    "artifact": name,
                    "series": series,
                    "error": scrape.error,
                }
            )
        )

    def _record(self, place: Place, warm: list[Judged], heard: Heard, sampler: Sampler) -> None:
        context = self._context
        context.keep_samples(sampler.raw(), place.folder, f"{place.stem}-samples.jsonl.gz")
        excluded = self._phase.excluded.get(self._arm.id, 0)
        for one in warm:
            context.emit(request_done(context, place, "warm-up", one, self._body_id(one)))
        for one in heard.judged:
            number = one.exchange.index - self._phase.warm_up
            role = "excluded" if place.round == 1 and number < excluded else "measured"
            context.emit(request_done(context, place, role, one, self._body_id(one)))
        context.emit(ClientWatched(**_round(place), processes=heard.processes))
        for sample in sampler.read():
            context.emit(
                Sampled(
                    **_round(place),
                    at_ns=sample.at_ns,
                    running=sample.running,
                    waiting=sample.waiting,
                    waiting_by_reason=sample.waiting_by_reason,
                    kv_cache_usage=sample.kv_cache_usage,
                    error=sample.error,
                )
            )

    def _body_id(self, one: Judged) -> str:
        return self._body_ids[self._prompt(one.exchange.index)]


@contextlib.asynccontextmanager
async def _meanwhile(*runs: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Samplers that run until the block is left. What goes wrong in one of them is a bug, and is raised then."""
    tasks = [asyncio.create_task(run) for run in runs]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task


@contextlib.asynccontextmanager
async def _while_it_lives(engine: RunningEngine, stop: asyncio.Event) -> AsyncIterator[asyncio.Event]:
    """An event that is set once the run is told to stop, or the engine is known to have ended: what another process
    answers at its address is not its answer, and what nobody answers takes a time-out each."""
    over = asyncio.Event()

    async def told() -> None:
        await stop.wait()
        over.set()

    async def lost() -> None:
        while engine.exit_code() is None and engine.stranger() is None:
            await asyncio.sleep(_BETWEEN_LOOKS)
            await engine.look()
        over.set()

    async with _meanwhile(told(), lost()):
        yield over


def _fastest(judged: Sequence[Judged], otherwise: float | None) -> float | None:
    """The shortest time of an ok request, in seconds: a failed one says nothing about how long a request takes."""
    known = [seconds for one in judged if one.verdict is Verdict.OK and (seconds := duration_s(one)) is not None]
    return min(known, default=otherwise)


def _round(place: Place) -> dict[str, object]:
    return dict(place.fields)
