"""A run's outcome for the terminal: a few plain lines, in English."""

from collections import Counter
from collections.abc import Iterator

from tabulate import tabulate

from runner.analysis.cell import cells
from runner.analysis.restoration import unrestored
from runner.checks.finding import Judgement, Result
from runner.checks.outcome import ranked_codes
from runner.record.events import EvidenceRead
from runner.record.record import EngineRun, Record
from runner.report.table import code_meaning
from runner.report.words import Words
from runner.report.write import Reported


def terminal_summary(reported: Reported) -> str:
    """What was left changed and the command that puts it back; what ended the run and in the engine's own words, what
    is incomplete, every check that did not pass, and the exit code with those that apply besides."""
    words = Words("en")
    record = reported.record
    lines = list(_left_changed(record, words))
    if record.declined is not None:
        lines.append(words("declined", reason=record.declined.reason))
    for engine in record.engines:
        lines += _engine(record, engine, words)
    if record.declined is None:  # else nothing was to be measured, and nothing to be judged
        lines += _incomplete(record, words)
        for result in reported.results:
            lines += _check(result, words)
    simulated = " (simulated)" if record.simulated else ""
    codes = ranked_codes(record, reported.results)
    lines.append(f"exit {int(codes[0])}: {code_meaning(words, codes[0], reported.results)}{simulated}")
    others = [f"{int(one)} ({words(f'exit.{int(one)}')})" for one in codes[1:]]
    if others and record.declined is None:
        lines.append(f"also applying: {', '.join(others)}")
    return "\n".join(lines)


def _left_changed(record: Record, words: Words) -> Iterator[str]:
    for one in record.baselines:
        if (why := unrestored(one)) is not None:
            yield words("left-changed", what=one.saved.what, why=words(why.reason, **why.figures))
            yield f"  {words('by-hand', command=one.by_hand)}"


def _engine(record: Record, engine: EngineRun, words: Words) -> Iterator[str]:
    label = record.plan.arm(engine.arm).label
    if engine.failed is not None:
        key = "engine-failed" if engine.failed.seconds is None else "engine-failed-after"
        yield words(key, label=label, reason=engine.failed.reason, seconds=engine.failed.seconds)
        yield from (f"  | {line}" for line in engine.failed.words)
    if engine.refused is not None:
        yield f"{label}: not in force: {'; '.join(engine.refused.reasons)}"
        if engine.evidence is not None:
            yield from _wanted_found(engine.evidence).splitlines()


def _wanted_found(evidence: EvidenceRead) -> str:
    rows = [
        [
            one.name,
            repr(one.wanted),
            _found(one.parsed),
            repr(one.configured) if one.configured_seen else "-",
            one.source or "-",
            one.verdict,
            one.reason,
        ]
        for one in evidence.arguments
    ]
    heads = ["argument", "wanted", "parsed", "configured", "source", "verdict", "reason"]
    return tabulate(rows, headers=heads, disable_numparse=True)


def _incomplete(record: Record, words: Words) -> Iterator[str]:
    for cell in cells(record):
        if cell.incomplete is None or not cell.rounds:
            continue
        why = words(cell.incomplete.reason, **cell.incomplete.figures)
        counts = Counter(words.verdict(request.verdict) for request in cell.failed)
        failed = ", ".join(f"{verdict} {count}" for verdict, count in sorted(counts.items()))
        details = next((f": {request.detail}" for request in cell.failed if request.detail), "")
        named = f" ({failed}{details})" if failed else ""
        yield f"{cell.arm.label} C={cell.concurrency}: {why}{named}"


def _check(result: Result, words: Words) -> Iterator[str]:
    """Every failure; of what is inconclusive the first, and how many more there are."""
    for judgement in (Judgement.FAIL, Judgement.INCONCLUSIVE):
        found = [finding for finding in result.findings if finding.judgement is judgement]
        shown = found if judgement is Judgement.FAIL else found[:1]
        for index, finding in enumerate(shown, start=1):
            subject = f"{finding.subject}: " if finding.subject else ""
            more = f" (+{len(found) - len(shown)} more)" if index == len(shown) < len(found) else ""
            yield f"{judgement}: {result.check}: {subject}{words(finding.reason, **finding.figures)}{more}"


def _found(value: object) -> str:
    return "-" if value is None else repr(value)
