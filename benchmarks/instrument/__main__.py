"""The command: install what is compared, run all of it, print the tables."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from instrument.cell import CELLS
from instrument.conditions import cores
from instrument.measure import sweep
from instrument.page import PAGE, Outcome, json_of, markdown_of
from instrument.programs.catalogue import PROGRAMS, short
from instrument.special import special
from instrument.table import BARE, OURS


def main() -> int:
    """Measure and print; 1 where nothing could be measured."""
    given = _arguments()
    chosen = [one for one in PROGRAMS if given.only is None or short(one) in given.only]
    skipped, programs = [], []
    for program in chosen:
        _say(f"have {program.name}")
        if why := program.missing():
            skipped.append(f"{program.name}: {why}")
        else:
            programs.append(program)
    if given.install_only or not programs:
        print("\n".join(skipped) or "everything is installed")
        return 1 if skipped else 0
    found = cores()
    if not found.apart:
        skipped.append("client and server share the only core there is: every figure is of both")
    os.sched_setaffinity(0, {found.server})
    began = time.monotonic()
    cells = [CELLS[each].shortened(given.share) for each in given.concurrency]
    results = sweep(
        programs,
        cells,
        repeats=given.repeats,
        other_repeats=given.other_repeats,
        slope=given.slope,
        cores=found,
        say=_say,
    )
    hard = None
    if given.special:
        compared = [one for one in programs if one.name in (OURS, BARE, "aiohttp")]
        hard, more = special(compared, found, repeats=given.other_repeats, share=given.share, say=_say)
        skipped += more
    hardest = list(hard.points().values()) if hard else []
    outcome = Outcome(cells, programs, results.points(), hardest, skipped, time.monotonic() - began)
    text = markdown_of(outcome)
    print(text)
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "instrument.md").write_text(text, "utf-8")
    (given.out / "instrument.json").write_text(json_of(outcome), "utf-8")
    if given.write_page:
        PAGE.write_text(text, "utf-8")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="instrument", description="Our load generator against others.")
    names = [short(one) for one in PROGRAMS]
    parser.add_argument("--only", type=lambda text: text.split(","), help=f"of {','.join(names)}")
    parser.add_argument("--concurrency", type=lambda text: [int(each) for each in text.split(",")], default=list(CELLS))
    parser.add_argument("--repeats", type=int, default=3, help="runs of each point, of ours and the bare protocol")
    parser.add_argument("--other-repeats", type=int, default=2, help="the same of the others, and of hard conditions")
    parser.add_argument("--slope", action="store_true", help="also CPU as the slope between runs of two lengths")
    parser.add_argument("--share", type=float, default=1.0, help="of the requests: for a trial")
    parser.add_argument("--special", action=argparse.BooleanOptionalAction, default=True, help="the hard conditions")
    parser.add_argument("--install-only", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("instrument-results"), help="a folder for Markdown and JSON")
    parser.add_argument("--write-page", action="store_true", help=f"write docs/{PAGE.name} too")
    given = parser.parse_args()
    if unknown := sorted(set(given.only or []) - set(names)):
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(names)}")
    if unknown_cells := sorted(set(given.concurrency) - set(CELLS)):
        parser.error(f"no such concurrency: {unknown_cells}; there are {', '.join(map(str, CELLS))}")
    return given


def _say(words: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {words}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
