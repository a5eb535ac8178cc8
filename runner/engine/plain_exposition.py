"""The Prometheus text that engines print, read line by line: no escapes, no time stamps, no spaces but the necessary.

A run reads a thousand scrapes, most of them while it measures or between two rounds. The library reads anything that
anybody may print, one character after the other; this reads the plain kind ten times as fast, and nothing else.
"""

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

Labels = tuple[tuple[str, str], ...]
"""Sorted by name."""

_SUFFIXES: Final = {
    "counter": ("",),
    "gauge": ("",),
    "summary": ("_count", "_sum", ""),
    "histogram": ("_count", "_sum", "_bucket"),
}
_NAME: Final = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_COMMENT: Final = re.compile(rf'# (HELP|TYPE) ({_NAME})(?: ([^"\\\s][^"\\]*))?')
_SAMPLE: Final = re.compile(
    rf"({_NAME})(?:\{{([^\\]*)\}})? ([0-9]{{1,30}}(?:\.[0-9]{{1,30}})?(?:[eE][+-]?[0-9]{{1,3}})?|[+-]?Inf|NaN)"
)
_LABEL: Final = re.compile(r'((?!__)[a-zA-Z_][a-zA-Z0-9_]*)="([^"\\]*)"(?:,(?!$)|$)')


@dataclass(slots=True)
class Family:
    """Samples under one name and type, a counter's name without ``_total``."""

    name: str
    type: str
    samples: list[tuple[str, Labels, float]] = field(default_factory=list)


def families(lines: Iterable[str]) -> list[Family] | None:
    """The families of a text, in its order, as the library has them; None where a line is not plain."""
    found: list[Family] = []
    name, suffixes = "", frozenset[str]()
    current: Family | None = None
    for line in lines:
        if not line:
            continue
        if line.startswith("#"):
            comment = _COMMENT.fullmatch(line)
            if comment is None:
                return None
            word, about, rest = comment.groups()
            if current is None or about != name:
                name, suffixes = about, frozenset((about,))
                current = Family(about, "unknown")
                found.append(current)
            if word == "TYPE":
                known = _SUFFIXES.get(rest or "")
                if known is None or current.samples or current.type != "unknown":
                    return None
                suffixes = frozenset(about + suffix for suffix in known)
                current.type = rest
                current.name = about.removesuffix("_total") if rest == "counter" else about
            continue
        sample = _SAMPLE.fullmatch(line)
        labels = None if sample is None else _labels(sample[2] or "")
        if sample is None or labels is None:
            return None
        said = sample[1]
        if current is None or said not in suffixes:
            name, current = "", None
            found.append(Family(said, "unknown", [(said, labels, float(sample[3]))]))
            continue
        if current.type == "counter" and current.name == name:
            said += "_total"
        current.samples.append((said, labels, float(sample[3])))
    return found


@functools.lru_cache(maxsize=8192)
def _labels(text: str) -> Labels | None:
    """What stands between the braces; None where it is not plain. A scrape repeats those of the one before."""
    found: dict[str, str] = {}
    position = 0
    while position < len(text):
        label = _LABEL.match(text, position)
        if label is None or label[1] in found:
            return None
        found[label[1]] = label[2]
        position = label.end()
    return tuple(sorted(found.items()))
