"""Marks of figures that the client timed, where the way to the engine, or the client itself, makes them doubtful."""

from collections.abc import Iterable

from runner.analysis.cell import Cell, cells
from runner.analysis.client_times import client_times_doubt
from runner.analysis.transport import transport_doubt
from runner.analysis.value import Absent
from runner.report.footnotes import is_absent
from runner.report.markdown import escape
from runner.report.table import Source, Table

_MARK = " §"


def timed(text: str, *of: Cell) -> str:
    """A figure of the client's times over these cells, marked where those are doubted; an absent one says why it is
    absent, and no more."""
    return text + _MARK if not is_absent(text) and client_times_doubt(*of) is not None else text


def timed_latency(text: str, cell: Cell) -> str:
    """A mean latency: the client's at concurrency 1, the engine's own above."""
    return timed(text, cell) if cell.concurrency == 1 else text


def client_times_notes(source: Source, table: Table) -> list[str]:
    """What the mark says, where the table has it: the conditions or the cells, and why."""
    if any(_MARK in text for text in (*_texts(table.rows), *table.columns, *table.notes)):
        doubted = {why: [source.label(arm) for arm in arms] for why, arms in _ways(source).items()}
        doubted |= {why: [_name(source, one) for one in those] for why, those in _limited(source).items()}
        return [source.words("note-client-times", names=", ".join(of), why=why) for why, of in doubted.items()]
    return []


def client_times_gaps(source: Source) -> list[str]:
    """What the report cannot say of the times."""
    words = source.words
    doubted = {why: [source.named(arm) for arm in arms] for why, arms in _ways(source).items()}
    gaps = [words("gap-transport", labels=", ".join(of), why=why) for why, of in doubted.items()]
    return gaps + [
        words("gap-client-limit", cells=", ".join(_name(source, one) for one in those), why=why)
        for why, those in _limited(source).items()
    ]


def _ways(source: Source) -> dict[str, list[str]]:
    """Arms by the doubt that their way raises."""
    found: dict[str, list[str]] = {}
    for arm in source.record.plan.arms:
        doubt = transport_doubt(source.record, arm.id)
        if doubt is not None:
            found.setdefault(_said(source, doubt), []).append(arm.id)
    return found


def _limited(source: Source) -> dict[str, list[Cell]]:
    """Cells by what says that the client was the limit in them."""
    found: dict[str, list[Cell]] = {}
    for one in cells(source.record):
        if (limit := one.client_limit) is not None:
            found.setdefault(_said(source, limit), []).append(one)
    return found


def _said(source: Source, doubt: Absent) -> str:
    return escape(source.words(doubt.reason, **doubt.figures))


def _name(source: Source, cell: Cell) -> str:
    return f"{source.label(cell.arm.id)} C={cell.concurrency}"


def _texts(rows: Iterable[Iterable[str]]) -> Iterable[str]:
    return (cell for row in rows for cell in row)
