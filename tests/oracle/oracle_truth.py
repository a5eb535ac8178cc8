"""What the oracle knows: the times of each request, and the counters of its metrics page."""

from __future__ import annotations

import json
import time
from array import array
from dataclasses import dataclass, field
from typing import Any

from oracle_script import PROMPT_TOKENS, Said


@dataclass(slots=True)
class Asked:
    """One request. Stamps are nanoseconds of CLOCK_MONOTONIC; `before` and `after` of the send that completed each
    event, `last_*` of the one that ended the answer."""

    label: str | None
    body_index: Any
    last_words: str | None
    arrived_ns: int | None
    received_ns: int
    said: Said
    before: array[int] = field(default_factory=lambda: array("q"))
    after: array[int] = field(default_factory=lambda: array("q"))
    last_before: int | None = None
    last_after: int | None = None


def _told(asked: Asked) -> dict[str, Any]:
    return {
        "id": asked.label,
        "body_index": asked.body_index,
        "last_words": asked.last_words,
        "arrived_ns": asked.arrived_ns,
        "received_ns": asked.received_ns,
        "last_before_ns": asked.last_before,
        "last_after_ns": asked.last_after,
        "tokens": list(asked.said.tokens),
        "generated": asked.said.generated,
        "fault": asked.said.fault,
    }


def truth_lines(asked: list[Asked]) -> bytes:
    """A JSON object a line, in order of arrival."""
    lines = [
        json.dumps({**_told(one), "sent_before_ns": one.before.tolist(), "sent_after_ns": one.after.tolist()})
        for one in asked
    ]
    return "".join(line + "\n" for line in lines).encode()


def truth_binary(asked: list[Asked]) -> bytes:
    """The same for many stamps: a line with a JSON list of the requests, each with `sent`, how many stamps it has, and
    without them; behind it, for each request, the stamps before and the stamps after, as the machine's int64."""
    rows = [{**_told(one), "sent": len(one.before)} for one in asked]
    stamps = b"".join(part.tobytes() for one in asked for part in (one.before, one.after))
    return json.dumps(rows).encode() + b"\n" + stamps


class Counters:
    """The series of a vLLM server that a runner follows."""

    def __init__(self, model: str) -> None:
        self._labels = f'engine="0",model_name="{model}"'
        self._started = time.time()
        self._running = self._finished = self._generated = 0
        self._e2e = self._ttft = 0.0

    def began(self, _: Asked) -> None:
        """A request was read."""
        self._running += 1

    def left(self, _: Asked) -> None:
        """Its client went away, or what it was answered ends in a fault of the transport."""
        self._running -= 1

    def ended(self, asked: Asked) -> None:
        """It was answered to the end."""
        self._running -= 1
        if not asked.said.counted or asked.last_before is None:
            return
        self._finished += 1
        self._generated += asked.said.generated
        self._e2e += (asked.last_before - asked.received_ns) / 1e9
        self._ttft += ((asked.before[0] if asked.before else asked.last_before) - asked.received_ns) / 1e9

    def page(self) -> bytes:
        """Prometheus text."""
        rows: list[tuple[str, str, str, str, float]] = [
            ("vllm:num_requests_running", "gauge", "", "", self._running),
            ("vllm:num_requests_waiting", "gauge", "", "", 0),
            ("vllm:generation_tokens", "counter", "_total", "", self._generated),
            ("vllm:prompt_tokens", "counter", "_total", "", self._finished * PROMPT_TOKENS),
            ("vllm:request_success", "counter", "_total", ',finished_reason="stop"', self._finished),
        ]
        lines = []
        for name, kind, end, label, value in rows:
            lines += [f"# HELP {name} ...", f"# TYPE {name} {kind}", f"{name}{end}{{{self._labels}{label}}} {value}"]
        for name, total in (
            ("vllm:e2e_request_latency_seconds", self._e2e),
            ("vllm:time_to_first_token_seconds", self._ttft),
        ):
            lines += [
                f"# HELP {name} ...",
                f"# TYPE {name} histogram",
                f'{name}_bucket{{{self._labels},le="+Inf"}} {self._finished}',
                f"{name}_count{{{self._labels}}} {self._finished}",
                f"{name}_sum{{{self._labels}}} {total!r}",
            ]
        start = "process_start_time_seconds"
        lines += [f"# HELP {start} ...", f"# TYPE {start} gauge", f"{start} {self._started!r}"]
        return ("\n".join(lines) + "\n").encode()
