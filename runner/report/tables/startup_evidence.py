"""`startup-evidence`: what proves that each condition is in force (article, 3-2)."""

from runner.engine.log import ARGUMENTS_LINE, SPECULATIVE_KEY, Speculative
from runner.plan.model import Arm
from runner.record.events import CountersProved, EvidenceRead
from runner.record.record import EngineRun
from runner.report.markdown import code
from runner.report.table import Source, Table, table


@table("startup-evidence")
def startup_evidence(source: Source) -> list[Table]:
    """Columns: condition, evidence, value, reading.

    Both lines are needed: the non-default args say that an argument was parsed, the configuration that the
    engine built something from it; the counters say that it does something. The baseline shows all of its
    arguments, the others those that they change.
    """
    words = source.words
    rows = []
    for arm in source.record.plan.arms:
        for engine in source.record.of_arm(arm.id):
            if engine.evidence is not None:
                name = source.label(arm.id) + (f" #{engine.replicate}" if source.record.plan.replicates > 1 else "")
                rows += [[name, *row] for row in _rows(source, arm, engine, engine.evidence)]
    if not rows:
        return []
    columns = [words("condition"), words("evidence"), words("value"), words("reading")]
    return [Table("startup-evidence", columns, rows, ["left"] * 4)]


def _rows(source: Source, arm: Arm, engine: EngineRun, evidence: EvidenceRead) -> list[list[str]]:
    words = source.words
    base = source.record.plan.arm(source.record.plan.baseline)
    shown = [
        one for one in evidence.arguments if arm.id == base.id or base.wanted.get(one.name) != arm.wanted.get(one.name)
    ]
    found = [one for one in shown if one.parsed is not None]
    lost = [one.name for one in shown if one.parsed is None]
    rows = []
    if shown:
        value = code(", ".join(f"{one.name}: {one.parsed!r}" for one in found)) if found else words("not-printed")
        reading = words("args-parsed") if not lost else f"{words('args-not-parsed')}: {code(', '.join(lost))}"
        rows.append([ARGUMENTS_LINE, value, reading])
    if evidence.speculation is not None:
        one = evidence.speculation
        text = str(Speculative(one.method, one.model, one.tokens))
        rows.append([SPECULATIVE_KEY, code(text), words("config-built")])
        if one.model is None:
            rows.append(["model=None", words("none"), words("model-none")])
    elif "speculative" in evidence.quotes:
        rows.append([SPECULATIVE_KEY, code("None"), words("config-none")])
    if engine.proof is not None:
        keys = {"moved": "counters-moved", "absent": "counters-none", "flat": "counters-flat-short"}
        key = keys.get(engine.proof.state, "unknown")
        rows.append([words("proof-counters"), _counters(source, engine.proof), words(key)])
    return rows


def _counters(source: Source, proof: CountersProved) -> str:
    if proof.drafts is None or proof.draft_tokens is None or proof.accepted is None:
        return code(proof.detail) if proof.detail else "–"
    return source.words(
        "counters-detail", drafts=proof.drafts, draft_tokens=proof.draft_tokens, accepted=proof.accepted
    )
