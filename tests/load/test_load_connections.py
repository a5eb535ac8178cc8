"""Connections: how many, to where, what they carry, and how long they took to open."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop
from load_bytes import MODEL, completion, plain
from load_wire import PATIENCE, Played, Server, numbered, play, run, says

from runner.access import Access
from runner.engine.verdict import Verdict
from runner.load import closed_loop
from runner.load.closed_loop import ClosedLoop
from runner.load.destination import Destination
from runner.load.dial import dial
from runner.load.generator import Load, LoadGenerator
from runner.load.reading import Judged, judge_exchange, read_captures
from runner.record.clock import RunClock

OK = says(plain(completion()))


def judged(played: Played) -> list[Judged]:
    return [judge_exchange(one, model=MODEL, stream=False) for one in played.exchanges]


def verdicts(played: Played) -> list[Verdict]:
    return [one.verdict for one in judged(played)]


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_kept_alive_each_slot_has_one_connection_that_was_opened_before(loop: object) -> None:
    async def main() -> tuple[Server, Played]:
        async with Server(OK) as server:
            return server, await play(server, numbered(12), concurrency=3)

    server, played = run(main(), loop=loop)
    assert verdicts(played) == [Verdict.OK] * 12
    assert server.connections == 3
    assert [one.connect_ns for one in played.exchanges] == [None] * 12
    assert not any(b"\r\nconnection:" in head.lower() for head in server.heads)


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_per_request_each_has_a_connection_of_its_own_and_says_what_it_cost(loop: object) -> None:
    async def main() -> tuple[Server, Played]:
        async with Server(OK) as server:
            return server, await play(server, numbered(12), concurrency=3, keep_alive=False)

    server, played = run(main(), loop=loop)
    assert verdicts(played) == [Verdict.OK] * 12
    assert server.connections == 12
    assert all(b"\r\nconnection: close\r\n" in head.lower() for head in server.heads)
    for one in played.exchanges:
        assert one.connect_ns is not None
        assert one.sent_ns is not None
        assert 0 < one.connect_ns <= one.sent_ns - one.planned_ns  # it is no part of what the engine took


def test_a_server_that_keeps_what_was_to_be_closed_gets_no_second_request() -> None:
    """It ignores `Connection: close`: the client closes."""

    async def main() -> tuple[Server, Played]:
        async with Server(OK) as server:
            played = await play(server, numbered(3), keep_alive=False)
            await asyncio.gather(*(wire.gone() for wire in server.wires if not wire.reader.at_eof()))
            return server, played

    server, played = run(main())
    assert verdicts(played) == [Verdict.OK] * 3
    assert server.connections == 3


def test_nothing_waits_for_more_before_it_is_sent() -> None:
    """The kernel would hold back the end of a request until the server said that it has the begin."""
    found: list[int] = []

    async def opened(loop: ClosedLoop) -> None:
        for slot in loop._slots:
            assert slot._connection is not None
            found.append(slot._connection._sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    async def main() -> None:
        async with Server(OK) as server:
            await play(server, numbered(4), concurrency=2, opened=opened)

    run(main())
    assert [bool(one) for one in found] == [True, True]


# Where to ---------------------------------------------------------------------------------------------


def _ipv6() -> bool:
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as sock:
        sock.bind(("::1", 0))
        return True
    return False


@pytest.mark.skipif(not _ipv6(), reason="this machine has no IPv6")
def test_an_ipv6_address_is_spoken_to_and_named_in_brackets() -> None:
    async def main() -> tuple[Server, Played]:
        async with Server(OK, host="::1") as server:
            assert server.endpoint == f"http://[::1]:{server.port}"
            return server, await play(server, numbered(2))

    server, played = run(main())
    assert verdicts(played) == [Verdict.OK] * 2
    assert f"\r\nhost: [::1]:{server.port}\r\n".encode() in server.heads[0].lower()


def test_a_name_is_looked_up_and_stays_in_the_host_header() -> None:
    async def main() -> tuple[Server, Played]:
        async with Server(OK) as server:
            return server, await play(f"http://localhost:{server.port}/below/", numbered(2))

    server, played = run(main())
    assert verdicts(played) == [Verdict.OK] * 2
    assert server.heads[0].startswith(b"POST /below/v1/chat/completions HTTP/1.1\r\n")
    assert f"\r\nhost: localhost:{server.port}\r\n".encode() in server.heads[0].lower()


def test_the_second_address_is_taken_where_the_first_refuses() -> None:
    """As localhost is ::1 and 127.0.0.1, and many servers listen on one of them."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        closed = taken.getsockname()

    async def main() -> tuple[Server, Played, Played]:
        async with Server(OK) as server:
            open_ = (socket.AF_INET, ("127.0.0.1", server.port))
            first = (socket.AF_INET, closed)
            both = await play(server, numbered(2), keep_alive=False, addresses=[first, open_])
            return server, both, await play(server, numbered(1), addresses=[first, first])

    server, both, none = run(main())
    assert verdicts(both) == [Verdict.OK] * 2
    assert server.connections == 2
    assert verdicts(none) == [Verdict.REFUSED]


