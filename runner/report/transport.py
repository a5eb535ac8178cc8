"""Marks of figures that the client timed, where the way to the engine makes its times doubtful."""

from collections.abc import Iterable

from runner.analysis.cell import Cell
from runner.analysis.transport import transport_doubt
from runner.analysis.value import Absent
from runner.report.footnotes import is_absent
from runner.report.markdown import escape
from runner.report.table import Source, Table

_MARK = " §"


def timed(text: str, *of: Cell) -> str:
    """A figure of the client's times over these cells, marked where those are doubted; an absent one says why it is
    absent, and no more."""
    doubted = any(transport_doubt(one.record, one.arm.id) is not None for one in of)
    return text + _MARK if doubted and not is_absent(text) else text


def timed_latency(text: str, cell: Cell) -> str:
    """A mean latency: the client's at concurrency 1, the engine's own above."""
    return timed(text, cell) if cell.concurrency == 1 else text


def transport_notes(source: Source, table: Table) -> list[str]:
    """What the mark says, where the table has it: the conditions, and why."""
    if any(_MARK in text for text in (*_texts(table.rows), *table.columns, *table.notes)):
        doubted = {why: [source.label(arm) for arm in arms] for why, arms in _doubted(source).items()}
        return [source.words("note-transport", labels=", ".join(of), why=why) for why, of in doubted.items()]
    return []


def transport_gaps(source: Source) -> list[str]:
    """What the report cannot say of the times."""
    doubted = {why: [source.named(arm) for arm in arms] for why, arms in _doubted(source).items()}
    return [source.words("gap-transport", labels=", ".join(of), why=why) for why, of in doubted.items()]


def _doubted(source: Source) -> dict[str, list[str]]:
    """Arms by the doubt that their way raises."""
    found: dict[str, list[str]] = {}
    for arm in source.record.plan.arms:
        doubt = transport_doubt(source.record, arm.id)
        if isinstance(doubt, Absent):
            found.setdefault(escape(source.words(doubt.reason, **doubt.figures)), []).append(arm.id)
    return found


def _texts(rows: Iterable[Iterable[str]]) -> Iterable[str]:
    return (cell for row in rows for cell in row)
