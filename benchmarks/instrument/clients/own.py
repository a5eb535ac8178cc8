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
from runner.load.capture import CaptureReader
from runner.load.exchange import read_exchange
from runner.load.generator import Load, LoadGenerator
from runner.load.reading import judge_exchange
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
    rows, worker_cpu, clocks = [], 0.0, {"kernel": 0, "user": 0}
    for capture in captures:
        reader = CaptureReader(capture)
        for captured in reader:
            done = read_exchange(captured, kernel=True)
            clocks[done.clock] += 1
            rows.append(_row(done, clock.origin_ns))
        if reader.closing is not None:
            worker_cpu += reader.closing.cpu_seconds
    told = {
        "requests": rows,
        "round_cpu_s": worker_cpu,
        "round_main_cpu_s": main_cpu,
        "after_cpu_s": time.process_time() - before,
        "kernel_clock": clocks["kernel"],
        "user_clock": clocks["user"],
        "worker_peak_mib": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    job.result.write_text(json.dumps(told))


def _row(done: Any, origin_ns: int) -> dict[str, Any]:
    judged = judge_exchange(done, model=MODEL, stream=True)
    reply = judged.reply
    if judged.verdict is not Verdict.OK or reply is None or reply.first_token_ns is None or done.last_byte_ns is None:
        return {"prompt": prompt(done.index), "failed": f"{judged.verdict}: {judged.detail}"}
    return {
        "prompt": prompt(done.index),
        "sent_ns": done.sent_ns + origin_ns,
        "ended_ns": done.last_byte_ns + origin_ns,
        "ttft_s": (reply.first_token_ns - done.sent_ns) / 1e9,
        "e2e_s": (done.last_byte_ns - done.sent_ns) / 1e9,
        "stamps_ns": [at + origin_ns for at in reply.event_ns],
        "failed": "",
    }


if __name__ == "__main__":
    main()
