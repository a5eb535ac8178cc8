"""Each replicate was served by one engine process from start to end, and by one that is no other condition's."""

import itertools
from collections.abc import Iterator

from runner.checks.finding import Finding, Judgement
from runner.checks.registry import check
from runner.engine import metrics
from runner.engine.exposition import Exposition, delta
from runner.plan.model import Arm
from runner.record.record import EngineRun, Record
from runner.spec.invariants import OneEngineProcess


@check(OneEngineProcess)
def one_engine_process(record: Record, _: OneEngineProcess) -> Iterator[Finding]:
    """Fails where the process start time changed, a counter fell, or the engine died; inconclusive where the
    engine exposes no start time, or was never scraped.

    Fails too where two conditions that start their engines differently were served by one that was there before, under
    two names: both show the same start time.
    """
    for arm in record.plan.arms:
        engines = record.of_arm(arm.id)
        if not engines:
            yield Finding(Judgement.INCONCLUSIVE, "never-started", subject=arm.label)
        for engine in engines:
            yield _judge(engine, arm.label)
    for one, other in itertools.combinations(record.plan.arms, 2):
        if one.start != other.start and _found(record, one) & _found(record, other):
            yield Finding(Judgement.FAIL, "process-shared", {"other": other.label}, one.label)


def _found(record: Record, arm: Arm) -> set[float]:
    """Start times of the processes that served an arm and were not started here: two of ours are two."""
    there = (engine for engine in record.of_arm(arm.id) if engine.launched is not None and not engine.launched.command)
    return {start for engine in there for scrape in _scrapes(engine) if (start := scrape.total(metrics.PROCESS_START))}


def _scrapes(engine: EngineRun) -> list[Exposition]:
    return [scrape for round_ in engine.rounds for scrape in (round_.before, round_.after) if scrape is not None]


def _judge(engine: EngineRun, label: str) -> Finding:
    if engine.failed is not None and engine.failed.stage == "start":
        return Finding(Judgement.INCONCLUSIVE, "never-started", subject=label)
    if engine.failed is not None:
        return Finding(Judgement.FAIL, "engine-died", {"reason": engine.failed.reason}, label)
    scrapes = _scrapes(engine)
    if not scrapes:
        return Finding(Judgement.INCONCLUSIVE, "not-measured", subject=label)
    starts = {scrape.total(metrics.PROCESS_START) for scrape in scrapes}
    identities = {name for round_ in engine.rounds for name in round_.engines}
    if engine.ready is not None:
        identities.add(engine.ready.engine)
    if len(starts - {None}) > 1 or len(identities) > 1:
        return Finding(Judgement.FAIL, "engine-restarted", {"starts": len(starts - {None})}, label)
    fallen = any(
        delta(first, second, metrics.E2E_COUNT).reason == "reset" for first, second in itertools.pairwise(scrapes)
    )
    if fallen:
        return Finding(Judgement.FAIL, "counters-fell", subject=label)
    if None in starts:
        return Finding(Judgement.INCONCLUSIVE, "start-time-absent", subject=label)
    return Finding(Judgement.PASS, "one-process", {"scrapes": len(scrapes)}, label)
