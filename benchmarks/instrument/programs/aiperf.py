"""aiperf, as `aiperf profile` with a concurrency and a number of requests."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Mapping, Sequence

from instrument.cell import MODEL, Task, prompt
from instrument.programs.environments import environment_of, install
from instrument.programs.program import environment
from instrument.reported import Reported, Unreadable

PINNED = "aiperf-0.13.0"


class AIPerf:
    """More than ten processes over ZMQ. Its records have the time of the request and the gaps between the chunks."""

    name = "aiperf 0.13.0"
    rival = True
    remark = "chunk stamps from its records: start + TTFT + gaps, its wall clock brought to the monotonic one"

    def missing(self) -> str | None:
        """Installs it."""
        return install(PINNED, "3.11")

    def command(self, task: Task) -> tuple[Sequence[str], Mapping[str, str]]:
        """The prompts in their order; without what has nothing to do with the load (other metrics, a display)."""
        data = task.folder / "prompts.jsonl"
        data.write_text("".join(json.dumps({"text": said}) + "\n" for said in task.prompts), "utf-8")
        words = {
            "model": MODEL,
            "url": task.url,
            "endpoint-type": "chat",
            "tokenizer": str(task.tokenizer),
            "input-file": str(data),
            "custom-dataset-type": "single_turn",
            "dataset-sampling-strategy": "sequential",
            "concurrency": str(task.cell.concurrency),
            "request-count": str(task.cell.requests),
            "artifact-dir": str(task.folder / "result"),
            "ui-type": "none",
        }
        options = [word for name, value in words.items() for word in (f"--{name}", value)]
        program = environment_of(PINNED) / "bin" / "aiperf"
        # told to be offline it takes a folder for a name of the hub; the tokenizer here is a folder, and nothing asks
        env = {name: value for name, value in environment().items() if not name.endswith("_OFFLINE")}
        return [str(program), "profile", *options, "--streaming", "--no-server-metrics", "--no-gpu-telemetry"], env

    def read(self, task: Task) -> Reported:
        """`time_to_first_token`, `request_latency` and `inter_chunk_latency` of each record, in ms."""
        offset = min(_offsets(), key=lambda pair: pair[0])[1]
        ttft, e2e, stamps, flights, failed = [], [], {}, [], 0
        try:
            lines = (task.folder / "result" / "profile_export.jsonl").read_text("utf-8").splitlines()
            for record in map(json.loads, lines):
                if record.get("error"):
                    failed += 1
                    continue
                about, metrics = record["metadata"], record["metrics"]
                begin = about["request_start_ns"] - offset
                first = metrics["time_to_first_token"]["value"]
                ttft.append(first / 1e3)
                e2e.append(metrics["request_latency"]["value"] / 1e3)
                gaps = metrics.get("inter_chunk_latency", {"value": []})["value"]
                times = itertools.accumulate(gaps, initial=first)
                stamps[prompt(about["session_num"])] = [begin + round(at * 1e6) for at in times]
                flights.append((begin, begin + round(metrics["request_latency"]["value"] * 1e6)))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Unreadable(f"{type(error).__name__}: {error}") from None
        return Reported(ttft, e2e, stamps, flights=flights, failed=failed)


def _offsets() -> list[tuple[int, int]]:
    """(how long a pair of readings took, wall clock minus monotonic clock), many times."""
    found = []
    for _ in range(200):
        before, wall, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        found.append((after - before, wall - (before + after) // 2))
    return found
