"""Fault ``counter-lies``: series of the metrics page that gain too much."""

from __future__ import annotations

import re
from collections.abc import Sequence

from runner.simulator.faults import Fault

_SAMPLE = re.compile(r"(?m)^([a-zA-Z_:][\w:]*)(\{[^}\n]*\})? (\S+)$")


class Lies:
    """The lies of one process; a lie per scrape adds up with each page that is told."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self._told = {id(fault): 0 for fault in faults}
        self._faults = faults

    def told(self, page: bytes, finished: int) -> bytes:
        """The page after so many finished requests, with the lies."""
        for fault in self._faults:
            lies = sum(fault.selects(number) for number in range(1, finished + 1))
            if fault["per"] == "scrape":
                self._told[id(fault)] += lies > 0
                lies = self._told[id(fault)]
            if lies:
                page = _shifted(page.decode(), fault["name"], fault["by"] * lies).encode()
        return page


def _shifted(page: str, name: str, by: float) -> str:
    samples = [(found, float(found[3])) for found in _SAMPLE.finditer(page)]
    named = [(value, found) for found, value in samples if found[1] in (name, f"{name}_total")]
    if not named:
        return page
    _, liar = max(named, key=lambda one: one[0])
    lying = [liar]
    if name.endswith("_count"):
        bucket, labels = name.removesuffix("_count") + "_bucket", set(_labels(liar[2]))
        lying += [
            found for found, _ in samples if found[1] == bucket and set(_labels(found[2])) == {*labels, ("le", "+Inf")}
        ]
    for found in sorted(lying, key=lambda one: -one.start()):
        page = page[: found.start(3)] + repr(float(found[3]) + by) + page[found.end(3) :]
    return page


def _labels(text: str | None) -> list[tuple[str, str]]:
    return re.findall(r'(\w+)="([^"]*)"', text or "")
