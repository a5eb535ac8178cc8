"""How often to sample: never more seldom than asked, and often enough before the last request is sent."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from runner.sample import gauges
from runner.sample.gauges import WANTED_SAMPLES, sampling_interval

SECONDS = st.floats(0.001, 600)
COUNTS = st.integers(1, 2000)


def last_send(latency: float, requests: int, concurrency: int) -> float:
    """Seconds until the last request is sent, in a closed loop whose requests all take `latency`: played."""
    free = [0.0] * min(concurrency, requests)
    sent = 0.0
    for number in range(requests):
        slot = number % len(free)  # all take as long, so they end in the order of their sending
        sent = free[slot]
        free[slot] += latency
    return sent


@settings(deadline=None)
@given(asked=SECONDS, latency=st.none() | SECONDS, requests=COUNTS, concurrency=COUNTS)
def test_never_above_the_asked_one_and_never_frantic(
    asked: float, latency: float | None, requests: int, concurrency: int
) -> None:
    interval = sampling_interval(asked, latency=latency, requests=requests, concurrency=concurrency)
    assert 0 < interval <= asked
    assert interval >= min(asked, gauges._SHORTEST)


@settings(deadline=None)
@given(asked=SECONDS, latency=SECONDS, requests=COUNTS, concurrency=COUNTS, slower=st.floats(1, 3))
@example(asked=2.0, latency=0.5, requests=64, concurrency=16, slower=1.0)
@example(asked=2.0, latency=10.0, requests=17, concurrency=16, slower=1.0)
def test_enough_samples_come_before_the_last_request_is_sent(
    asked: float, latency: float, requests: int, concurrency: int, slower: float
) -> None:
    """`latency` is a lower bound, so it holds for slower requests too. Where not even the shortest interval gives
    enough, it is the shortest."""
    interval = sampling_interval(asked, latency=latency, requests=requests, concurrency=concurrency)
    window = last_send(latency * slower, requests, concurrency)
    if window == 0:
        assert interval == asked  # all are sent at once: nothing helps, so the engine is left in peace
    elif interval > gauges._SHORTEST or window / gauges._SHORTEST >= WANTED_SAMPLES * 1.01:
        assert int(window / interval) >= WANTED_SAMPLES
    else:
        assert interval == min(asked, gauges._SHORTEST)


@settings(deadline=None)
@given(asked=SECONDS, latency=SECONDS, requests=COUNTS, concurrency=COUNTS)
def test_an_interval_that_suffices_is_left_alone(asked: float, latency: float, requests: int, concurrency: int) -> None:
    """Not more often than needed: each scrape costs the engine time."""
    interval = sampling_interval(asked, latency=latency, requests=requests, concurrency=concurrency)
    if last_send(latency, requests, concurrency) / asked >= WANTED_SAMPLES * 2:
        assert interval == asked


def test_an_unknown_latency_leaves_the_asked_interval() -> None:
    assert sampling_interval(2.0, latency=None, requests=64, concurrency=16) == 2.0
