"""The recorded series ``h200-b2048`` as a run directory: a real GPU's data through the same report.

    PYTHONPATH=tests/support python tests/golden/h200_run.py [--write]

makes the run in a temporary folder and prints its report; ``--write`` stores report and result under ``examples/``.
What the recording does not hold stays absent: first bytes, the texts of all but two requests a round, the request
that proves the counters.
"""

from __future__ import annotations

import csv
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import journals

from runner.engine import metrics
from runner.engine.exposition import parse, to_json
from runner.engine.log import read_log
from runner.engine.verdict import Verdict
from runner.execution.proof import evidence_read
from runner.plan.build import build_plan
from runner.plan.model import Plan
from runner.record import events
from runner.report.write import Reported, make_report
from runner.spec.load import load_spec

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "h200-b2048"
RECORDING = ROOT / "tests" / "recordings" / "h200-b2048"
FOLDERS = {"off": "off-a", "on": "on-a", "off-v1-async": "off-v1-async", "off-v1-noasync": "off-v1-noasync"}
SECOND = 1_000_000_000


def write_run(folder: Path) -> Path:
    """Write the run directory; it must not exist."""
    plan = build_plan(load_spec(EXAMPLE / "spec.yaml"), "recorded")
    return journals.write_run(folder, plan, journal(plan))


def journal(plan: Plan) -> Iterator[events.Event]:
    """The recording's events, on the recorder's own monotonic clock."""
    yield events.RunStarted(
        run="h200-b2048",
        started_at="2026-11-30T02:57:00+00:00",
        runner_version="recorded by hand",
        target="recorded",
        simulated=False,
        target_settings={"recording": "tests/recordings/h200-b2048", "gpu": "NVIDIA H200"},
        host={},
    )
    for launch in plan.launches:
        yield from _launch(plan, launch.arm)
    yield events.RunFinished(seconds=0.0)


def _launch(plan: Plan, arm: str) -> Iterator[events.Event]:
    folder = RECORDING / FOLDERS[arm]
    of: dict[str, Any] = {"arm": arm, "replicate": 1}
    command = json.loads((folder / "command.json").read_text("utf-8"))
    log = (folder / "startup.log").read_text("utf-8").splitlines()
    yield events.LaunchStarted(**of)
    yield events.EngineLaunched(
        **of, command=command["command"], env=command["env"], endpoint="http://127.0.0.1:8000", log="startup.log"
    )
    models = [one["id"] for one in json.loads((folder / "models.json").read_text("utf-8"))["data"]]
    version = json.loads((folder / "version.json").read_text("utf-8"))["version"]
    yield events.EngineReady(**of, engine=folder.name, seconds=command["ready_s"], version=version, models=models)
    evidence = read_log(log)
    [launch] = [one for one in plan.launches if one.arm == arm]
    first = parse((folder / "metrics" / "c1-r1-before.prom").read_text("utf-8"))
    yield evidence_read(launch, plan.arm(arm), evidence, first)
    prompt = plan.sent_prompts[0]
    body = plan.body(plan.arm(arm), prompt, stream=False)
    yield events.BodySeen(body_id=f"body-{arm}", prompt=prompt, body=body)
    timings = json.loads((folder / "timings.json").read_text("utf-8"))
    samples = list(_samples(folder))
    for phase, level in plan.grid:
        for number in range(1, phase.rounds + 1):
            at = {**of, "phase": phase.name, "concurrency": level, "round": number, "engine": folder.name}
            yield from _round(at, folder, f"c{level}-r{number}", timings, samples)
    yield events.EngineStopped(**of, how="stopped", exit_code=None)


