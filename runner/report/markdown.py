"""Markdown that GitHub renders as it was meant, whatever the cells contain."""

import re
from collections.abc import Sequence

from tabulate import tabulate

_SPECIAL = re.compile(r"([\\`*\[\]~]|(?<![^\W_])_|_(?![^\W_]))")
_BORDER = re.compile(r"(?<!\\)\|")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def escape(text: str) -> str:
    """Text that stays text in a line of Markdown: no HTML, no emphasis, no line break.

    `render_table` sees to the borders of its cells.
    """
    safe = "".join(_ENTITIES.get(char, char) for char in text)
    return " ".join(_SPECIAL.sub(r"\\\1", safe).split())


def code(text: str) -> str:
    """Text as inline code."""
    flat = " ".join(text.split())
    longest = max((len(run) for run in re.findall(r"`+", flat)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if flat.startswith("`") or flat.endswith("`") or not flat else ""
    return f"{fence}{pad}{flat}{pad}{fence}"


def render_table(columns: Sequence[str], aligns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A GitHub table; cells are Markdown already, but for the `|` in them, which in a table alone needs a backslash."""
    safe = [[_BORDER.sub(r"\|", cell) for cell in row] for row in rows]
    heads = [_BORDER.sub(r"\|", column) for column in columns]
    return tabulate(safe, headers=heads, tablefmt="pipe", colalign=list(aligns), disable_numparse=True)
