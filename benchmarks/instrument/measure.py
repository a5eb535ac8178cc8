"""One run of one program: the server is started for it, watched with it, asked for the truth, and ended."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from instrument.cell import Cell, Task
from instrument.collected import Point
from instrument.conditions import DIRECT, Cores, Way
from instrument.figures import Figures, figures
from instrument.oracle import Oracle
from instrument.programs.program import Program
from instrument.reported import Reported, Unreadable
from instrument.table import BARE, OURS, short_run
from instrument.watched import run

TOKENIZER = Path(__file__).parents[2] / "tests" / "real_engine" / "tiny-model"
START_LIMIT_S = 120.0


@dataclass(slots=True)
class Results:
    """What came out so far, by program and concurrency."""

    runs: dict[tuple[str, int], list[Figures]] = field(default_factory=dict)
    troubles: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    notes: dict[tuple[str, int], list[dict[str, Any]]] = field(default_factory=dict)

    def points(self) -> dict[tuple[str, int], Point]:
        """All of it."""
        keys = dict.fromkeys((*self.runs, *self.troubles))
        return {
            key: Point(*key, self.runs.get(key, []), self.troubles.get(key, []), self.notes.get(key, []))
            for key in keys
        }

    def take(self, program: Program, cell: Cell, cores: Cores, way: Way = DIRECT, name: str = "") -> None:
        """Run it once and keep what that gives. `name`: under another name than the program's."""
        key = (name or program.name, cell.concurrency)
        try:
            found, notes = measure(program, cell, cores, way)
        except Unreadable as error:
            self.troubles.setdefault(key, []).append(str(error))
            return
        self.runs.setdefault(key, []).append(found)
        self.notes.setdefault(key, []).append(notes)


def measure(program: Program, cell: Cell, cores: Cores, way: Way = DIRECT) -> tuple[Figures, dict[str, Any]]:
    """The figures of one run, and the program's own notes. Raises Unreadable with the last words of its output."""
    with (
        tempfile.TemporaryDirectory(prefix="instrument-") as where,
        Oracle(cell.script, Path(where), cpu=cores.server, host=way.host, prefix=way.server) as oracle,
    ):
        folder = Path(where) / "run"
        folder.mkdir()
        task = Task(cell, oracle.url, folder, TOKENIZER)
        command, env = program.command(task)
        limit = START_LIMIT_S + 4 * cell.seconds * -(-cell.requests // cell.concurrency)
        ran = run([*way.client, *command], env=env, folder=folder, cpu=cores.client, server=oracle.pid, limit_s=limit)
        reported = _reported(program, task, ran.code)
        truth = oracle.truth()
    found = figures(cell, truth, reported, ran.samples)
    found |= {"whole_cpu_s": ran.cpu_s, "wall_s": ran.wall_s, "peak_mib": ran.peak_mib}
    after = reported.notes.get("after_cpu_s")
    found["after_chunk_us"] = after / (cell.requests * cell.events) * 1e6 if isinstance(after, float) else None
    return found, dict(reported.notes)


def _reported(program: Program, task: Task, code: int | None) -> Reported:
    ended = "did not end" if code is None else f"ended with exit code {code}"
    why = f"it {ended}"
    if code == 0:
        try:
            return program.read(task)
        except Unreadable as error:
            why = str(error)
    raise Unreadable(f"{why}: {_last_line(task.folder / 'output')}")


def _last_line(path: Path) -> str:
    lines = path.read_text("utf-8", "replace").strip().splitlines() if path.is_file() else []
    return lines[-1].strip()[:200] if lines else "no output"


def rotated(programs: list[Program], by: int) -> list[Program]:
    """Each round in another order, so that a drift of the machine meets all alike."""
    by %= max(1, len(programs))
    return programs[by:] + programs[:by]


def sweep(
    programs: list[Program],
    cells: list[Cell],
    *,
    repeats: int,
    other_repeats: int,
    slope: bool,
    cores: Cores,
    say: Callable[[str], None],
) -> Results:
    """Every program in every cell, interleaved: a run of each, then again. Ours and the yardstick have `repeats` runs,
    the others `other_repeats`; with `slope` whole programs have one more of one request a slot."""
    results = Results()
    for cell in cells:
        for repeat in range(max(repeats, other_repeats)):
            for program in rotated(programs, repeat):
                if repeat < (repeats if program.name in (OURS, BARE) else other_repeats):
                    say(f"C = {cell.concurrency}, run {repeat + 1}: {program.name}")
                    results.take(program, cell, cores)
        for program in programs if slope else ():
            if program.rival or program.name == OURS:
                say(f"C = {cell.concurrency}, one request a slot: {program.name}")
                results.take(program, cell.shortened(0), cores, name=short_run(program.name))
    return results
