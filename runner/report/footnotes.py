"""Absent figures whose reason would be said again and again: one mark in the cells, the reason below the table."""

import re
from collections import Counter
from collections.abc import Sequence

_ABSENT = re.compile(r"– \((.*)\)\Z")
_MARKS = "¹²³⁴⁵⁶⁷⁸⁹"
_OFTEN = 3
"""So many equal cells make a footnote; fewer say it themselves."""


def is_absent(cell: str) -> bool:
    """Whether a cell says why it has no figure."""
    return _ABSENT.match(cell) is not None


def footnotes(rows: Sequence[Sequence[str]]) -> tuple[list[list[str]], list[str]]:
    """The rows with `–¹` for reasons that stand in three cells or more, and the notes that say them."""
    counts = Counter(cell for row in rows for cell in row if _ABSENT.match(cell))
    often = [cell for cell, count in counts.items() if count >= _OFTEN][: len(_MARKS)]
    marks = {cell: f"–{_MARKS[index]}" for index, cell in enumerate(often)}
    notes = [f"{marks[cell][1]} {cell.removeprefix('– (').removesuffix(')')}" for cell in often]
    return [[marks.get(cell, cell) for cell in row] for row in rows], notes
