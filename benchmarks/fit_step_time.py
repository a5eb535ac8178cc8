"""Fit the embedded engine's step time to the published figures in ``article_figures.yaml``.

    python benchmarks/fit_step_time.py [--write]

The scheduler runs the article's closed loops in virtual time. A round's wall time is then a linear function
of the parameters (number of steps, sum of tokens, sum of running requests, sum of requests that draft), so
the parameters follow from least squares on relative errors, none of them negative. Which request meets which
step depends a little on the step times themselves, hence the loop is repeated until the parameters stay.

Prints parameters and residuals; ``--write`` stores them as ``runner/simulator/profiles/article/step_time.json``.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from runner.simulator import chat_template, drafting
from runner.simulator.continuation import Continuation
from runner.simulator.kv_cache import BlockPool
from runner.simulator.scheduler import Limits, Scheduler
from runner.simulator.sequence import Sequence
from runner.simulator.speculation import Speculation
from runner.simulator.step_time import StepTime

TURNAROUND_SECONDS = 0.002  # from a reply to the same client's next request reaching the engine; assumed
ARRIVAL_SPREAD_SECONDS = 0.0005  # between two clients' first requests; assumed
BLOCKS = 4800
PARAMETERS = ("a off", "a on", "b", "c", "d")
ROOT = Path(__file__).parent


@dataclass(frozen=True)
class Features:
    """Sums over all steps of a round, and the seconds in which the engine had nothing to do."""

    steps: int
    tokens: int
    running: int
    idle: float

    def row(self, arm: str) -> list[float]:
        """Coefficients of the parameters in the round's wall time."""
        on = arm == "on"
        return [
            0 if on else self.steps,
            self.steps if on else 0,
            self.tokens,
            self.running,
            self.running if on else 0,
        ]


def closed_loop(
    figures: dict[str, Any], arm: str, clients: int, requests: int, timing: StepTime
) -> tuple[Features, float]:
    """Features and wall seconds of a round in which every client sends its next request after each reply."""
    limits = Limits(
        max_num_seqs=figures["max_num_seqs"],
        max_num_scheduled_tokens=2048,
        max_model_len=figures["max_model_len"],
        drafting=drafting.of(Speculation("ngram", figures["spec_tokens"], 5, 5, None), "V1", figures["max_model_len"])
        if arm == "on"
        else None,
    )
    scheduler = Scheduler(limits, BlockPool(BLOCKS, 16, prefix_caching=True))
    prompt = chat_template.render([("user", figures["prompt"])])

    def submit(at: float) -> None:
        words = Continuation(prompt, figures["prompt"])
        scheduler.add(Sequence(prompt, words, figures["max_tokens"], at))

    submit(0.0)  # the warm-up request, which fills the prefix cache
    while scheduler.has_work:
        scheduler.complete(scheduler.schedule(0.0), 0.0)
    arrivals = [index * ARRIVAL_SPREAD_SECONDS for index in range(min(clients, requests))]
    sent = len(arrivals)
    finished = steps = tokens = running = 0
    now = idle = 0.0
    while finished < requests:
        if not scheduler.has_work and arrivals[0] > now:
            idle += arrivals[0] - now
            now = arrivals[0]
        while arrivals and arrivals[0] <= now:
            submit(heapq.heappop(arrivals))
        plan = scheduler.schedule(now)
        now += timing.seconds(plan.total_tokens, len(plan.sequences))
        steps, tokens, running = steps + 1, tokens + plan.total_tokens, running + len(plan.sequences)
        for output in scheduler.complete(plan, now).outputs:
            if output.finish:
                finished += 1
                if sent < requests:
                    heapq.heappush(arrivals, now + TURNAROUND_SECONDS)
                    sent += 1
    return Features(steps, tokens, running, idle), now


def targets(figures: dict[str, Any]) -> list[tuple[str, int, int, float]]:
    """(arm, concurrency, requests, wall seconds) of every published figure."""
    found = []
    for arm in ("off", "on"):
        found.append((arm, 1, 1, float(figures["sequential"][arm])))
        requests = figures["requests_per_round"]
        found += [(arm, int(c), requests, requests / float(x)) for c, x in figures["throughput"][arm].items()]
    return found


