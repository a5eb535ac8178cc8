"""Each replicate was served by one engine process from start to end."""

import itertools
from collections.abc import Iterator

from runner.checks.finding import Finding, Judgement
from runner.checks.registry import check
from runner.engine import metrics
from runner.engine.exposition import delta
from runner.record.record import EngineRun, Record
from runner.spec.invariants import OneEngineProcess


@check(OneEngineProcess)
def one_engine_process(record: Record, _: OneEngineProcess) -> Iterator[Finding]:
    """Fails where the process start time changed, a counter fell, or the engine died; inconclusive where the
    engine exposes no start time, or was never scraped."""
    for arm in record.plan.arms:
        engines = record.of_arm(arm.id)
        if not engines:
            yield Finding(Judgement.INCONCLUSIVE, "never-started", subject=arm.label)
        for engine in engines:
            yield _judge(engine, arm.label)


def _judge(engine: EngineRun, label: str) -> Finding:
    if engine.failed is not None:
        return Finding(Judgement.FAIL, "engine-died", {"reason": engine.failed.reason}, label)
    scrapes = [scrape for round_ in engine.rounds for scrape in (round_.before, round_.after) if scrape is not None]
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
