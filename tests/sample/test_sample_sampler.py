"""Reading an engine's metrics, once and again and again: what fails is an error with its words, never a zero."""

from __future__ import annotations

import asyncio
import contextlib
import gzip

import httpx
import pytest
from sample_metrics import Metrics, Script, http, run, text

from runner.sample import scrape as scraping
from runner.sample.gauges import Gauges, Sampler, read_gauges
from runner.sample.scrape import RawScrape, Scrape, read_scrape, scrape, scrape_raw

BUSY = text(3, 5, usage=0.25, deferred=2.0)


async def sampled(server: Metrics, enough: int, interval: float = 0.01) -> Sampler:
    """Sample until the server has answered `enough` times, then stop as a round does."""
    sampler = Sampler(server.endpoint, interval, server.clock)
    task = asyncio.create_task(sampler.run())
    async with asyncio.timeout(20):
        while len(sampler.raw()) < enough:
            assert not task.done()
            await asyncio.sleep(0.002)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    del sampler.raw()[enough:]  # on a slow machine there may be more, and one that hung when this stopped
    return sampler


def samples(script: Script, enough: int = 5, interval: float = 0.01) -> tuple[Metrics, Sampler]:
    async def main() -> tuple[Metrics, Sampler]:
        async with Metrics(script) as server:
            return server, await sampled(server, enough, interval)

    return run(main())


def once(script: Script) -> tuple[Scrape, Gauges]:
    """One scrape, as a scrape and as a sample."""

    async def main() -> RawScrape:
        async with Metrics(script) as server, httpx.AsyncClient(trust_env=False) as client:
            return await scrape_raw(client, server.endpoint, server.clock)

    raw = run(main())
    return read_scrape(raw), read_gauges(raw)


def blank(gauges: Gauges, *words: str) -> None:
    """An error, and no value at all: not 0."""
    assert gauges.error
    for word in words:
        assert word in gauges.error
    values = (gauges.running, gauges.waiting, gauges.waiting_by_reason, gauges.kv_cache_usage)
    assert values == (None, None, None, None)


# Sampler ----------------------------------------------------------------------------------------------


def test_samples_hold_the_gauges_and_the_raw_texts() -> None:
    def script(number: int) -> str:
        return text(number, number * 2, usage=number / 100, deferred=number)

    server, sampler = samples(script)
    read = sampler.read()
    assert len(read) == len(sampler.raw()) == 5
    for number, (raw, sample) in enumerate(zip(sampler.raw(), read, strict=True)):
        assert raw.text == script(number)
        assert raw.error is None
        assert sample.at_ns == raw.at_ns
        assert server.answered[number] <= raw.at_ns  # the stamp is of the moment when the text was there
        assert sample == Gauges(
            raw.at_ns, number, number * 2, {"capacity": 0.0, "deferred": number}, number / 100, None
        )
    stamps = [raw.at_ns for raw in sampler.raw()]
    assert stamps == sorted(stamps)


def test_a_sampler_never_scrapes_more_often_than_its_interval() -> None:
    server, _ = samples(lambda _: BUSY, enough=8, interval=0.03)
    # the n-th scrape is asked for after n intervals; later is allowed, on a busy machine
    assert all(at >= server.asked[0] + number * 30_000_000 - 30_000_000 for number, at in enumerate(server.asked))


def test_gauges_that_are_not_exposed_are_absent_and_no_error() -> None:
    _, sampler = samples(lambda _: text(1, None), enough=1)
    sample = sampler.read()[0]
    assert (sample.running, sample.error) == (1.0, None)
    assert (sample.waiting, sample.waiting_by_reason, sample.kv_cache_usage) == (None, None, None)


def test_an_idle_engine_has_zeros_and_no_error() -> None:
    """The other side of it: a zero that the engine stated is a zero."""
    _, sampler = samples(lambda _: text(0, 0, usage=0.0), enough=1)
    sample = sampler.read()[0]
    assert (sample.running, sample.waiting, sample.kv_cache_usage, sample.error) == (0.0, 0.0, 0.0, None)