def test_a_name_without_an_address_is_refused() -> None:
    async def main() -> Played:
        return await play("http://nowhere.invalid:1", numbered(2), addresses=[])

    found = judged(run(main()))
    assert [one.verdict for one in found] == [Verdict.REFUSED] * 2
    assert all("no address" in one.detail for one in found)


@pytest.mark.parametrize(
    ("endpoint", "host", "port", "authority"),
    [
        ("http://127.0.0.1:8000", "127.0.0.1", 8000, "127.0.0.1:8000"),
        ("http://engine", "engine", 80, "engine"),
        ("https://engine/x", "engine", 443, "engine"),
        ("http://[fd00::1]:81", "fd00::1", 81, "[fd00::1]:81"),
        ("http://user:word@engine:82", "engine", 82, "engine:82"),
    ],
)
def test_an_endpoint_is_taken_apart(endpoint: str, host: str, port: int, authority: str) -> None:
    found = Destination.of(endpoint)
    assert (found.host, found.port, found.authority) == (host, port, authority)


def test_what_http_cannot_hold_is_written_as_it_can() -> None:
    """The endpoint target takes such addresses, and its probes, by httpx, reach them."""
    found = Destination.of("http://엔진.example:8000/모델/a%20b")
    assert (found.host, found.authority) == ("xn--li5b25e.example", "xn--li5b25e.example:8000")
    line = found.request(b"", [], keep_alive=True).split(b"\r\n")[0]
    assert line == b"POST /%EB%AA%A8%EB%8D%B8/a%20b/v1/chat/completions HTTP/1.1"
    assert Destination.of("https://엔진.example").authority == "xn--li5b25e.example"


@pytest.mark.parametrize("endpoint", ["ftp://engine", "engine:80", "http://", "http://engine:port"])
def test_what_is_no_endpoint_is_refused(endpoint: str) -> None:
    with pytest.raises(ValueError):
        Destination.of(endpoint)


# What goes along --------------------------------------------------------------------------------------


def test_headers_and_the_token_arrive_and_the_body_is_untouched() -> None:
    access = Access.made({"X-Tenant": "a b", "x-name": "caf\xe9"}, "s3cret")
    body = b'{"x": "\x00\xff\r\n\r\n"}'

    async def main() -> Server:
        async with Server(OK) as server:
            played = await play(server, [body], headers=access.headers)
            assert verdicts(played) == [Verdict.OK]
            return server

    server = run(main())
    [head] = server.heads
    for line in (b"X-Tenant: a b", b"x-name: caf\xe9", b"Authorization: Bearer s3cret"):
        assert head.split(b"\r\n").count(line) == 1
    assert server.bodies == [body]


def test_what_every_request_says_of_itself() -> None:
    """Bytes are read as they come, so that no compression is taken: it would gather what is to be stamped."""

    async def main() -> Server:
        async with Server(OK) as server:
            await play(server, [b"{}"])
            return server

    lines = run(main()).heads[0].lower().split(b"\r\n")
    assert b"accept-encoding: identity" in lines
    assert b"content-type: application/json" in lines
    assert lines[0] == b"post /v1/chat/completions http/1.1"
    names = [line.partition(b":")[0] for line in lines[1:] if line]
    assert len(names) == len(set(names))


def test_a_header_that_was_given_takes_the_place_of_ours() -> None:
    async def main() -> Server:
        async with Server(OK) as server:
            await play(server, [b"{}"], headers=[("user-agent", "ours"), ("ACCEPT", "text/event-stream")])
            return server

    lines = run(main()).heads[0].lower().split(b"\r\n")
    assert [line for line in lines if line.startswith(b"user-agent")] == [b"user-agent: ours"]
    assert [line for line in lines if line.startswith(b"accept:")] == [b"accept: text/event-stream"]


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY"])
def test_a_proxy_in_the_environment_is_ignored(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, "http://127.0.0.1:1")

    async def main() -> Played:
        async with Server(OK) as server:
            return await play(server, numbered(2))

    assert verdicts(run(main())) == [Verdict.OK] * 2


