"""The load generator's stamps against the oracle's own times.

Tolerances are ratios, or such as a busy machine keeps: the kernel stamps within the oracle's send, however late the
client reads."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from calibration import (
    US,
    Round,
    figures,
    kernel,
    load_round,
    off,
    outside,
    quantile,
    spinning,
    times_of,
)
from oracle_process import Serving, oracle
from oracle_script import event_bytes, read_script

from runner.engine.verdict import Verdict

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel stamps what is received on Linux alone")
CORES = sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else [0]
BASE = {"events": 32, "first_after_s": 0.06, "gap_s": 0.03, "tail_after_s": 0.01}


@pytest.fixture(scope="module")
def serving() -> Iterator[Serving]:
    """The oracle on the first core; where a test names one, the client has the last."""
    with oracle(BASE, cpu=CORES[0]) as found:
        yield found


def first_stamps(round_: Round) -> list[float]:
    """Microseconds by which the first token's stamp lies outside its send."""
    return [
        off(pair.events[0].kernel_ns, pair.truth.sent_before_ns[0], pair.truth.sent_after_ns[0]) / US
        for pair in round_.pairs
        if pair.events[0].exact
    ]


def read_lags(round_: Round) -> list[float]:
    """Microseconds between the kernel's stamp and the end of the read, of each event."""
    return [(heard.seen_ns - heard.kernel_ns) / US for heard, _, _ in round_.events]


def exact_share(round_: Round) -> float:
    """The share of the events behind which their read held nothing more."""
    return sum(heard.exact for heard, _, _ in round_.events) / len(round_.events)


def assert_read(round_: Round) -> None:
    """The runner finds in the captures what is there: each event's stamp, the kernel's, and whether it is exact."""
    for pair, judged in zip(round_.pairs, round_.judged, strict=True):
        assert judged.verdict is Verdict.OK and judged.reply is not None
        assert judged.exchange.clock == "kernel"
        assert judged.exchange.last_byte_ns == pair.last_ns - round_.origin_ns
        assert judged.reply.event_ns == tuple(heard.kernel_ns - round_.origin_ns for heard in pair.events)
        assert judged.reply.events_tokens == tuple(pair.truth.tokens)
        bounded = {number for number, _ in judged.reply.event_bounds}
        # behind the last event there is no token any more
        assert bounded - {len(pair.events) - 1} == {
            number for number, heard in enumerate(pair.events[:-1]) if not heard.exact
        }


def assert_true(round_: Round) -> None:
    """Events are read one by one, their stamps are those of the sends, and times of whole requests are the oracle's."""
    assert_read(round_)
    # nothing gathers what comes, and nothing that takes long is done before a read
    assert exact_share(round_) > 0.75
    assert len(first_stamps(round_)) > 0.75 * len(round_.pairs)
    assert quantile(outside(round_.events, kernel), 0.5) < 100
    assert quantile(first_stamps(round_), 0.5) < 100
    errors = [abs(pair.e2e_error) for pair in round_.pairs]
    assert quantile(errors, 0.5) < 0.01
    # whose read waited is not the kernel's matter: its stamps are as good at the 99th percentile
    assert quantile(outside(round_.events, kernel), 0.99) < max(100, quantile(read_lags(round_), 0.99) / 5)


# Stamps -----------------------------------------------------------------------------------------------


def test_stamps_are_those_of_the_sends(serving: Serving, tmp_path: Path) -> None:
    round_ = load_round(serving, tmp_path, requests=48, concurrency=16)
    assert_true(round_)
    [closing] = round_.closings
    assert closing.why_user is None


def test_many_streams_at_once_are_stamped_as_truly(serving: Serving, tmp_path: Path) -> None:
    round_ = load_round(
        serving, tmp_path, requests=128, concurrency=64, over={"gap_s": 0.01, "events": 64}, cpu=CORES[-1]
    )
    assert_true(round_)


def test_a_busy_core_makes_reads_late_and_no_stamp(serving: Serving, tmp_path: Path) -> None:
    with spinning(CORES[-1]):
        round_ = load_round(serving, tmp_path, requests=48, concurrency=16, cpu=CORES[-1])
    assert_read(round_)
    late, wrong = quantile(read_lags(round_), 0.99), quantile(outside(round_.events, kernel), 0.99)
    assert wrong * 5 < late
    assert wrong < 100 or wrong * 20 < late
    assert quantile(outside(round_.events, kernel), 0.5) < 100
    assert quantile(first_stamps(round_), 0.5) < 100


