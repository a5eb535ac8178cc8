"""What was read of a user's recordings, as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runner.engine.evidence import ABSENT
from runner.engine.facts import Fact
from runner.engine.recording import Reading

_WIDTH = 160  # characters of a value or a quote


def reading_lines(path: str, reading: Reading) -> Iterator[str]:
    """The lines about one file: what it is, its facts with their quotes, what it does not say."""
    yield f"{path}: {reading.kind}, {reading.size}"
    yield from fact_lines(reading.facts)
    for note in reading.notes:
        yield f"  note: {note}"


def fact_lines(facts: Sequence[Fact]) -> Iterator[str]:
    """Facts that were found, one a line, then the names of those that are absent."""
    for fact in facts:
        if fact.value is not ABSENT:
            yield f"  {fact.name}: {_value(fact.value)}"
            if fact.quote is not None and fact.quote not in (fact.name, str(fact.value)):
                yield f"    | {_short(fact.quote)}"
    absent = [f"{fact.name} ({fact.why})" if fact.why else fact.name for fact in facts if fact.value is ABSENT]
    if absent:
        yield f"  absent: {', '.join(absent)}"


def fault_lines(path: str, reading: Reading) -> Iterator[str]:
    """What could not be read, each with file and line."""
    for fault in reading.faults:
        yield f"{path}:{fault.line}: {fault.words}"


def found_and_absent(facts: Sequence[Fact]) -> str:
    """The count of the facts that were found, and the names of the others."""
    absent = [fact.name for fact in facts if fact.value is ABSENT]
    found = f"{len(facts) - len(absent)} facts"
    return f"{found}, {len(absent)} absent: {', '.join(absent)}" if absent else f"{found}, none absent"


def _value(value: object) -> str:
    if isinstance(value, dict):
        return f"{len(value)} entries"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    if isinstance(value, float):
        return f"{value:,.15g}"
    return f"{value:,}" if type(value) is int else _short(str(value))


def _short(words: str) -> str:
    flat = "".join(char if char.isprintable() else " " for char in words)
    return flat if len(flat) <= _WIDTH else flat[: _WIDTH - 1] + "…"
