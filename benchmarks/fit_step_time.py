"""Fit the embedded engine's step times, and judge them on what they were not fitted to.

    python benchmarks/fit_step_time.py PROFILE [--write]

========  =========================================  ====================================
PROFILE   fitted to                                  judged on
========  =========================================  ====================================
article   the article's figures                      nothing else exists: residuals only
h200      tests/recordings/h200, arms q3b-*          tests/recordings/h200-b2048
cpu       tests/recordings/cpu/0.32.0-cpu-tiny       tests/recordings/cpu/0.26.0-cpu-tiny
========  =========================================  ====================================

The scheduler runs the measured closed loops in virtual time. A round's wall time is then a linear function of
the parameters (steps of each kind of engine, sum of tokens, sum of running requests, the same where drafts are
searched), so the parameters follow from least squares on relative errors over all rounds, none of them negative.
Which request meets which step depends a little on the step times themselves, hence the loop is repeated until
the parameters stay.

What the rounds cannot tell apart: within one arm every cell has nearly the same tokens per running request, so b
and c differ only between arms and share that difference with d. Where two of them fit as well as three, the third
is 0. Rounds of another shape (long prompts, say) are therefore outside of what was fitted.

Prints the profile's document and the judgement; ``--write`` stores the document as
``runner/simulator/profiles/PROFILE/step_time.json``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import least_squares
import recorded_rounds
from closed_loop import Outcome
from recorded_rounds import Arm, Series
from step_time_judgement import Model, report, residuals

from runner.simulator.step_time import StepTime

STEPS = ("V2 async", "V1 async", "V2 sync", "V1 sync")
FIRST_GUESS_SECONDS = 0.02
MOST_REPEATS = 20


@dataclass(frozen=True, slots=True)
class Source:
    """`series` is fitted, `judged` is not. `copied` gives the rows of a that nothing measured the row they follow.
    `drafts_apart`: one kind of engine ran with and without drafts, so that e is not a part of its a."""

    series: Callable[[], Series]
    judged: Callable[[], Series] | None
    copied: Mapping[str, str]
    assumed: str
    drafts_apart: bool = False


SOURCES = {
    "article": Source(
        recorded_rounds.article,
        None,
        {"V1 async": "V2 async", "V2 sync": "V1 sync"},
        "The article measured V2 async without drafts and V1 sync with drafts only. All of the difference "
        "of a is ascribed to async scheduling, none to the runner; the other two rows of a follow from that.",
    ),
    "h200": Source(
        recorded_rounds.h200,
        recorded_rounds.h200_b2048,
        {"V1 async": "V2 async"},
        "V1 async ran in no arm of the series: it is given V2 async's a, as if the runner's host work made no "
        "difference once the next step is scheduled beside it. V1 sync ran with drafts only.",
    ),
    "cpu": Source(
        partial(recorded_rounds.cpu, "0.32.0"),
        partial(recorded_rounds.cpu, "0.26.0"),
        {"V2 async": "V1 sync", "V1 async": "V1 sync", "V2 sync": "V1 sync"},
        "The CPU's platform runs V1 and turns async scheduling off, whatever was asked: there is one a, and what "
        "drafts cost a step is e and d.",
        drafts_apart=True,
    ),
}


class Parameters:
    """The parameters as one row of numbers: an a for every kind of engine that was measured, then b, c, d, e."""

    def __init__(self, steps: Sequence[str], values: Sequence[float], *, drafts_apart: bool) -> None:
        self.steps = list(steps)
        self.values = list(values)
        self.drafts_apart = drafts_apart

    def of(self, arm: Arm) -> StepTime:
        """Step time of an arm; only drafts that are searched on the CPU cost d and e."""
        b, c, d, e = self.values[-4:]
        base = self.values[self.steps.index(arm.step)]
        return StepTime(base + e, b, c, d) if arm.drafts else StepTime(base, b, c, 0.0)

    def coefficients(self, arm: Arm, outcome: Outcome) -> list[float]:
        """What a round's time has of each parameter."""
        own = [float(outcome.steps) if step == arm.step else 0.0 for step in self.steps]
        searched = outcome.steps if arm.drafts and self.drafts_apart else 0.0
        return [*own, outcome.tokens, outcome.running, outcome.running if arm.drafts else 0.0, searched]


