"""Every argument is in force: parsed, built into the engine's configuration, and its counters move."""

from collections.abc import Iterator

from runner.analysis.acceptance import drafting
from runner.analysis.value import Absent
from runner.checks.finding import Finding, Judgement
from runner.checks.registry import check
from runner.engine.evidence import CONTRADICTING, InForce
from runner.record.record import EngineRun, Record
from runner.spec.invariants import ConfigurationInForce


@check(ConfigurationInForce)
def configuration_in_force(record: Record, _: ConfigurationInForce) -> Iterator[Finding]:
    """Per arm and replicate. Fails where the engine's log, configuration or counters contradict the spec;
    inconclusive where nothing tells."""
    for arm in record.plan.arms:
        engines = record.of_arm(arm.id)
        if not engines:
            yield Finding(Judgement.INCONCLUSIVE, "never-started", subject=arm.label)
        for engine in engines:
            yield from _judge(record, engine, arm.label)


def _judge(record: Record, engine: EngineRun, label: str) -> Iterator[Finding]:
    if engine.refused is not None:
        yield Finding(Judgement.FAIL, "setting-refused", {"reasons": "; ".join(engine.refused.reasons)}, label)
        return
    if engine.evidence is None:
        yield Finding(Judgement.INCONCLUSIVE, "no-evidence", subject=label)
        return
    contradicted = [f"{one.name}: {one.reason}" for one in engine.evidence.arguments if one.verdict in CONTRADICTING]
    if engine.proof is not None and engine.proof.verdict == "ignored":
        contradicted.append(engine.proof.detail)
    if contradicted:
        yield Finding(Judgement.FAIL, "setting-refused", {"reasons": "; ".join(contradicted)}, label)
        return
    unknown = [one.name for one in engine.evidence.arguments if one.verdict == "unknown"]
    if unknown:
        yield Finding(Judgement.INCONCLUSIVE, "arguments-unknown", {"names": ", ".join(unknown)}, label)
    wanted, found = record.plan.engine_version, _version(engine)
    if wanted is not None and found != wanted:
        judgement = Judgement.INCONCLUSIVE if found is None else Judgement.FAIL
        yield Finding(judgement, "version-differs", {"wanted": wanted, "found": found or "?"}, label)
    yield from _counters(engine, label)


def _counters(engine: EngineRun, label: str) -> Iterator[Finding]:
    assert engine.evidence is not None
    known = sum(one.verdict == InForce.IN_FORCE for one in engine.evidence.arguments)
    parsed = [one.name for one in engine.evidence.arguments if one.verdict == InForce.PARSED]
    in_force = Finding(Judgement.PASS, "arguments-in-force", {"n": known}, label)
    if parsed:
        in_force = Finding(Judgement.PASS, "arguments-parsed", {"n": known, "names": ", ".join(parsed)}, label)
    if engine.evidence.speculation is None:
        if engine.proof is not None and engine.proof.verdict == "unknown":
            yield Finding(Judgement.INCONCLUSIVE, "counters-unknown", {"detail": engine.proof.detail}, label)
        else:
            yield in_force
        return
    drafts = drafting(engine.rounds).drafts
    moved = engine.proof is not None and engine.proof.state == "moved"
    if moved or (not isinstance(drafts, Absent) and drafts > 0):
        yield in_force
    elif isinstance(drafts, Absent):
        yield Finding(Judgement.INCONCLUSIVE, "counters-absent", subject=label)
    else:
        yield Finding(Judgement.INCONCLUSIVE, "counters-flat", subject=label)


def _version(engine: EngineRun) -> str | None:
    assert engine.evidence is not None
    return engine.evidence.version or (engine.ready.version if engine.ready is not None else None)
