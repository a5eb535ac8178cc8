"""guidellm, as `guidellm run` with a concurrent profile."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from instrument.cell import MODEL, Task
from instrument.programs.environments import environment_of, install
from instrument.programs.program import environment
from instrument.reported import Reported, Unreadable

PINNED = "guidellm-0.8.1"


class GuideLLM:
    """It spawns its workers, imports torch in each, and tells per request when it was asked, and its TTFT."""

    name = "guidellm 0.8.1"
    rival = True
    remark = "TTFT and latency per request from its JSON report; it keeps no stamps of single chunks"

    def missing(self) -> str | None:
        """Installs it."""
        return install(PINNED, "3.11")

    def command(self, task: Task) -> tuple[Sequence[str], Mapping[str, str]]:
        """The prompts in a file; everything else as it is by default."""
        data = task.folder / "prompts.jsonl"
        data.write_text("".join(json.dumps({"prompt": said}) + "\n" for said in task.prompts), "utf-8")
        chat = "request_format=/v1/chat/completions"
        words = {
            "backend": f"kind=openai_http,target={task.url},model={MODEL},{chat}",
            "profile": f"kind=concurrent,streams={task.cell.concurrency}",
            "constraint": f"kind=max_requests,count={task.cell.requests}",
            "data": f"kind=json_file,path={data}",
            "tokenizer": f"kind=huggingface_auto,model={task.tokenizer}",
            "output": f"kind=json,path={task.folder / 'result.json'}",
        }
        options = [word for name, value in words.items() for word in (f"--{name}", value)]
        program = environment_of(PINNED) / "bin" / "guidellm"
        return [str(program), "run", *options, "--disable-console"], environment()

    def read(self, task: Task) -> Reported:
        """`time_to_first_token_ms` and `request_latency` of each good request."""
        try:
            told = json.loads((task.folder / "result.json").read_text("utf-8"))["benchmarks"][0]["requests"]
            good = told["successful"]
            ttft = [row["time_to_first_token_ms"] / 1e3 for row in good]
            e2e = [row["request_latency"] for row in good]
        except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
            raise Unreadable(f"{type(error).__name__}: {error}") from None
        return Reported(ttft, e2e, failed=len(told["errored"]) + len(told["incomplete"]))
