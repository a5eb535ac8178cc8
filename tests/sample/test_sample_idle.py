"""Waiting until the engine is idle: by what the engine says, never by time, and never for ever."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import httpx
import pytest
from sample_metrics import Metrics, Script, http, run, text

from runner.engine import metrics
from runner.engine.exposition import Exposition
from runner.sample import scrape as scraping
from runner.sample.scrape import Idle, wait_idle

Finished = Callable[[Exposition], str | None]


def wait(
    script: Script,
    *,
    timeout: float = 20.0,
    finished: Finished = lambda _: None,
    alive: Callable[[], bool] = lambda: True,
    stop_after: float | None = None,
) -> tuple[Metrics, Idle]:
    async def main() -> tuple[Metrics, Idle]:
        stop = asyncio.Event()
        async with Metrics(script) as server, httpx.AsyncClient(trust_env=False) as client:
            if stop_after == 0:
                stop.set()
            elif stop_after is not None:
                asyncio.get_running_loop().call_later(stop_after, stop.set)
            idle = await wait_idle(
                client, server.endpoint, server.clock, timeout=timeout, finished=finished, alive=alive, stop=stop
            )
            return server, idle

    return run(main())


def falling(*texts: str | bytes) -> Script:
    """These, one for each scrape, and the last one for ever."""
    return lambda number: texts[min(number, len(texts) - 1)]


def wants(count: int) -> Finished:
    def missing(now: Exposition) -> str | None:
        done = now.total(metrics.REQUEST_SUCCESS)
        return None if done is not None and done >= count else f"finished {done or 0:g} of {count} requests"

    return missing


# Idle -------------------------------------------------------------------------------------------------


def test_an_idle_engine_is_scraped_once() -> None:
    server, idle = wait(falling(text(0, 0)))
    assert idle.reason is None
    assert len(server.asked) == 1
    assert idle.scrape.text == text(0, 0)


def test_an_engine_that_drains_slowly_is_waited_for() -> None:
    texts = [text(4, 3), text(4, 0), text(3, 0), text(1, 0), text(1, 0), text(0, 0)]
    server, idle = wait(falling(*texts))
    assert idle.reason is None
    assert len(server.asked) == len(texts)
    assert idle.scrape.text == texts[-1]


def test_requests_that_wait_while_none_runs_are_waited_for() -> None:
    """Preempted, or between two batches: running alone tells nothing."""
    server, idle = wait(falling(text(0, 2), text(0, 1), text(0, 0)))
    assert (idle.reason, len(server.asked)) == (None, 3)


def test_a_finished_counter_that_lags_behind_is_waited_for() -> None:
    texts = [text(0, 0, 60), text(0, 0, 63), text(0, 0, 63), text(0, 0, 64)]
    server, idle = wait(falling(*texts), finished=wants(64))
    assert (idle.reason, len(server.asked)) == (None, 4)
    assert idle.scrape.text == texts[-1]


def test_an_engine_that_is_busy_after_all_has_finished_is_waited_for() -> None:
    server, idle = wait(falling(text(1, 0, 64), text(0, 0, 64)), finished=wants(64))
    assert (idle.reason, len(server.asked)) == (None, 2)


def test_every_engine_of_a_model_must_be_idle() -> None:
    both = text(0, 0) + text(1, 0, engine=1).partition("\n")[2]
    server, idle = wait(falling(both, both, text(0, 0)))
    assert (idle.reason, len(server.asked)) == (None, 3)


def test_metrics_that_fail_for_a_while_are_waited_for() -> None:
    texts = [http("", 503), http("<html>"), b"", text(0, 0)]
    server, idle = wait(falling(*texts))
    assert (idle.reason, len(server.asked)) == (None, 4)


# Not idle ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seen", "name"),
    [(text(None, 0), metrics.RUNNING), (text(0, None), metrics.WAITING), (text(None, None, 64), metrics.RUNNING)],
    ids=["running", "waiting", "both"],
)
def test_gauges_that_are_not_exposed_are_a_reason_at_once(seen: str, name: str) -> None:
    """However long one waits they would not come: a reason, and no idleness."""
    server, idle = wait(falling(seen), timeout=60)
    assert idle.reason == f"{name} is not exposed"
    assert len(server.asked) == 1
    assert idle.scrape.exposition is not None


def test_one_gauge_that_is_not_exposed_does_not_hide_that_the_other_is_busy() -> None:
    server, idle = wait(falling(text(None, 2), text(None, 0)))
    assert (idle.reason, len(server.asked)) == (f"{metrics.RUNNING} is not exposed", 2)


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (text(2, 0), f"{metrics.RUNNING} is 2"),
        (text(0, 3), f"{metrics.WAITING} is 3"),
        (text(float("nan"), 0), f"{metrics.RUNNING} is nan"),
        (text(0, 0, 63), "finished 63 of 64 requests"),
        (text(0, 0), "finished 0 of 64 requests"),
        (http("", 503), "the metrics could not be read: HTTP 503"),
    ],
    ids=["running", "waiting", "nan", "finished", "no-counter", "unreadable"],
)
def test_the_end_of_the_time_is_a_reason(seen: str | bytes, reason: str) -> None:
    server, idle = wait(falling(seen), timeout=0.3, finished=wants(64))
    assert idle.reason == reason
    assert len(server.asked) > 1


def test_several_models_in_one_scrape_are_a_reason_and_no_sum() -> None:
    """Neither where both are idle, nor where only the waiting ones are mixed."""
    for both in (
        text(0, 0) + text(0, 0, model="other").partition("\n")[2],
        text(0, 0) + text(None, 0, model="other").partition("\n")[2],
        text(None, 0) + text(None, 0, model="other").partition("\n")[2],
    ):
        _, idle = wait(falling(both), timeout=0.05)
        assert idle.reason is not None
        assert "several models (m, other)" in idle.reason
        assert idle.scrape.exposition is None
        assert idle.scrape.text == both


# Not for ever -----------------------------------------------------------------------------------------


def test_a_dead_engine_ends_the_wait_early() -> None:
    """Its last gauges said busy; nobody will ever say idle."""
    began = time.monotonic()

    async def main() -> Idle:
        async with Metrics(lambda _: text(1, 0)) as server:
            pass
        async with httpx.AsyncClient(trust_env=False) as client:
            return await wait_idle(
                client, server.endpoint, server.clock, timeout=120, alive=lambda: False, stop=asyncio.Event()
            )

    idle = run(main())
    assert time.monotonic() - began < 60
    assert idle.reason is not None
    assert "could not be read" in idle.reason


def test_an_engine_that_dies_during_the_wait_ends_it_early() -> None:
    lives = iter([True, True, False])
    server, idle = wait(falling(text(1, 0)), timeout=120, alive=lambda: next(lives))
    assert idle.reason == f"{metrics.RUNNING} is 1"
    assert len(server.asked) == 3


@pytest.mark.parametrize("alive", [True, False])
def test_an_engine_whose_end_nobody_is_told_of_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, alive: bool) -> None:
    """Nothing takes a connection any more: whoever was there has ended."""
    monkeypatch.setattr(scraping, "_GONE", 0.2)
    began = time.monotonic()

    async def main() -> Idle:
        async with Metrics(lambda _: text(1, 0)) as server:
            pass
        async with httpx.AsyncClient(trust_env=False) as client:
            return await wait_idle(
                client, server.endpoint, server.clock, timeout=120, alive=lambda: alive, stop=asyncio.Event()
            )

    idle = run(main())
    assert time.monotonic() - began < 60
    assert idle.scrape.refused
    assert idle.reason is not None and "could not be read" in idle.reason


def test_an_engine_that_answers_badly_for_long_is_still_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scraping, "_GONE", 0.1)
    texts = [*[http("", 503)] * 20, b"", text(0, 0)]
    server, idle = wait(falling(*texts))
    assert (idle.reason, len(server.asked)) == (None, len(texts))
    assert not idle.scrape.refused


def test_stop_ends_the_wait_early() -> None:
    began = time.monotonic()
    _, idle = wait(falling(text(1, 0)), timeout=120, stop_after=0.1)
    assert time.monotonic() - began < 60
    assert idle.reason == f"{metrics.RUNNING} is 1"


def test_a_stop_that_was_set_before_still_looks_once() -> None:
    server, idle = wait(falling(text(0, 0)), stop_after=0)
    assert (idle.reason, len(server.asked)) == (None, 1)
    server, idle = wait(falling(text(1, 0)), timeout=120, stop_after=0)
    assert (idle.reason, len(server.asked)) == (f"{metrics.RUNNING} is 1", 1)


async def _hang(_: int) -> str:
    await asyncio.sleep(60)
    return text(0, 0)


@pytest.mark.parametrize("stop_after", [0, 0.05])
def test_stop_ends_a_wait_whose_metrics_hang(stop_after: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scraping, "_LAST_LOOK", 0.1)
    monkeypatch.setattr(scraping, "_SCRAPE_TIMEOUT", 50.0)
    began = time.monotonic()
    _, idle = wait(_hang, timeout=120, stop_after=stop_after)
    assert time.monotonic() - began < 30
    assert idle.reason == "the metrics could not be read: the run was stopped before they came"
    assert idle.scrape.exposition is None


def test_metrics_that_hang_do_not_stretch_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scraping, "_LAST_LOOK", 0.1)
    monkeypatch.setattr(scraping, "_SCRAPE_TIMEOUT", 50.0)
    began = time.monotonic()
    _, idle = wait(_hang, timeout=0.3)
    assert time.monotonic() - began < 30
    assert idle.reason is not None
    assert "no answer within" in idle.reason
