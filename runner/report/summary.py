"""A run's outcome for the terminal: a few plain lines, in English."""

from tabulate import tabulate

from runner.checks.finding import Judgement
from runner.checks.outcome import PRECEDENCE, ExitCode, applying_codes
from runner.report.words import Words
from runner.report.write import Reported


def terminal_summary(reported: Reported) -> str:
    """The outcome, every check that did not pass, and the wanted/found table of a refused condition."""
    words = Words("en")
    record = reported.record
    lines = []
    for engine in record.engines:
        if engine.refused is not None and engine.evidence is not None:
            lines.append(f"{record.plan.arm(engine.arm).label}: wanted and found")
            rows = [
                [one.name, one.wanted, _found(one.parsed), _found(one.configured), one.verdict, one.reason]
                for one in engine.evidence.arguments
            ]
            heads = ["argument", "wanted", "parsed", "configured", "verdict", "reason"]
            lines.append(tabulate(rows, headers=heads, disable_numparse=True))
    for result in reported.results:
        for finding in result.findings:
            if finding.judgement in (Judgement.FAIL, Judgement.INCONCLUSIVE):
                subject = f"{finding.subject}: " if finding.subject else ""
                text = words(finding.reason, **finding.figures)
                lines.append(f"{finding.judgement}: {result.check}: {subject}{text}")
    simulated = " (simulated)" if record.started.simulated else ""
    applying = applying_codes(record, reported.results)
    codes = [one for one in PRECEDENCE if one in applying]
    lines.append(f"exit {int(codes[0])}: {words(f'exit.{int(codes[0])}')}{simulated}")
    others = [f"{int(one)} ({words(f'exit.{int(one)}')})" for one in codes[1:] if one is not ExitCode.HELD]
    if others:
        lines.append(f"also applying: {', '.join(others)}")
    return "\n".join(lines)


def _found(value: object) -> str:
    return "-" if value is None else repr(value)
