"""`vllm bench serve`, of the real engine that the tests use."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence

from instrument.cell import MODEL, Task
from instrument.programs.environments import engine, environment_of, install_beside, install_engine
from instrument.programs.program import environment
from instrument.reported import Reported, Unreadable

PINNED = "bench-serve-0.32.0"


class BenchServe:
    """One process, aiohttp below. Its detailed result has, in the prompts' order, start, TTFT and the gaps."""

    name = "vllm bench serve 0.32.0"
    rival = True
    remark = "chunk stamps from its detailed result: start + TTFT + gaps, which are between all chunks with a choice"

    def missing(self) -> str | None:
        """Installs the engine, and beside it what this command needs more."""
        return install_engine() or install_beside(PINNED, engine() / "bin" / "python")

    def command(self, task: Task) -> tuple[Sequence[str], Mapping[str, str]]:
        """The prompts in a file, in their order and as they are."""
        data = task.folder / "prompts.jsonl"
        data.write_text("".join(json.dumps({"prompt": said}) + "\n" for said in task.prompts), "utf-8")
        words = {
            "backend": "openai-chat",
            "endpoint": "/v1/chat/completions",
            "base-url": task.url,
            "model": MODEL,
            "tokenizer": str(task.tokenizer),
            "dataset-name": "custom",
            "dataset-path": str(data),
            "custom-output-len": str(task.cell.events),
            "num-prompts": str(task.cell.requests),
            "max-concurrency": str(task.cell.concurrency),
            "result-dir": str(task.folder),
            "result-filename": "result.json",
        }
        options = [word for name, value in words.items() for word in (f"--{name}", value)]
        flags = ["--skip-chat-template", "--disable-shuffle", "--save-result", "--save-detailed"]
        env = environment(PYTHONPATH=str(environment_of(PINNED)))
        return [str(engine() / "bin" / "vllm"), "bench", "serve", *options, *flags], env

    def read(self, task: Task) -> Reported:
        """`ttfts`, `latencies`, `itls` and `start_times` (its clock is the monotonic one)."""
        ttft, e2e, stamps, flights, failed = [], [], {}, [], 0
        try:
            told = json.loads((task.folder / "result.json").read_text("utf-8"))
            rows = zip(
                task.prompts, told["errors"], told["start_times"], told["ttfts"], told["itls"], told["latencies"],
                strict=True,
            )  # fmt: skip
            for said, error, begin, first, gaps, whole in rows:
                if error:
                    failed += 1
                    continue
                ttft.append(first)
                e2e.append(whole)
                times = list(itertools.accumulate(gaps, initial=begin + first))
                # the first is the role's chunk: it is what this program takes for the first token
                stamps[said] = [round(at * 1e9) for at in times[-task.cell.events :]]
                flights.append((round(begin * 1e9), round((begin + whole) * 1e9)))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Unreadable(f"{type(error).__name__}: {error}") from None
        return Reported(ttft, e2e, stamps, flights=flights, failed=failed)
