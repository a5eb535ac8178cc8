"""The engine's periodic log lines, by default every 10 s, in vLLM's words (v1/metrics/loggers.py,
v1/spec_decode/metrics.py).
"""

from __future__ import annotations

import time

from runner.simulator import log, wording
from runner.simulator.configuration import Configuration
from runner.simulator.startup_log import device_word
from runner.simulator.statistics import StepStatistics

INTERVAL = "VLLM_LOG_STATS_INTERVAL"
INTERVAL_SECONDS = 10.0


class PeriodicLog:
    """Sums over one interval; silent while nothing happens."""

    def __init__(self, configuration: Configuration) -> None:
        drafting = configuration.speculation
        self._positions = drafting.tokens if drafting else 0
        self._wording = wording.of(configuration.release)
        self._device = device_word(configuration)
        # The first draft that is verified makes a GPU's runner compile a kernel, and say so.
        self._compiles = configuration.host.device == "GPU" and configuration.runner == "V1"
        self._queried = self._hits = 0
        self._latest = StepStatistics(0, 0, 0.0)
        self._was_busy = False
        self._reset()

    def _reset(self) -> None:
        self._since = time.monotonic()
        self._prompt = self._generated = self._preempted = 0
        self._drafts: list[tuple[int, int]] = []

    def add(self, step: StepStatistics) -> None:
        """Take in one step."""
        if step.drafts and self._compiles:
            self._compiles = False
            log.core(
                "WARNING",
                self._wording.source["jit"],
                "Triton kernel JIT compilation during inference: rejection_greedy_sample_kernel. This causes a latency "
                "spike; consider extending warmup to cover this shape/config.",
            )
        self._latest = step
        self._queried += step.queried
        self._hits += step.hits
        self._preempted += step.preempted
        self._generated += step.generated
        self._prompt += sum(prompt - cached for prompt, cached, _ in step.first)
        self._drafts += step.drafts

    def write(self) -> None:
        """Print the interval's lines and start the next interval."""
        elapsed = time.monotonic() - self._since
        busy = bool(self._prompt or self._generated)
        if busy or self._was_busy:
            self._write_engine(elapsed)
        if self._drafts:
            self._write_drafts(elapsed)
        self._was_busy = busy
        self._reset()

    def _write_engine(self, elapsed: float) -> None:
        hit_rate = f", Prefix cache hit rate: {100 * self._hits / self._queried if self._queried else 0.0:.1f}%"
        if self._wording.hit_rate_waits and not self._queried:
            hit_rate = ""
        preempted = f", Preemptions: {self._preempted}" if self._preempted else ""
        log.api(
            "INFO",
            self._wording.source["statistics"],
            f"Engine 000: Avg prompt throughput: {self._prompt / elapsed:.1f} tokens/s, "
            f"Avg generation throughput: {self._generated / elapsed:.1f} tokens/s, "
            f"Running: {self._latest.running} reqs, Waiting: {self._latest.waiting} reqs{preempted}, "
            f"{self._device} KV cache usage: {100 * self._latest.kv_usage:.1f}%{hit_rate}",
        )

    def _write_drafts(self, elapsed: float) -> None:
        count = len(self._drafts)
        drafted = sum(pair[0] for pair in self._drafts)
        accepted = sum(pair[1] for pair in self._drafts)
        rates = ", ".join(
            f"{sum(1 for pair in self._drafts if pair[1] > position) / count:.3f}"
            for position in range(self._positions)
        )
        log.api(
            "INFO",
            self._wording.source["drafts"],
            f"SpecDecoding metrics: Mean acceptance length: {1 + accepted / count:.2f}, "
            f"Accepted throughput: {accepted / elapsed:.2f} tokens/s, "
            f"Drafted throughput: {drafted / elapsed:.2f} tokens/s, Accepted: {accepted} tokens, "
            f"Drafted: {drafted} tokens, Per-position acceptance rate: {rates}, "
            f"Avg Draft acceptance rate: {100 * accepted / drafted:.1f}%",
        )
