"""`startup-evidence`: what proves that each condition is in force (article, 3-2)."""

from runner.engine.evidence import InForce
from runner.engine.log import ARGUMENTS_LINE, SPECULATIVE_KEY, Speculative
from runner.engine.sources import LOG
from runner.engine.speculation import COUNTERS
from runner.plan.model import Arm
from runner.record.events import CountersProved, EvidenceRead
from runner.record.parts import ArgumentFound
from runner.record.record import EngineRun
from runner.report.markdown import code, escape
from runner.report.table import Source, Table, table


@table("startup-evidence")
def startup_evidence(source: Source) -> list[Table]:
    """Columns: condition, evidence, value, reading.

    Both lines are needed: the non-default args say that an argument was parsed, the configuration that the
    engine built something from it; the counters say that it does something. The baseline shows all of its
    arguments, the others those that they change. Of an engine without a log the arguments stand by the source that
    shows them, and those that no source shows by themselves.
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
    own = [one for one in evidence.arguments if _own(source, arm, one)]
    rows = _logged(source, own, evidence) if LOG not in evidence.absent else _unlogged(source, own, evidence)
    if engine.proof is not None:
        keys = {"moved": "counters-moved", "absent": "counters-none", "flat": "counters-flat-short"}
        key = keys.get(engine.proof.state, "unknown")
        rows.append([words("proof-counters"), _counters(source, engine.proof), words(key)])
    return rows


def _own(source: Source, arm: Arm, one: ArgumentFound) -> bool:
    """Whether the row is the condition's own: the baseline has them all, the others those that they change."""
    base = source.record.plan.arm(source.record.plan.baseline)
    if arm.id == base.id:
        return True
    before, after = (
        {**side.wanted, **{f"env.{name}": text for name, text in side.env.items()}} for side in (base, arm)
    )
    return before.get(one.name) != after.get(one.name)


def _logged(source: Source, shown: list[ArgumentFound], evidence: EvidenceRead) -> list[list[str]]:
    words = source.words
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
    return rows


def _unlogged(source: Source, shown: list[ArgumentFound], evidence: EvidenceRead) -> list[list[str]]:
    """The sources that tell nothing, what each of the others shows, and what none does."""
    words = source.words
    rows = [[words("engine-log"), "–", words("log-unseen")]]
    rows += [
        [name, "–", words("source-absent", why=escape(why))] for name, why in evidence.absent.items() if name != LOG
    ]
    in_force = [one for one in shown if one.verdict == InForce.IN_FORCE and one.source is not None]
    for name in dict.fromkeys(one.source for one in in_force):
        values = ", ".join(f"{one.name}: {one.configured!r}" for one in in_force if one.source == name)
        rows.append([_name(source, name), code(values), words("config-shown")])
    if untold := [one.name for one in shown if one.verdict == InForce.UNKNOWN]:
        rows.append([words("no-source"), code(", ".join(untold)), words("unknown")])
    if evidence.speculation_source is not None:
        reading = words("config-none" if evidence.speculation is None else "config-built")
        quote = evidence.quotes.get("speculative", "")
        rows.append([f"{SPECULATIVE_KEY} ({_name(source, evidence.speculation_source)})", code(quote), reading])
    return rows


def _name(source: Source, name: str | None) -> str:
    return source.words("draft-counters") if name == COUNTERS else name or "–"


def _counters(source: Source, proof: CountersProved) -> str:
    if proof.drafts is None or proof.draft_tokens is None or proof.accepted is None:
        return code(proof.detail) if proof.detail else "–"
    return source.words(
        "counters-detail", drafts=proof.drafts, draft_tokens=proof.draft_tokens, accepted=proof.accepted
    )
