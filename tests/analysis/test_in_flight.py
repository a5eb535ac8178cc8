"""Requests in flight, the concurrency that was achieved, and whether the client was the limit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from journals import SECOND, both, client, edit_events, make_record, old, watched

from runner.analysis.cell import cell
from runner.analysis.client import client_facts
from runner.analysis.client_limit import client_limit
from runner.analysis.comparison import comparison
from runner.analysis.in_flight import achieved_concurrency, asked, in_flight
from runner.analysis.latency import client_mean_latency
from runner.analysis.value import Absent
from runner.record.events import RequestDone, TokenEvents
from runner.record.record import Round

MS = SECOND // 1000


def round_of(*requests: tuple[float, float | None], concurrency: int = 2, role: str = "measured") -> Round:
    """A round whose requests were sent and over at these seconds."""
    made = Round("a", 1, "load", concurrency, 1)
    for index, (sent, ended) in enumerate(requests):
        over = None if ended is None else int(ended * SECOND)
        made.requests.append(
            RequestDone.model_validate(
                {
                    "arm": "a",
                    "replicate": 1,
                    "phase": "load",
                    "concurrency": concurrency,
                    "round": 1,
                    "engine": "e",
                    "index": index,
                    "role": role,
                    "body_id": "b",
                    "planned_ns": int(sent * SECOND),
                    "sent_ns": int(sent * SECOND),
                    "first_byte_ns": None,
                    "first_token_ns": None,
                    "last_byte_ns": over,
                    "ended_ns": over,
                    "verdict": "ok" if over is not None else "interrupted",
                    "detail": "",
                    "status": 200,
                    "finish_reason": None,
                    "prompt_tokens": None,
                    "completion_tokens": None,
                    "output_id": None,
                }
            )
        )
    return made


def test_the_step_series() -> None:
    one = round_of((1, 3), (1, 4), (3, 5), (4.5, 6))
    # At 3 s one is over and one is sent: no step.
    assert [(at / SECOND, count) for at, count in in_flight(one)] == [(1, 2), (4, 1), (4.5, 2), (5, 1), (6, 0)]
    assert asked(one) == 2


def test_excluded_requests_were_in_flight_and_the_warm_up_was_before() -> None:
    one = round_of((1, 3), (2, 4))
    one.requests += round_of((0, 1), role="warm-up").requests
    one.requests += round_of((1, 2), role="excluded").requests
    assert [(at / SECOND, count) for at, count in in_flight(one)] == [(1, 2), (3, 1), (4, 0)]


def test_achieved_is_the_time_in_flight_while_there_was_one_to_send() -> None:
    # From 1 s to 4.5 s: two in flight for 3 s, one for half a second. What ends later is the ramp-down.
    assert achieved_concurrency(round_of((1, 3), (1, 4), (3, 5), (4.5, 60))) == pytest.approx(6.5 / 3.5)
    assert achieved_concurrency(round_of((1, 3), (1, 4))) == Absent("sent-at-once")
    assert achieved_concurrency(round_of((1, 3), (2, None))) == Absent("interrupted")
    assert achieved_concurrency(round_of()) == Absent("not-measured")


def test_no_more_is_asked_for_than_there_are() -> None:
    assert asked(round_of((1, 3), (1, 4), concurrency=16)) == 2


def slots(idle: float, waves: int = 4, concurrency: int = 4) -> Round:
    """Requests of one second, each slot idle for so long before its next one."""
    return round_of(
        *((wave * (1 + idle), wave * (1 + idle) + 1) for wave in range(waves) for _ in range(concurrency)),
        concurrency=concurrency,
    )


@pytest.mark.parametrize(("idle", "limited"), [(0.0, False), (0.05, False), (0.06, True), (1.0, True)])
def test_a_client_with_idle_slots_is_the_limit(idle: float, limited: bool) -> None:
    """A slot that is idle for 5.3 % of a request's time achieves 95 %."""
    found = client_limit(slots(idle))
    assert (found is not None) is limited
    if found is not None:
        assert found.reason == "client-limit"
        assert found.figures == pytest.approx({"achieved": 4 / (1 + idle), "asked": 4})