# Opening is part of the time that a request has ---------------------------------------------------------


@contextlib.contextmanager
def never_accepts() -> Iterator[str]:
    """An address whose queue is full: the kernel answers no SYN any more."""
    with contextlib.ExitStack() as opened:
        listening = opened.enter_context(socket.socket())
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for _ in range(8):
            filler = opened.enter_context(socket.socket())
            filler.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                filler.connect(listening.getsockname())
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@pytest.mark.parametrize("keep_alive", [True, False])
@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_connection_that_never_opens_is_timed_out(keep_alive: bool, loop: object) -> None:
    with never_accepts() as endpoint:
        played = run(play(endpoint, numbered(2), concurrency=2, timeout=0.2, keep_alive=keep_alive), loop=loop)
    for found in judged(played):
        assert (found.verdict, found.reply) == (Verdict.TIMED_OUT, None)
        assert "0.2 s" in found.detail
        assert (found.exchange.sent_ns, found.exchange.connect_ns) == (None, None)
    assert {one.kind for one in played.troubles} == {"timed-out"}


@pytest.mark.parametrize("keep_alive", [True, False])
def test_a_connection_that_never_opens_is_told_by_name_and_keeps_no_round_waiting(
    keep_alive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its request's own time is a minute: who waits for that to begin, or to tell, is too late."""
    monkeypatch.setattr(closed_loop, "STALLED_SECONDS", 0.05)
    monkeypatch.setattr(closed_loop, "AHEAD_SECONDS", 0.05)
    monkeypatch.setattr(closed_loop, "_BEAT_SECONDS", 0.01)

    async def main(endpoint: str) -> Played:
        stop = asyncio.Event()

        def told(*_: object) -> None:
            stop.set()

        sending = play(endpoint, numbered(1), timeout=60 * PATIENCE, stop=stop, keep_alive=keep_alive, trouble=told)
        return await asyncio.wait_for(sending, PATIENCE)

    with never_accepts() as endpoint:
        played = run(main(endpoint))
    assert [(one.kind, one.detail) for one in played.troubles] == [("stalled", "no connection for 0.05 s")]
    assert verdicts(played) == [Verdict.INTERRUPTED]


def test_stop_gives_up_a_connection_that_is_being_opened() -> None:
    """`run` sees that nothing is left of it."""

    async def main(endpoint: str) -> Played:
        stop = asyncio.Event()

        async def opened(_: object) -> None:
            asyncio.get_running_loop().call_later(0.05, stop.set)

        return await play(endpoint, numbered(4), concurrency=2, timeout=60, stop=stop, keep_alive=False, opened=opened)

    with never_accepts() as endpoint:
        assert verdicts(run(main(endpoint))) == [Verdict.INTERRUPTED] * 2


# What this machine does not have is no word of the server ------------------------------------------------


def test_a_process_opens_more_than_a_shells_limit(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few, slots = 96, 120

    async def main() -> list[Verdict]:
        async with Server(OK) as server, LoadGenerator() as generator:
            resource.setrlimit(resource.RLIMIT_NOFILE, (few, hard))
            try:
                await generator.start(1)  # it inherits the limit
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            load = Load(server.endpoint, [b"{}"], 2 * slots, slots, 60.0, tmp_path / "round.capture")
            captures = await generator.send(load, clock=RunClock(), stop=asyncio.Event())
            assert server.connections == slots
            return [one.verdict for one in read_captures(captures, model=MODEL, stream=False).judged]

    assert run(main()) == [Verdict.OK] * 2 * slots


def test_a_machine_without_more_sockets_ends_the_round_and_the_server_refused_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened = 0

    async def scarce(*words: Any) -> Any:
        nonlocal opened
        opened += 1
        if opened > 2:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return await dial(*words)

    monkeypatch.setattr(closed_loop, "dial", scarce)

    async def main() -> int:
        async with Server(OK) as server:
            with pytest.raises(OSError, match="Too many open files"):
                await play(server, numbered(50), concurrency=4)
            return len(server.bodies)

    assert run(main()) <= 4
