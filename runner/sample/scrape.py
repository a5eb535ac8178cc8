"""One scrape of `/metrics`, and waiting until the engine is idle."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from runner.engine import metrics
from runner.engine.exposition import Exposition, ExpositionError, MixedModelsError, parse
from runner.engine.served import METRICS_PATH
from runner.record.clock import RunClock

_HEADERS = {"accept-encoding": "identity"}
"""Compressing its metrics would cost the engine time that belongs to the load."""
_SCRAPE_TIMEOUT = 10.0
_LAST_LOOK = 1.0
"""Seconds that a scrape gets at least when the time is up, and at most when the run is stopped."""
_IDLE_POLL = 0.02
_GONE = 3.0
"""Seconds without any connection after which nobody is waited for: an engine that was there has ended."""


@dataclass(frozen=True, slots=True)
class Scrape:
    """One reading: the raw text, and what it says, or why it says nothing. `refused`: no connection was to be had."""

    at_ns: int
    text: str
    exposition: Exposition | None
    error: str | None
    refused: bool = False


@dataclass(frozen=True, slots=True)
class RawScrape:
    """One reading not yet parsed: parsing takes time that belongs to the load."""

    at_ns: int
    text: str | None
    error: str | None
    refused: bool = False


async def scrape_raw(
    client: httpx.AsyncClient, endpoint: str, clock: RunClock, timeout: float | None = None
) -> RawScrape:
    """Fetch the metrics' text. Never raises; the stamp is taken when the text is there.

    `timeout`: seconds, instead of the usual limit; the client's own does not apply.
    """
    limit = _SCRAPE_TIMEOUT if timeout is None else timeout
    try:
        async with asyncio.timeout(limit):
            response = await client.get(endpoint + METRICS_PATH, headers=_HEADERS, timeout=None)
    except TimeoutError:
        return RawScrape(clock.now(), None, f"no answer within {limit:.3g} s")
    except httpx.HTTPError as error:
        words = str(error) or type(error).__name__
        return RawScrape(clock.now(), None, words, refused=isinstance(error, httpx.ConnectError))
    at_ns = clock.now()
    if response.status_code != 200:
        return RawScrape(at_ns, response.text, f"HTTP {response.status_code}")
    return RawScrape(at_ns, response.text, None)


def read_scrape(raw: RawScrape, names: Sequence[str] | None = None) -> Scrape:
    """Parse what was fetched, or of it the samples of these names; text that is no exposition becomes an error, never
    an empty reading.

    So do series of several models behind one endpoint: no sum of theirs means anything.
    """
    if raw.error is not None or raw.text is None:
        return Scrape(raw.at_ns, raw.text or "", None, raw.error, raw.refused)
    try:
        exposition = parse(raw.text, names)
        for name in SAMPLED:
            exposition.total(name)
    except (ExpositionError, MixedModelsError) as error:
        return Scrape(raw.at_ns, raw.text, None, str(error))
    return Scrape(raw.at_ns, raw.text, exposition, None)


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
    early when the engine is no longer `alive`, or when nothing takes a connection any more.
    """
    deadline = clock.now() + int(timeout * 1e9)
    last_there = clock.now()
    while True:
        remaining = (deadline - clock.now()) / 1e9
        latest = await _look(client, endpoint, clock, min(_SCRAPE_TIMEOUT, max(remaining, _LAST_LOOK)), stop)
        blind = busy = None
        if latest.exposition is None:
            busy = f"the metrics could not be read: {latest.error}"
        else:
            blind = _not_exposed(latest.exposition)
            busy = _busy(latest.exposition) or finished(latest.exposition)
        last_there = last_there if latest.refused else clock.now()
        gone = not alive() or clock.now() - last_there > _GONE * 1e9
        if busy is None or clock.now() > deadline or stop.is_set() or gone:
            return Idle(latest, busy or blind)
        await asyncio.sleep(_IDLE_POLL)


async def _look(client: httpx.AsyncClient, endpoint: str, clock: RunClock, limit: float, stop: asyncio.Event) -> Scrape:
    """A scrape that a hanging engine cannot hold up for long once the run is told to stop."""
    reading = asyncio.ensure_future(scrape_raw(client, endpoint, clock, limit))
    stopped = asyncio.ensure_future(stop.wait())
    both: list[asyncio.Future[Any]] = [reading, stopped]
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait(both[:1], timeout=_LAST_LOOK)
        if reading.done():
            return read_scrape(reading.result())
        return Scrape(clock.now(), "", None, "the run was stopped before they came")
    finally:
        for future in both:
            future.cancel()
        await asyncio.gather(*both, return_exceptions=True)


_GAUGES = (metrics.RUNNING, metrics.WAITING)
SAMPLED = (*_GAUGES, metrics.WAITING_BY_REASON, metrics.KV_USAGE)
"""What a sample is read from."""


def _not_exposed(exposition: Exposition) -> str | None:
    return next((f"{name} is not exposed" for name in _GAUGES if exposition.total(name) is None), None)


def _busy(exposition: Exposition) -> str | None:
    return next((f"{name} is {value:g}" for name in _GAUGES if (value := exposition.total(name))), None)