@contextlib.contextmanager
def namespace() -> Iterator[tuple[list[str], str]]:
    """A network namespace joined to this one by a veth pair: the words that run a command in it, and its address."""
    name, here, there = f"oracle-{os.getpid()}", f"orch{os.getpid()}", f"orct{os.getpid()}"
    network = f"198.18.{os.getpid() % 256}"  # of the range that is set apart for benchmarks

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)

    ip("netns", "add", name)
    try:
        ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
        ip("addr", "add", f"{network}.1/30", "dev", here)
        ip("link", "set", here, "up")
        ip("-n", name, "addr", "add", f"{network}.2/30", "dev", there)
        ip("-n", name, "link", "set", there, "up")
        yield ["ip", "netns", "exec", name], f"{network}.2"
    finally:
        ip("netns", "delete", name)  # and with it the pair


def test_through_a_veth_pair_the_stamps_are_as_true(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("making a network namespace takes root")
    with contextlib.ExitStack() as stack:
        try:
            words, address = stack.enter_context(namespace())
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no network namespace can be made here: {error}")
        there = stack.enter_context(oracle(BASE, host=address, prefix=words))
        round_ = load_round(there, tmp_path, requests=96, concurrency=32)
    assert_true(round_)


# What a read holds ------------------------------------------------------------------------------------


def test_an_event_cut_at_any_byte_has_the_stamp_of_its_last_one(serving: Serving, tmp_path: Path) -> None:
    words = {"text": ["é", "🙂", "쓴다"], "events": 4, "gap_s": 0.2}
    script = read_script({**BASE, **words})
    splits = [
        (0, 3, 0.05),  # in the field's name
        (1, event_bytes(script, 1).index("🙂".encode()) + 2, 0.05),  # in a character
        (2, len(event_bytes(script, 2)) - 1, 0.05),  # between the two line feeds
    ]
    round_ = load_round(serving, tmp_path, requests=8, concurrency=4, over={**words, "splits": splits})
    assert_true(round_)
    for pair in round_.pairs:
        for number, _, delay in splits:
            due = 60e6 + number * 200e6 + delay * 1e9
            assert pair.truth.sent_before_ns[number] - pair.truth.received_ns >= due
            assert pair.events[number].kernel_ns >= pair.truth.sent_before_ns[number] - 100 * US


def test_of_events_in_one_send_only_the_last_is_exact(serving: Serving, tmp_path: Path) -> None:
    round_ = load_round(serving, tmp_path, requests=8, concurrency=4, over={"coalesce": 4})
    for pair in round_.pairs:
        within = [heard.exact for number, heard in enumerate(pair.events) if number % 4 != 3]
        assert not any(within)
    assert_read(round_)
    last = [pair.events[number] for pair in round_.pairs for number in range(3, 32, 4)]
    assert sum(heard.exact for heard in last) > 0.9 * len(last)
    assert quantile(outside(round_.events, kernel), 0.5) < 100


# Processes, and what they cost ------------------------------------------------------------------------


def test_one_and_four_processes_give_the_same_statistics(serving: Serving, tmp_path: Path) -> None:
    found = []
    for processes in (1, 4):
        folder = tmp_path / str(processes)
        folder.mkdir()
        turns = [{"first_after_s": 0.1 * turn, "gap_s": 0.02 * turn} for turn in (1, 2, 3)]
        round_ = load_round(
            serving, folder, requests=66, concurrency=16, processes=processes, over={"turns": turns, "events": 12}
        )
        assert [pair.captured.index for pair in round_.pairs] == list(range(66))
        assert len(round_.closings) == processes and all(closing.requests for closing in round_.closings)
        assert sum(closing.slots for closing in round_.closings) == 16
        assert_true(round_)
        mine = figures([pair.times for pair in round_.pairs])
        truth = figures([times_of(pair.truth) for pair in round_.pairs])
        for metric, values in mine.items():
            for share in (0.5, 0.9):
                assert quantile(values, share) == pytest.approx(quantile(truth[metric], share), rel=0.02), metric
        found.append(mine)
    for metric, values in found[0].items():
        for share in (0.5, 0.9):
            assert quantile(values, share) == pytest.approx(quantile(found[1][metric], share), rel=0.05), metric


def test_nothing_that_comes_is_parsed_in_the_round(serving: Serving, tmp_path: Path) -> None:
    """Events of one length, cheap and dear to parse, cost a round the same."""
    dear = [0.125] * 2000
    contents = {"cheap": "." * (len(json.dumps(dear, separators=(",", ":"))) - 2), "dear": dear}
    cost: dict[str, list[float]] = {"cheap": [], "dear": []}
    for turn in range(2):
        for kind, content in contents.items():
            folder = tmp_path / f"{kind}{turn}"
            folder.mkdir()
            over = {"events": 64, "gap_s": 0.01, "extra": {"metrics": content}}
            round_ = load_round(serving, folder, requests=16, concurrency=16, over=over)
            cost[kind].append(sum(closing.cpu_seconds for closing in round_.closings))
    assert min(cost["dear"]) < 2 * min(cost["cheap"]), cost