def test_a_slot_that_waits_for_its_connection_is_not_idle() -> None:
    """With a connection for each request the handshakes are in no request's time, and not the client's either."""
    one = slots(0.2)
    assert client_limit(one) is not None
    one = replace(one, requests=[request.model_copy(update={"connect_ns": SECOND // 5}) for request in one.requests])
    assert client_limit(one) is None
    assert achieved_concurrency(one) == pytest.approx(4 / 1.2)
    assert achieved_concurrency(one, connecting=True) == pytest.approx(4)
    half = slots(0.2)
    half.requests = [request.model_copy(update={"connect_ns": SECOND // 10}) for request in half.requests]
    found = client_limit(half)
    assert found is not None and found.figures == pytest.approx({"achieved": 4 / 1.2, "asked": 4})


def test_too_few_waves_and_single_requests_are_not_judged_by_what_was_achieved() -> None:
    assert client_limit(slots(0.9, waves=2)) is None and client_limit(slots(0.9, waves=3)) is not None
    # At 1 the pause is in no request's time.
    assert client_limit(slots(0.9, concurrency=1)) is None


@pytest.mark.parametrize(("lag_ms", "limited"), [(50, False), (51, True)])
def test_a_loop_that_lags_is_the_limit(tmp_path: Path, lag_ms: int, limited: bool) -> None:
    """Requests of `on` take a second, and 5 % of it is 50 ms."""
    lag = client(watched(), watched(reads=100, read_lag_p99_ns=lag_ms * MS), where=lambda e: e.round == 1)
    own = cell(make_record(tmp_path, change=lag), "on", 4)
    assert [client_limit(round_) is not None for round_ in own.rounds] == [limited, False]
    assert own.client_limit == (Absent("client-lag", {"lag": lag_ms / 1000, "duration": 1.0}) if limited else None)


@pytest.mark.parametrize(
    ("seen", "limited"),
    [
        # one late read of few, and timers that fire four times a second: no more than a pause of the machine
        ({"reads": 99, "read_lag_p99_ns": 80 * MS}, False),
        ({"reads": 99, "read_lag_p50_ns": 80 * MS}, True),
        ({"loop_lag_p99_ns": 80 * MS}, False),
        # by the user clock there are the timers alone
        ({"loop_lag_p99_ns": 80 * MS, "read_lag_p50_ns": None, "read_lag_p99_ns": None, "clock": "user"}, True),
        ({"loop_lag_p99_ns": None, "read_lag_p50_ns": None, "read_lag_p99_ns": None, "clock": "user"}, False),
    ],
)
def test_which_lag_counts(tmp_path: Path, seen: dict[str, Any], limited: bool) -> None:
    own = cell(make_record(tmp_path, change=client(watched(**seen))), "on", 4)
    assert (client_limit(own.rounds[0]) is not None) is limited


def test_a_client_that_did_not_watch_itself_is_not_judged_by_its_lag(tmp_path: Path) -> None:
    assert cell(make_record(tmp_path, change=old), "on", 4).client_limit is None


LAGGING = client(watched(reads=100, read_lag_p99_ns=80 * MS), where=lambda e: e.arm == "on" and e.concurrency in (1, 4))
"""More than 5 % of `on`'s second; at concurrency 1 the client's times are what is compared."""


def test_the_latencies_of_a_client_that_was_the_limit_compare_nothing(tmp_path: Path) -> None:
    record = make_record(tmp_path, change=LAGGING)
    limit = Absent("client-lag", {"lag": 0.08, "duration": 1.0})
    alone = comparison(record, "on", 1)
    assert client_mean_latency(alone.other.rounds[0]) == limit
    assert (alone.other.mean_latency, alone.speedup, alone.lowest_ratio("latency")) == (limit, limit, limit)
    assert alone.base.mean_latency == pytest.approx(2.0)
    # Above 1 the latency is the engine's own, and the throughput is judged as ever.
    loaded = comparison(record, "on", 4)
    assert (loaded.throughput_ratio, loaded.latency_ratio) == (pytest.approx(2.0), pytest.approx(2.0))
    assert loaded.lowest_ratio("throughput") == pytest.approx(2.0)


def test_the_facts_of_a_cell_are_its_worst(tmp_path: Path) -> None:
    first = client(
        watched(loop_lag_p99_ns=3 * MS, drift_ns=-9_000),
        watched(cpu_seconds=8.0, queued_seconds=2.0, seconds=20.0),
        where=lambda e: e.round == 1,
    )
    second = client(watched(read_lag_p99_ns=7 * MS, drift_ns=4_000), where=lambda e: e.round == 2)
    found = client_facts(cell(make_record(tmp_path, change=both(first, second)), "on", 4))
    assert found is not None
    assert (found.processes, found.asked, found.clocks) == (2, 4, ["kernel"])
    assert found.achieved == pytest.approx(4.0)
    assert (found.loop_lag, found.read_lag, found.drift) == pytest.approx((0.003, 0.007, 9e-6))
    assert (found.cpu, found.queued) == pytest.approx((0.4, 0.1))
    assert found.upper_bounds == Absent("not-streamed")


def test_the_lowest_of_the_rounds_was_achieved(tmp_path: Path) -> None:
    def later(event: RequestDone) -> RequestDone:
        moved = {name: getattr(event, name) + 2 * SECOND for name in ("sent_ns", "last_byte_ns", "ended_ns")}
        return event.model_copy(update=moved)

    last = edit_events(RequestDone, later, lambda e: e.concurrency == 4 and e.round == 2 and e.index > 60)
    found = client_facts(cell(make_record(tmp_path, change=last), "on", 4))
    # 15 waves of a second, the last one sent two seconds late: 60 seconds of requests in a span of 17.
    assert found is not None and found.achieved == pytest.approx(60 / 17)


def test_what_a_round_does_not_say_is_absent(tmp_path: Path) -> None:
    gone = client(where=lambda e: e.round == 2)
    found = client_facts(cell(make_record(tmp_path, change=gone), "on", 4))
    assert found is not None and found.processes == found.loop_lag == found.cpu == Absent("client-unwatched")
    silent = client(watched(queued_seconds=None, read_lag_p99_ns=None, clock="user", why_user="TLS"))
    found = client_facts(cell(make_record(tmp_path, change=silent), "on", 4))
    assert found is not None
    assert (found.queued, found.read_lag) == (Absent("not-said"), Absent("no-read-lag"))
    assert found.why_user == ["TLS"]


def test_the_share_of_upper_bounds_is_of_all_events(tmp_path: Path) -> None:
    def with_events(event: RequestDone) -> RequestDone:
        bounds = [(0, 0)] if event.round == 1 else []
        return event.model_copy(update={"events": TokenEvents(at_ns=[1, 1, 2, 3], tokens=None, bounds=bounds)})

    record = make_record(tmp_path, change=edit_events(RequestDone, with_events))
    found = client_facts(cell(record, "on", 4))
    assert found is not None and found.upper_bounds == pytest.approx(1 / 8)


def test_of_a_cell_without_rounds_nothing_is_known(tmp_path: Path) -> None:
    def only_off(journal: Any) -> Any:
        return [event for event in journal if getattr(event, "arm", "off") == "off"]

    record = make_record(tmp_path, change=only_off)
    assert client_facts(cell(record, "on", 4)) is None and client_facts(cell(record, "off", 4)) is not None
