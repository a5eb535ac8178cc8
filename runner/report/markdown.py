"""Markdown that GitHub renders as it was meant, whatever the cells contain."""

import re
from collections.abc import Sequence

from tabulate import tabulate

_SPECIAL = re.compile(r"([\\`*\[\]|~])")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def escape(text: str) -> str:
    """Text that stays text inside a table cell or a list item: no HTML, no table border, no line break."""
    safe = "".join(_ENTITIES.get(char, char) for char in text)
    return " ".join(_SPECIAL.sub(r"\\\1", safe).split())


def code(text: str) -> str:
    """Text as inline code, which may stand in a table cell."""
    flat = " ".join(text.split())
    longest = max((len(run) for run in re.findall(r"`+", flat)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if flat.startswith("`") or flat.endswith("`") or not flat else ""
    return f"{fence}{pad}{flat}{pad}{fence}".replace("|", r"\|")


def render_table(columns: Sequence[str], aligns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A GitHub table; cells are Markdown already."""
    return tabulate(rows, headers=list(columns), tablefmt="pipe", colalign=list(aligns), disable_numparse=True)
