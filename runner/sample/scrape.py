"""One scrape of `/metrics`, and waiting until the engine is idle."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import httpx

from runner.engine import metrics
from runner.engine.exposition import Exposition, ExpositionError, parse
from runner.record.clock import RunClock

METRICS_PATH = "/metrics"
_SCRAPE_TIMEOUT = 10.0
_IDLE_POLL = 0.02


@dataclass(frozen=True, slots=True)
class Scrape:
    """One reading: the raw text, and what it says, or why it says nothing."""

    at_ns: int
    text: str
    exposition: Exposition | None
    error: str | None


@dataclass(frozen=True, slots=True)
class RawScrape:
    """One reading not yet parsed: parsing takes time that belongs to the load."""

    at_ns: int
    text: str | None
    error: str | None


async def scrape_raw(client: httpx.AsyncClient, endpoint: str, clock: RunClock) -> RawScrape:
    """Fetch the metrics' text. Never raises; the stamp is taken when the text is there."""
    try:
        async with asyncio.timeout(_SCRAPE_TIMEOUT):
            response = await client.get(endpoint + METRICS_PATH)
    except TimeoutError:
        return RawScrape(clock.now(), None, f"no answer within {_SCRAPE_TIMEOUT:g} s")
    except httpx.HTTPError as error:
        return RawScrape(clock.now(), None, str(error) or type(error).__name__)
    at_ns = clock.now()
    if response.status_code != 200:
        return RawScrape(at_ns, response.text, f"HTTP {response.status_code}")
    return RawScrape(at_ns, response.text, None)


def read_scrape(raw: RawScrape) -> Scrape:
    """Parse what was fetched; text that is no exposition becomes an error, never an empty reading."""
    if raw.error is not None or raw.text is None:
        return Scrape(raw.at_ns, raw.text or "", None, raw.error)
    try:
        return Scrape(raw.at_ns, raw.text, parse(raw.text), None)
    except ExpositionError as error:
        return Scrape(raw.at_ns, raw.text, None, str(error))


async def scrape(client: httpx.AsyncClient, endpoint: str, clock: RunClock) -> Scrape:
    """Fetch and parse."""
    return read_scrape(await scrape_raw(client, endpoint, clock))


@dataclass(frozen=True, slots=True)
class Idle:
    """The scrape that showed the engine idle, or the last one with the reason why not."""

    scrape: Scrape
    reason: str | None


async def wait_idle(
    client: httpx.AsyncClient,
    endpoint: str,
    clock: RunClock,
    *,
    timeout: float,
    finished: Callable[[Exposition], str | None] = lambda _: None,
    alive: Callable[[], bool],
    stop: asyncio.Event,
) -> Idle:
    """Scrape until running = waiting = 0 and `finished` has nothing to say.

    `finished` returns what is still missing, such as "finished 64 of 65 requests". An engine that does not
    expose the two gauges cannot be seen idle, however long one waits: that is a reason, not idleness. Ends
    early when the engine is no longer `alive`.
    """
    deadline = clock.now() + int(timeout * 1e9)
    while True:
        latest = await scrape(client, endpoint, clock)
        blind = busy = None
        if latest.exposition is None:
            busy = f"the metrics could not be read: {latest.error}"
        else:
            blind = _not_exposed(latest.exposition)
            busy = _busy(latest.exposition) or finished(latest.exposition)
        if busy is None or clock.now() > deadline or stop.is_set() or not alive():
            return Idle(latest, busy or blind)
        await asyncio.sleep(_IDLE_POLL)


_GAUGES = (metrics.RUNNING, metrics.WAITING)


def _not_exposed(exposition: Exposition) -> str | None:
    return next((f"{name} is not exposed" for name in _GAUGES if exposition.total(name) is None), None)


def _busy(exposition: Exposition) -> str | None:
    return next((f"{name} is {value:g}" for name in _GAUGES if (value := exposition.total(name))), None)