def _round(
    at: dict[str, Any], folder: Path, cell: str, timings: dict[str, Any], samples: list[dict[str, float | None]]
) -> Iterator[events.Event]:
    requests = timings[cell]["requests"]
    bodies = [json.loads(line) for line in (folder / f"bodies-{cell}.jsonl").read_text("utf-8").splitlines()]
    first, last = min(one[0] for one in requests), max(one[1] for one in requests)
    outputs = []
    for body in bodies:
        choice = body["choices"][0]
        seen = events.OutputSeen(
            output_id=f"{at['arm']}-{cell}-{len(outputs)}",
            text=choice["message"]["content"],
            reasoning="",
            token_ids=choice["token_ids"],
        )
        outputs.append(seen.output_id)
        yield seen
    yield events.RoundStarted(**at, requests=len(requests))
    yield _scrape(at, folder, cell, "before", first)
    for index, (start, end, status, tokens) in enumerate(requests):
        # Which two of the round's requests the kept bodies belong to was not recorded; they stand for the first two.
        yield events.RequestDone(
            **at,
            index=index,
            role="measured",
            body_id=f"body-{at['arm']}",
            planned_ns=_ns(start),
            sent_ns=_ns(start),
            first_byte_ns=None,
            first_token_ns=None,
            last_byte_ns=_ns(end),
            ended_ns=_ns(end),
            verdict=Verdict.OK if status == 200 else Verdict.HTTP_ERROR,
            detail="",
            status=status,
            finish_reason=None,
            prompt_tokens=None,
            completion_tokens=tokens,
            output_id=outputs[index] if index < len(outputs) else None,
        )
    for sample in samples:
        moment = sample["t"]
        assert moment is not None
        if first <= moment <= last:
            waiting = sample["waiting_capacity"]
            yield events.Sampled(
                **at,
                at_ns=_ns(moment),
                running=sample["running"],
                waiting=sample["waiting"],
                waiting_by_reason=None if waiting is None else {"capacity": waiting},
                kv_cache_usage=sample["kv"],
            )
            gpu = events.GpuValues(index=0, utilization=sample["gpu"], memory_mib=sample["memory"])
            yield events.GpuSampled(**at, at_ns=_ns(moment), gpus=[gpu])
    yield _scrape(at, folder, cell, "after", last)
    yield events.RoundFinished(
        **at,
        busy_before=_busy(folder, cell, "before"),
        busy_after=_busy(folder, cell, "after"),
        sampling_interval=0.5,
        complete=True,
    )


def _busy(folder: Path, cell: str, moment: str) -> str | None:
    """Why the engine was not idle at a scrape; nobody waited for it, but its gauges tell."""
    scrape = parse((folder / "metrics" / f"{cell}-{moment}.prom").read_text("utf-8"))
    running, waiting = scrape.total(metrics.RUNNING), scrape.total(metrics.WAITING)
    return None if running == waiting == 0 else f"{running} running, {waiting} waiting at the scrape {moment}"


def _scrape(at: dict[str, Any], folder: Path, cell: str, moment: Any, seconds: float) -> events.Scraped:
    text = (folder / "metrics" / f"{cell}-{moment}.prom").read_text("utf-8")
    return events.Scraped(
        **at,
        moment=moment,
        at_ns=_ns(seconds),
        artifact=f"{cell}-{moment}.prom",
        series=to_json(parse(text)),
        error=None,
    )


def _samples(folder: Path) -> Iterable[dict[str, float | None]]:
    """The engine's gauges, each with the GPU sample nearest to it: both samplers ran at 0.5 s from the same start."""
    with (folder / "samples.csv").open(encoding="utf-8") as file:
        gauges = [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]
    with (folder / "nvidia-smi.csv").open(encoding="utf-8") as file:
        gpu = [
            (datetime.strptime(row[0], "%Y/%m/%d %H:%M:%S.%f"), float(row[1]), float(row[2]))
            for row in csv.reader(file, skipinitialspace=True)
        ]
    start = gauges[0]["t"]
    for gauge in gauges:
        near = min(gpu, key=lambda one: abs((one[0] - gpu[0][0]).total_seconds() - (gauge["t"] - start)))
        close = abs((near[0] - gpu[0][0]).total_seconds() - (gauge["t"] - start)) < 0.5
        yield {**gauge, "gpu": near[1] if close else None, "memory": near[2] if close else None}


def _ns(seconds: float) -> int:
    return round(seconds * SECOND)


def report() -> Reported:
    """The report of the recording."""
    with tempfile.TemporaryDirectory() as folder:
        return make_report(write_run(Path(folder) / "run"))


if __name__ == "__main__":
    made = report()
    print(made.report)
    if "--write" in sys.argv:
        (EXAMPLE / "report.md").write_text(made.report, encoding="utf-8", newline="\n")
        (EXAMPLE / "result.json").write_text(made.result, encoding="utf-8", newline="\n")