def least_squares(rows: list[list[float]], values: list[float]) -> list[float]:
    """Non-negative least squares by trying every set of positive parameters; few parameters only."""
    count = len(rows[0])
    best: tuple[float, list[float]] = (float("inf"), [])
    for size in range(1, count + 1):
        for chosen in itertools.combinations(range(count), size):
            part = [[row[index] for index in chosen] for row in rows]
            solved = _solve(part, values)
            if solved is None or min(solved) < 0:
                continue
            error = sum(
                (sum(x * p for x, p in zip(row, solved, strict=True)) - y) ** 2
                for row, y in zip(part, values, strict=True)
            )
            if error < best[0] - 1e-15:
                full = [0.0] * count
                for index, parameter in zip(chosen, solved, strict=True):
                    full[index] = parameter
                best = (error, full)
    return best[1]


def _solve(rows: list[list[float]], values: list[float]) -> list[float] | None:
    size = len(rows[0])
    matrix = [
        [sum(row[i] * row[j] for row in rows) for j in range(size)]
        + [sum(row[i] * y for row, y in zip(rows, values, strict=True))]
        for i in range(size)
    ]
    for i in range(size):
        pivot = max(range(i, size), key=lambda k: abs(matrix[k][i]))
        matrix[i], matrix[pivot] = matrix[pivot], matrix[i]
        if abs(matrix[i][i]) < 1e-9:
            return None
        for k in range(size):
            if k != i:
                factor = matrix[k][i] / matrix[i][i]
                matrix[k] = [x - factor * y for x, y in zip(matrix[k], matrix[i], strict=True)]
    return [matrix[i][size] / matrix[i][i] for i in range(size)]


def timing_of(parameters: list[float], arm: str) -> StepTime:
    """Step time of an arm: off runs V2 with async scheduling, on runs V1 without."""
    off, on, b, c, d = parameters
    return StepTime(on if arm == "on" else off, b, c, d if arm == "on" else 0.0)


def fit() -> dict[str, Any]:
    """The whole result: parameters, residuals and how they were made."""
    figures = YAML(typ="safe").load((ROOT / "article_figures.yaml").read_text("utf-8"))
    parameters = [0.035, 0.0365, 0.0, 0.0, 0.0]
    for _ in range(20):
        rows, values = [], []
        for arm, clients, requests, wall in targets(figures):
            features, _ = closed_loop(figures, arm, clients, requests, timing_of(parameters, arm))
            rows.append([x / wall for x in features.row(arm)])
            values.append((wall - features.idle) / wall)
        fitted = least_squares(rows, values)
        moved = max(abs(x - y) for x, y in zip(fitted, parameters, strict=True))
        # Half a step at a time: arrivals jump between steps while the times move.
        parameters = [(x + y) / 2 for x, y in zip(fitted, parameters, strict=True)]
        if moved < 1e-7:
            break
    return _document(figures, parameters)


def main() -> None:
    """Fit, print, and store if asked."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--write", action="store_true", help="store the profile's step_time.json")
    write = options.parse_args().write
    text = json.dumps(fit(), ensure_ascii=False, indent=1) + "\n"
    print(text, end="")
    if write:
        path = ROOT.parent / "runner" / "simulator" / "profiles" / "article" / "step_time.json"
        path.write_text(text, "utf-8")


def _document(figures: dict[str, Any], parameters: list[float]) -> dict[str, Any]:
    off, on, b, c, d = (float(f"{value:.4g}") for value in parameters)
    residuals = []
    rates: dict[tuple[str, int], float] = {}
    for arm, clients, requests, wall in targets(figures):
        _, predicted = closed_loop(figures, arm, clients, requests, timing_of([off, on, b, c, d], arm))
        rates[arm, clients] = requests / predicted
        residuals.append(
            {
                "arm": arm,
                "concurrency": clients,
                "article": round(requests / wall, 3),
                "model": round(requests / predicted, 3),
                "percent": round(100 * (wall / predicted - 1), 2),
            }
        )
    speedups = {str(clients): round(rates["on", clients] / rates["off", clients], 3) for clients in (1, 4, 16, 32)}
    return {
        "made_by": "benchmarks/fit_step_time.py",
        "from": "benchmarks/article_figures.yaml",
        "formula": "seconds = a + b * tokens + c * running + d * running (d: drafts searched on the CPU)",
        "parameters": {
            "a": {"V2 async": off, "V1 async": off, "V2 sync": on, "V1 sync": on},
            "b": b,
            "c": c,
            "d": d,
        },
        "assumed": (
            "The article measured V2 async without drafts and V1 sync with drafts only. All of the difference "
            "of a is ascribed to async scheduling, none to the runner; the other two rows of a follow from that."
        ),
        "requests_per_second": residuals,
        "speedup": speedups,
    }


if __name__ == "__main__":
    main()
