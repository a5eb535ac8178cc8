"""What a target found at its place, told before anything is changed, and the consent to change it."""

import sys
from collections.abc import Iterator

from runner.cli.pipe import tell
from runner.target.base import Survey


def survey_lines(survey: Survey, baseline: str) -> Iterator[str]:
    """Where the engines will run, how what is there differs from the condition `baseline`, and what would be
    changed."""
    for name, value in survey.facts.items():
        yield f"{name}: {value}"
    for heading, found in (
        (f"how what is there differs from `{baseline}`", survey.differences),
        ("what will be changed of what is there, and put back", survey.changes),
        ("note", survey.notes),
    ):
        if found:
            yield f"{heading}:"
            yield from (f"  {line}" for line in found)


def consent(survey: Survey, *, given: bool) -> str | None:
    """None where what is there may be changed; else why nothing is. A terminal is asked; what is not one cannot
    answer."""
    if given or not survey.changes:
        return None
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return "what existed before this run would be changed; say --yes to agree. Nothing was changed"
    print("Change it, and put it back afterwards? [y/N] ", end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline().strip().lower()
    if answer in ("y", "yes"):
        return None
    tell("")
    return "not agreed; nothing was changed"