def solve(series: Series, *, drafts_apart: bool) -> Parameters:
    """The parameters that fit a series best."""
    steps = [step for step in STEPS if any(cell.arm.step == step for cell in series.cells)]
    parameters = Parameters(steps, [FIRST_GUESS_SECONDS] * len(steps) + [0.0] * 4, drafts_apart=drafts_apart)
    for repeat in range(MOST_REPEATS):
        rows, values = [], []
        for cell in series.cells:
            outcome = cell.play(parameters.of(cell.arm), series.turnaround)
            coefficients = parameters.coefficients(cell.arm, outcome)
            for throughput in cell.throughputs:
                wall = len(cell.requests) / throughput
                rows.append([x / wall for x in coefficients])
                values.append((wall - outcome.idle - series.turnaround) / wall)
        fitted = least_squares.non_negative(rows, values)
        moved = max(abs(x - y) for x, y in zip(fitted, parameters.values, strict=True))
        # Half a step at a time: arrivals jump between steps while the times move.
        share = 1.0 if repeat == 0 else 0.5
        parameters = Parameters(
            steps,
            [old + share * (new - old) for new, old in zip(fitted, parameters.values, strict=True)],
            drafts_apart=drafts_apart,
        )
        if moved < 1e-7:
            break
    return parameters


def fit(name: str) -> dict[str, Any]:
    """A profile's whole document: parameters, residuals and how they were made."""
    source = SOURCES[name]
    series = source.series()
    found = solve(series, drafts_apart=source.drafts_apart)
    *bases, b, c, d, e = (float(f"{value:.4g}") for value in found.values)
    a = dict(zip(found.steps, bases, strict=True))
    parameters = {"a": {step: a[source.copied.get(step, step)] for step in STEPS}, "b": b, "c": c, "d": d, "e": e}
    turnaround = float(f"{series.turnaround:.4g}")
    rates: dict[tuple[str, int], float] = {}
    residuals = []
    model = Model(parameters, turnaround)
    for cell in series.cells:
        rates[cell.arm.name, cell.clients] = rate = len(cell.requests) / model.play(cell).wall
        residuals.append(
            {
                "arm": cell.arm.name,
                "concurrency": cell.clients,
                "rounds": len(cell.throughputs),
                "measured": round(cell.throughput, 3),
                "model": round(rate, 3),
                "percent": round(100 * (rate / cell.throughput - 1), 2),
            }
        )
    off, on = (next(cell.arm.name for cell in series.cells if cell.arm.drafts is drafts) for drafts in (False, True))
    return {
        "made_by": f"benchmarks/fit_step_time.py {name}",
        "from": series.source,
        "formula": (
            "seconds = a + b * tokens + c * running, and e + d * running more where drafts are searched on the CPU"
        ),
        "parameters": parameters,
        "assumed": source.assumed,
        "turnaround_seconds": turnaround,
        "requests_per_second": residuals,
        "speedup": {
            str(clients): round(rate / rates[off, clients], 3)
            for (arm, clients), rate in rates.items()
            if arm == on and (off, clients) in rates
        },
    }


def main() -> None:
    """Fit, print, judge, and store if asked."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("profile", choices=SOURCES)
    options.add_argument("--write", action="store_true", help="store the profile's step_time.json")
    given = options.parse_args()
    document = fit(given.profile)
    text = json.dumps(document, ensure_ascii=False, indent=1) + "\n"
    print(text, end="")
    if given.write:
        path = recorded_rounds.ROOT / "runner" / "simulator" / "profiles" / given.profile / "step_time.json"
        path.write_text(text, "utf-8")
    source = SOURCES[given.profile]
    model = Model.of(document)
    print(residuals(source.series(), model), end="")
    if source.judged:
        print(report(source.judged(), model), end="")


if __name__ == "__main__":
    main()
