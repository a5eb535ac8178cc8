"""The first section of a report: how it ended, and every check in one line."""

from collections.abc import Sequence
from dataclasses import dataclass

from runner.analysis.confounding import confounders
from runner.analysis.restoration import unrestored
from runner.checks.finding import Result
from runner.checks.outcome import ranked_codes
from runner.record.events import EngineFailed
from runner.record.parts import ArgumentFound
from runner.report.markdown import code, escape, render_table
from runner.report.table import Source
from runner.report.tables.findings import finding_text

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Markdown pieces: the outcome, whether the record is whole, what was left changed and how to put it back, engine
    failures, wanted/found tables, checks and confounded comparisons."""

    outcome: str
    also: str
    ended_early: str
    left_changed: list[tuple[str, str]]
    failures: list[tuple[str, list[str]]]
    wanted_found: list[tuple[str, str]]
    checks: list[str]
    confounded: list[str]


def verdicts(source: Source, results: Sequence[Result]) -> Verdicts:
    """All of it, from the record and the checks."""
    words = source.words
    codes = ranked_codes(source.record, results)
    declined = source.record.declined
    others = ", ".join(f"{int(one)} ({words(f'exit.{int(one)}')})" for one in codes[1:])
    return Verdicts(
        outcome=words("outcome", code=int(codes[0]), meaning=source.meaning(codes[0])),
        also=words("also-applies", codes=others) if others else "",
        ended_early=words("ended-early") if source.record.finished is None else "",
        left_changed=[
            (
                words("left-changed", what=code(one.saved.what), why=escape(words(why.reason, **why.figures))),
                words("by-hand", command=code(one.by_hand)),
            )
            for one in source.record.baselines
            if (why := unrestored(one)) is not None
        ],
        failures=[
            *([(words("declined", reason=escape(declined.reason)), [])] if declined is not None else []),
            *(
                (_failure(source, one.arm, one.failed), [code(line) for line in one.failed.words])
                for one in source.record.engines
                if one.failed is not None
            ),
        ],
        wanted_found=[
            (
                words("wanted-found", label=source.named(one.arm)),
                _wanted_found(source, one.evidence.arguments),
            )
            for one in source.record.engines
            if one.refused is not None and one.evidence is not None
        ],
        checks=[_line(source, result) for result in results],
        confounded=_confounded(source),
    )


def _failure(source: Source, arm: str, failed: EngineFailed) -> str:
    label, reason = source.named(arm), escape(failed.reason)
    if failed.seconds is None:
        return source.words("engine-failed", label=label, reason=reason)
    return source.words("engine-failed-after", label=label, reason=reason, seconds=failed.seconds)


def _line(source: Source, result: Result) -> str:
    words = source.words
    shown = [finding for finding in result.findings if finding.judgement is result.judgement]
    texts = [finding_text(source, finding) for finding in shown[:_SHOWN]]
    more = f" (+{len(shown) - _SHOWN})" if len(shown) > _SHOWN else ""
    judged = words(f"judgement.{result.judgement}")
    return f"**{judged}** {words(f'check.{result.check}')} — {'; '.join(texts)}{more}"


def _confounded(source: Source) -> list[str]:
    lines = []
    for arm in source.record.plan.others:
        names = [source.confounder(one) for one in confounders(source.record, arm)]
        if names:
            lines.append(source.words("note-confounded", label=source.named(arm.id), features=", ".join(names)))
    return lines


def _wanted_found(source: Source, arguments: Sequence[ArgumentFound]) -> str:
    words = source.words
    columns = [
        words("argument"),
        words("wanted"),
        words("parsed"),
        words("configured"),
        words("source"),
        words("verdict"),
        words("reason"),
    ]
    rows = [
        [
            code(one.name),
            code(repr(one.wanted)),
            words("not-printed") if one.parsed is None else code(repr(one.parsed)),
            code(repr(one.configured)) if one.configured_seen else words("not-printed"),
            "–" if one.source is None else code(one.source),
            words(f"in-force.{one.verdict}"),
            escape(one.reason),
        ]
        for one in arguments
    ]
    return render_table(columns, ["left"] * len(columns), rows)
