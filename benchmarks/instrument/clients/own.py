"""Our generator, called as the runner calls it, and its captures read as the runner reads them."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

from instrument.cell import MODEL, prompt
from instrument.clients.job import Job, body
from runner.engine.verdict import Verdict
from runner.load.generator import Load, LoadGenerator
from runner.load.reading import Judged, read_captures
from runner.record.clock import RunClock


async def _run(job: Job, clock: RunClock) -> tuple[list[Path], float]:
    load = Load(
        endpoint=job.url,
        bodies=[body(number) for number in range(job.requests)],
        requests=job.requests,
        concurrency=job.concurrency,
        timeout=600,
        capture=job.result.with_name("round.capture"),
    )
    async with LoadGenerator() as generator:
        await generator.start(1)
        before = time.process_time()
        captures = await generator.send(load, clock=clock, stop=asyncio.Event())
        return captures, time.process_time() - before


def main() -> None:
    """Do the job that the command line names; TTFT and end-to-end time are those of the judged requests."""
    path = Path(sys.argv[1])
    job = Job(**{**json.loads(path.read_text("utf-8")), "result": path.with_name("result.json")})
    clock = RunClock()
    captures, main_cpu = asyncio.run(_run(job, clock))
    before = time.process_time()
    heard = read_captures(captures, model=MODEL, stream=True)
    after_cpu = time.process_time() - before
    rows = [_row(one, clock.origin_ns) for one in heard.judged]
    told = {
        "requests": rows,
        "round_cpu_s": sum(process.cpu_seconds for process in heard.processes),
        "round_main_cpu_s": main_cpu,
        "after_cpu_s": after_cpu,
        "kernel_clock": sum(one.exchange.clock == "kernel" for one in heard.judged),
        "capture_bytes": sum(capture.stat().st_size for capture in captures),
        "processes": [process.model_dump(mode="json") for process in heard.processes],
        "worker_peak_mib": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
        "own_peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    job.result.write_text(json.dumps(told))


def _row(judged: Judged, origin_ns: int) -> dict[str, Any]:
    done, reply = judged.exchange, judged.reply
    said = prompt(done.index)
    if judged.verdict is not Verdict.OK or reply is None or reply.first_token_ns is None:
        return {"prompt": said, "failed": f"{judged.verdict}: {judged.detail}"}
    if done.sent_ns is None or done.last_byte_ns is None:
        return {"prompt": said, "failed": "without its own times"}
    return {
        "prompt": said,
        "sent_ns": done.sent_ns + origin_ns,
        "ended_ns": done.last_byte_ns + origin_ns,
        "ttft_s": (reply.first_token_ns - done.sent_ns) / 1e9,
        "e2e_s": (done.last_byte_ns - done.sent_ns) / 1e9,
        "stamps_ns": [at + origin_ns for at in reply.event_ns],
        "bounds": [number for number, _ in reply.event_bounds],
        "failed": "",
    }


if __name__ == "__main__":
    main()
