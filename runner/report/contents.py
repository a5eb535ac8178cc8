"""The line of links above the tables, by the anchors that GitHub gives to headings."""

import html
import re
from collections import Counter
from collections.abc import Sequence

LONG = 8
"""A report with more tables than this has a line of contents."""


def anchors(headings: Sequence[str]) -> list[str]:
    """The anchor of each heading (Markdown), in the order of the document; equal ones are numbered from the second
    on. The rule: lower case, letters, digits, `_`, `-` and blanks kept, blanks become `-`."""
    seen: Counter[str] = Counter()
    found = []
    for heading in headings:
        plain = html.unescape(re.sub(r"\\(.)", r"\1", heading)).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        found.append(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def contents(titles: Sequence[tuple[str, str]], headings: Sequence[str]) -> str:
    """Links to the tables: (id, heading) of each, the first of an id; empty for a short report. `headings` are all
    of the document's, in order."""
    if len(titles) <= LONG:
        return ""
    anchor = dict(reversed(list(zip(headings, anchors(headings), strict=True))))
    first = {name: anchor[heading] for name, heading in reversed(titles)}
    return " · ".join(f"[{name}](#{first[name]})" for name in dict.fromkeys(name for name, _ in titles))
