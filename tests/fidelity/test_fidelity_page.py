"""docs/fidelity.md: every recording against every reader and every property of the embedded engine.

    python -m pytest tests/fidelity/test_fidelity_page.py --write-page

writes it; without the option the test holds the committed page to what the lane finds.
"""

from __future__ import annotations

from pathlib import Path

import fidelity_behaviour
import fidelity_readers
import fidelity_surface
import fidelity_timing
import pytest
from fidelity_rows import Row
from tabulate import tabulate

PAGE = Path(__file__).parents[2] / "docs" / "fidelity.md"
HEAD = """\
# The embedded engine and the readers, against recordings of real vLLM

Written by `python -m pytest tests/fidelity/test_fidelity_page.py --write-page`; a test holds it to what the lane
finds. *Recorded* is the real engine's figure, *embedded* the embedded engine's under the same arguments.

"""
SECTIONS = {
    "Readers": (
        fidelity_readers.rows,
        "What the one reader for vLLM 0.26 to 0.33 finds in each recording, and in the embedded engine's output.",
    ),
    "Surface": (
        fidelity_surface.rows,
        "Names, types, labels, buckets, log lines, replies, errors. Differences are listed, each with its reason, in "
        "`tests/fidelity/differences.yaml`.",
    ),
    "Behaviour": (
        fidelity_behaviour.rows,
        "Recorded arguments, prompts and outputs, replayed through the embedded engine's scheduler.",
    ),
    "Timing": (
        fidelity_timing.rows,
        "Step times of each profile, judged on recordings that they were not fitted to.",
    ),
}


def table(rows: list[Row]) -> str:
    cells = [[cell(x) for x in (r.recording, r.subject, r.recorded, r.embedded, r.verdict)] for r in rows]
    heads = ["Recording", "Subject", "Recorded", "Embedded", "Verdict"]
    return tabulate(cells, heads, tablefmt="github", disable_numparse=True)


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def page() -> str:
    parts = [f"## {title}\n\n{words}\n\n{table(rows())}\n" for title, (rows, words) in SECTIONS.items()]
    return HEAD + "\n".join(parts)


def test_the_page_is_what_the_lane_finds(request: pytest.FixtureRequest) -> None:
    found = page()
    if request.config.getoption("--write-page"):
        PAGE.write_text(found, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == found
