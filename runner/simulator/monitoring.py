"""Everything that ``GET /metrics`` and the periodic log show, and the faults that falsify it."""

from __future__ import annotations

import asyncio
import re
import time

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from runner.simulator.configuration import Configuration
from runner.simulator.engine_metrics import EngineMetrics
from runner.simulator.exposition import Page, render_collectors
from runner.simulator.faults import Faults
from runner.simulator.http_metrics import CurrentMetrics, HttpMetrics
from runner.simulator.lying import Lies
from runner.simulator.periodic_log import PeriodicLog
from runner.simulator.statistics import StepStatistics

__all__ = ["CONTENT_TYPE_LATEST", "Monitoring"]

_START_TIME = re.compile(rb"(?m)^(process_start_time_seconds) .*$")


class Monitoring(CurrentMetrics):
    """The metrics of one engine process; `reset` starts them anew as a restarted process would."""

    def __init__(self, configuration: Configuration, faults: Faults) -> None:
        self._configuration = configuration
        self._faults = faults
        self._log = PeriodicLog(configuration)
        nowhere = CollectorRegistry()
        self._collectors = (
            GCCollector(nowhere),
            PlatformCollector(nowhere),
            ProcessCollector(registry=nowhere),
        )
        self._restarted_at: float | None = None
        self._lag = float(faults.parameter("slow-drain", "seconds") or 0)
        self._finished = 0
        self._lies = Lies(faults.of_kind("counter-lies"))
        self._make()

    def _make(self) -> None:
        self._page = Page()
        self._engine = EngineMetrics(self._configuration, self._page)
        self.http = HttpMetrics(self._page)

    def reset(self) -> None:
        """Fault ``restart``: all series back to 0, another start time."""
        self._restarted_at = time.time()
        self._finished = 0
        self._make()

    def record(self, step: StepStatistics) -> None:
        """Take in one step, at once or (fault ``slow-drain``) later."""
        if self._lag:
            asyncio.get_running_loop().call_later(self._lag, self._apply, step)
        else:
            self._apply(step)

    def _apply(self, step: StepStatistics) -> None:
        if not self._configuration.values["disable_log_stats"]:
            self._engine.record(step)
            self._log.add(step)
        self._finished += len(step.finished)

    async def write_periodic_log(self, seconds: float) -> None:
        """Print the periodic lines for ever."""
        while not self._configuration.values["disable_log_stats"]:
            await asyncio.sleep(seconds)
            self._log.write()

    def render(self) -> bytes:
        """The page of ``/metrics``."""
        fresh = render_collectors(self._collectors)
        if self._restarted_at is not None:
            fresh = _START_TIME.sub(b"process_start_time_seconds " + repr(self._restarted_at).encode(), fresh)
        text = fresh + self._page.render()
        if self._configuration.values["disable_log_stats"]:
            text = _without(text, "vllm:", prefix=True)
        for fault in self._faults.of_kind("missing-series"):
            text = _without(text, fault["name"], prefix=False)
        return self._lies.told(text, self._finished)


def _names(name: str) -> set[str]:
    base = name.removesuffix("_total")
    return {name, *(base + end for end in ("", "_total", "_created", "_bucket", "_sum", "_count"))}


def _without(page: bytes, name: str, *, prefix: bool) -> bytes:
    kept = []
    names = _names(name)
    for line in page.decode().splitlines(keepends=True):
        words = line.split(None, 3)
        series = words[2] if line.startswith("#") else re.split(r"[{ ]", line, maxsplit=1)[0]
        if not (series.startswith(name) if prefix else series in names):
            kept.append(line)
    return "".join(kept).encode()
