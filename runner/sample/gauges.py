"""Sampling while load runs: raw texts in the round, values after it."""

import math
from dataclasses import dataclass

from runner.access import OPEN, Access, http_client
from runner.engine import metrics
from runner.record.clock import RunClock
from runner.sample.cadence import at_interval
from runner.sample.scrape import SAMPLED, RawScrape, read_scrape, scrape_raw

WANTED_SAMPLES = 10
"""Samples that a cell needs before the last request is sent, so that a median means something."""

FIRST_REQUEST = 4.0
"""How much slower a process's first whole request may be than its later ones, for kernels are compiled in it. A real
GPU took 3.4 times as long for it (2.03 s, then 0.6 s), a CPU twice."""
_MARGIN = 2.0
"""Load can be faster than the request before it: on a real GPU, whose host was busy, by 30 %."""
_SHORTEST = 0.01
"""Seconds. A scrape costs the engine milliseconds of its own time; more often would disturb what is measured."""


@dataclass(frozen=True, slots=True)
class Gauges:
    """One sample, read. None is absent."""

    at_ns: int
    running: float | None
    waiting: float | None
    waiting_by_reason: dict[str, float] | None
    kv_cache_usage: float | None
    error: str | None


def sampling_interval(asked: float, *, latency: float | None, requests: int, concurrency: int) -> float:
    """Seconds between samples: the spec's, shortened so that enough come before the last request is sent.

    With C slots the last of n requests is sent after about n/C - 1 request times; `latency` is the latest known
    time of one request, which load only lengthens, so the estimate errs towards more samples. Where all requests
    are sent at once no interval helps, and the engine is not disturbed for nothing.
    """
    waves = max(math.ceil(requests / concurrency) - 1, 0)
    if latency is None or waves == 0:
        return asked
    enough = latency * waves / (WANTED_SAMPLES * _MARGIN)
    return min(asked, max(enough, _SHORTEST))


class Sampler:
    """Reads an endpoint at an interval until it is stopped."""

    def __init__(self, endpoint: str, interval: float, clock: RunClock, access: Access = OPEN) -> None:
        self._endpoint, self._interval, self._clock, self._access = endpoint, interval, clock, access
        self._raw: list[RawScrape] = []

    async def run(self) -> None:
        """Sample until cancelled; at most one scrape is under way."""
        async with http_client(self._access) as client:

            async def take() -> None:
                self._raw.append(await scrape_raw(client, self._endpoint, self._clock))

            def overdue(at_ns: int, why: str) -> None:
                self._raw.append(RawScrape(at_ns, None, why))

            await at_interval(self._interval, self._clock, take, overdue)

    def raw(self) -> list[RawScrape]:
        """The readings as they came, for the artifact."""
        return self._raw

    def read(self) -> list[Gauges]:
        """The readings' values; called after the round."""
        return [read_gauges(raw) for raw in self._raw]


def read_gauges(raw: RawScrape) -> Gauges:
    """The gauges of one reading."""
    seen = read_scrape(raw, SAMPLED)
    if seen.exposition is None:
        return Gauges(raw.at_ns, None, None, None, None, seen.error)
    return Gauges(
        at_ns=raw.at_ns,
        running=seen.exposition.total(metrics.RUNNING),
        waiting=seen.exposition.total(metrics.WAITING),
        waiting_by_reason=seen.exposition.by_label(metrics.WAITING_BY_REASON, metrics.REASON_LABEL),
        kv_cache_usage=seen.exposition.total(metrics.KV_USAGE),
        error=None,
    )