def test_engines_of_one_model_are_summed() -> None:
    _, sampler = samples(lambda _: text(2, 1) + text(3, 4, engine=1).partition("\n")[2], enough=1)
    sample = sampler.read()[0]
    assert (sample.running, sample.waiting, sample.error) == (5.0, 5.0, None)


def test_failing_metrics_are_samples_with_errors_between_good_ones() -> None:
    """Every second scrape fails, and the sampler goes on."""
    failures = [
        http("no such page", 404),
        http("<html>502 Bad Gateway</html>", 200, "text/html"),
        b"",  # the connection closes
        http('{"detail": "no"}', 500, "application/json"),
    ]

    def script(number: int) -> str | bytes:
        return BUSY if number % 2 == 0 else failures[number // 2 % len(failures)]

    _, sampler = samples(script, enough=10)
    read = sampler.read()
    for number, sample in enumerate(read):
        if number % 2 == 0:
            assert (sample.running, sample.error) == (3.0, None)
        else:
            blank(sample)
    assert [raw.text for raw in sampler.raw()[:8]] == [
        BUSY, "no such page", BUSY, "<html>502 Bad Gateway</html>", BUSY, None, BUSY, '{"detail": "no"}',
    ]  # fmt: skip


def test_a_dead_engine_is_samples_with_errors() -> None:
    async def main() -> Sampler:
        async with Metrics(lambda _: BUSY) as server:
            pass
        return await sampled(server, 3)

    for sample in run(main()).read():
        blank(sample)


def test_slow_metrics_are_samples_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scraping, "_SCRAPE_TIMEOUT", 0.2)

    async def slow(number: int) -> str:
        await asyncio.sleep(60 if number % 2 else 0)
        return BUSY

    _, sampler = samples(slow, enough=4)
    for number, sample in enumerate(sampler.read()):
        if number % 2:
            blank(sample, "no answer within 0.2 s")
        else:
            assert sample.error is None


def test_a_slow_answer_moves_the_next_scrape_back() -> None:
    """At most one is under way, and what was missed is not made up for in a burst."""

    async def slow(_: int) -> str:
        await asyncio.sleep(0.055)
        return BUSY

    server, sampler = samples(slow, enough=4, interval=0.02)
    assert server.most_under_way == 1
    assert [sample.error for sample in sampler.read()] == [None] * 4
    for asked, answered in zip(server.asked[1:], server.answered, strict=False):
        assert asked >= answered


def test_metrics_that_hang_when_the_load_ends_are_a_sample_with_an_error() -> None:
    """Else a round whose metrics hung all the time would look like one that nobody sampled."""

    async def main() -> Sampler:
        async def hang(_: int) -> str:
            await asyncio.sleep(60)
            return BUSY

        async with Metrics(hang) as server:
            sampler = Sampler(server.endpoint, 0.02, server.clock)
            task = asyncio.create_task(sampler.run())
            await asyncio.sleep(0.2)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            assert task.cancelled()
        return sampler

    [sample] = run(main()).read()
    blank(sample, "no answer within", "when the load ended")


def test_a_scrape_just_begun_when_the_load_ends_is_no_failure() -> None:
    async def main() -> Sampler:
        asked = asyncio.Event()

        async def hang(_: int) -> str:
            asked.set()
            await asyncio.sleep(60)
            return BUSY

        async with Metrics(hang) as server:
            sampler = Sampler(server.endpoint, 0.4, server.clock)
            task = asyncio.create_task(sampler.run())
            await asyncio.wait_for(asked.wait(), 10)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        return sampler

    assert run(main()).read() == []


# One scrape -------------------------------------------------------------------------------------------


