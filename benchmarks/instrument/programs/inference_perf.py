"""inference-perf, with a concurrent load."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from instrument.cell import MODEL, Task
from instrument.programs.environments import environment_of, install
from instrument.programs.program import environment
from instrument.reported import Reported, Unreadable

PINNED = "inference-perf-0.7.0"


class InferencePerf:
    """One process a core, aiohttp below. Its report per request has the time of each chunk."""

    name = "inference-perf 0.7.0"
    rival = True
    remark = "its conversations have two messages at least: the prompt is the second of two"

    def missing(self) -> str | None:
        """Installs it."""
        return install(PINNED, "3.12")

    def command(self, task: Task) -> tuple[Sequence[str], Mapping[str, str]]:
        """A configuration file; JSON is YAML."""
        talks = [
            {"conversations": [{"from": "human", "value": "."}, {"from": "human", "value": said}]}
            for said in ("dropped: the first conversation is read to see whether there is one", *task.prompts)
        ]
        data = task.folder / "prompts.json"
        data.write_text(json.dumps(talks), "utf-8")
        fields = {"request": True, "response": False, "info": True, "response_chunks": False, "computed_metrics": True}
        stage = {"num_requests": task.cell.requests, "concurrency_level": task.cell.concurrency}
        config = {
            "api": {"type": "chat", "streaming": True},
            "data": {"type": "shareGPT", "path": str(data)},
            "load": {"type": "concurrent", "interval": 0, "stages": [stage]},
            "server": {"type": "vllm", "model_name": MODEL, "base_url": task.url},
            "tokenizer": {"pretrained_model_name_or_path": str(task.tokenizer)},
            "storage": {"local_storage": {"path": str(task.folder / "result")}},
            "report": {
                "request_lifecycle": {
                    "summary": False, "per_stage": False, "per_request": True, "per_request_fields": fields,
                    "use_server_output_tokens": True,
                }
            },
        }  # fmt: skip
        path = task.folder / "config.yaml"
        path.write_text(json.dumps(config), "utf-8")
        program = environment_of(PINNED) / "bin" / "inference-perf"
        return [str(program), "--config_file", str(path)], environment()

    def read(self, task: Task) -> Reported:
        """`time_to_first_token`, `request_latency` and `chunk_times` (its clock is the monotonic one)."""
        ttft, e2e, stamps, flights, failed = [], [], {}, [], 0
        try:
            path = task.folder / "result" / "per_request_lifecycle_metrics.json"
            for row in json.loads(path.read_text("utf-8")):
                if row["error"] is not None:
                    failed += 1
                    continue
                ttft.append(row["computed_metrics"]["time_to_first_token"])
                e2e.append(row["computed_metrics"]["request_latency"])
                said = json.loads(row["request"])["messages"][-1]["content"]
                stamps[said] = [round(at * 1e9) for at in row["info"]["response_metrics"]["chunk_times"]]
                flights.append((round(row["start_time"] * 1e9), round(row["end_time"] * 1e9)))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Unreadable(f"{type(error).__name__}: {error}") from None
        return Reported(ttft, e2e, stamps, flights=flights, failed=failed)