def test_a_scrape_keeps_the_text_to_the_byte() -> None:
    whole = "# HELP vllm:x é 🙂\r\n" + BUSY
    seen, _ = once(lambda _: whole)
    assert seen.text == whole
    assert seen.error is None
    assert seen.exposition is not None


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (http("not found", 404), "HTTP 404"),
        (http(BUSY, 503), "HTTP 503"),
        (http("", 200), "empty"),
        (http("<html></html>", 200, "text/html"), "HTML"),
        (http('{"error": {"message": "x"}}', 200), "JSON"),
        (http("vllm:num_requests_running{ 1\n"), "cannot be read"),
        (http("# only a comment\n"), "no series"),
        (http(BUSY + BUSY), "twice"),
        (http(b"\xff\xfe\xfd"), ""),
        (http(BUSY)[:-40], "no answer within"),
        (b"", ""),
        (b"SSH-2.0\r\n\r\n", ""),
    ],
    ids=[
        "404", "503-with-text", "empty", "html", "json", "broken", "comment", "twice", "binary", "cut", "closed",
        "no-http",
    ],
)  # fmt: skip
def test_a_scrape_that_says_nothing_has_an_error(answer: bytes, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scraping, "_SCRAPE_TIMEOUT", 0.3)
    seen, sample = once(lambda _: answer)
    assert seen.exposition is None
    assert seen.error
    assert words in seen.error
    blank(sample, words)


def test_the_text_of_a_failure_is_kept() -> None:
    seen, _ = once(lambda _: http("upstream connect error", 503))
    assert seen.text == "upstream connect error"


def two(first: str, second: str) -> str:
    return first + second.partition("\n")[2]


@pytest.mark.parametrize(
    "both",
    [
        two(text(1, 0, usage=0.1), text(2, 0, usage=0.1, model="other")),
        two(text(1, None), text(2, None, model="other")),
        two(text(None, 1), text(None, 2, model="other")),
        two(text(1, 1), text(None, 2, model="other")),
        two(text(1, 1, usage=0.1), text(None, None, usage=0.2, model="other")),
        two(text(1, 1, deferred=1), text(None, None, deferred=2, model="other")),
    ],
    ids=["all", "running", "waiting-alone", "waiting", "usage", "reasons"],
)
def test_several_models_in_one_scrape_are_an_error_and_no_sum(both: str) -> None:
    seen, sample = once(lambda _: both)
    assert seen.exposition is None
    assert seen.text == both
    blank(sample, "several models", "m, other")


def test_a_hanging_endpoint_is_waited_for_as_long_as_the_error_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's own limit (httpx: 5 s) must not come first, with no words."""
    monkeypatch.setattr(scraping, "_SCRAPE_TIMEOUT", 0.2)

    async def main() -> Scrape:
        async def hang(_: int) -> str:
            await asyncio.sleep(60)
            return BUSY

        async with Metrics(hang) as server, httpx.AsyncClient(trust_env=False, timeout=0.05) as client:
            return await scrape(client, server.endpoint, server.clock)

    assert run(main()).error == "no answer within 0.2 s"


def test_a_scrape_asks_for_no_compression() -> None:
    """Compressing would cost the engine time while it is measured; what comes compressed is read all the same."""

    async def main() -> tuple[bytes, Scrape]:
        packed = gzip.compress(BUSY.encode())
        answer = http(packed).replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip\r\n\r\n", 1)
        async with Metrics(lambda _: answer) as server, httpx.AsyncClient(trust_env=False) as client:
            seen = await scrape(client, server.endpoint, server.clock)
            return server.heads[0], seen

    asked, seen = run(main())
    assert b"\r\naccept-encoding: identity\r\n" in asked.lower()
    assert asked.startswith(b"GET /metrics HTTP/1.1\r\n")
    assert seen.text == BUSY


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_a_sampler_ignores_a_proxy_in_the_environment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, "http://127.0.0.1:1")
    _, sampler = samples(lambda _: BUSY, enough=1)
    assert sampler.read()[0].error is None
