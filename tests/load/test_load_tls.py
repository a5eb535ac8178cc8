"""Over TLS, with a certificate of our own: the same answers, and the kernel's stamps of the records."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import uvloop
from authority import AUTHORITY, SIGNED, signed
from load_bytes import END, MODEL, TEXT, WORDS, chunked_head, completion, delta, events, head, piece, plain, role, sse
from load_tls import PEM, believing, serving
from load_wire import Played, Server, Wire, numbered, play, run, says
from loopback import LoopbackServer

from runner.engine.verdict import Verdict
from runner.load.reading import Judged, judge_exchange
from runner.record.clock import RunClock
from runner.spec.authorities import read_authorities
from runner.tls import trusted


def judged(played: Played, *, stream: bool = False) -> list[Judged]:
    return [judge_exchange(one, model=MODEL, stream=stream) for one in played.exchanges]


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("keep_alive", [True, False])
def test_a_stream_over_tls_is_the_same_stream(version: ssl.TLSVersion, keep_alive: bool, loop: object) -> None:
    async def main() -> tuple[Server, Played]:
        async with Server(says(sse(events())), tls=serving(version)) as server:
            endpoint = f"https://localhost:{server.port}"
            played = await play(
                endpoint, numbered(6), concurrency=2, keep_alive=keep_alive, trusted=believing(), clock=server.clock
            )
            return server, played

    server, played = run(main(), loop=loop)
    for one in judged(played, stream=True):
        assert (one.verdict, one.detail) == (Verdict.OK, "")
        assert one.reply is not None
        assert one.reply.text == TEXT
        assert one.exchange.clock == "kernel"
        assert (one.exchange.connect_ns is None) == keep_alive
    assert sorted(server.bodies) == numbered(6)
    assert server.connections == (2 if keep_alive else 6)


def test_stamps_over_tls_are_the_kernels_and_lie_between_the_servers_sends() -> None:
    """The server waits after each record until the client has opened it."""
    pieces = [chunked_head(), *map(piece, events()), END]

    async def answer(wire: Wire, _: bytes) -> None:
        for data in pieces:
            await wire.send(data)
            await wire.taken()
        wire.sends.append(wire.clock.now())

    async def main() -> tuple[Server, Played]:
        async with Server(answer, tls=serving()) as server:
            return server, await play(server, [b"{}"], trusted=believing())

    server, played = run(main())
    [one] = judged(played, stream=True)
    assert one.exchange.clock == "kernel"
    assert one.reply is not None
    assert one.reply.event_bounds == ()
    sends = server.wires[0].sends
    stamps = [stamp for stamp, _ in one.exchange.chunks]
    assert len(stamps) == len(pieces)
    for sent, stamp, following in zip(sends[:-1], stamps, sends[1:], strict=True):
        assert sent <= stamp <= following
    [captured] = played.captured
    assert all(at is not None and at <= seen for at, seen, _ in captured.reads)


def test_a_large_request_goes_out_whole() -> None:
    body = bytes(range(256)) * 20_000

    async def main() -> tuple[Server, Played]:
        async with Server(says(plain(completion())), tls=serving()) as server:
            return server, await play(server, [body], count=2, trusted=believing(), timeout=60)

    server, played = run(main())
    assert server.bodies == [body, body]
    assert [one.verdict for one in judged(played)] == [Verdict.OK] * 2


# Whom to believe --------------------------------------------------------------------------------------


async def _refused(server: LoopbackServer, context: ssl.SSLContext, name: str = "127.0.0.1") -> Judged:
    addresses = [(2, ("127.0.0.1", server.port))]
    played = await play(f"https://{name}:{server.port}", [b"{}"], trusted=context, addresses=addresses)
    [one] = judged(played)
    assert (one.verdict, one.reply) == (Verdict.REFUSED, None)
    assert [seen.kind for seen in played.troubles] == ["refused"]
    return one


def test_a_certificate_that_nobody_vouches_for_is_refused_with_its_words() -> None:
    async def main() -> None:
        async with Server(says(b""), tls=serving()) as server:
            assert "self-signed certificate" in (await _refused(server, trusted(""))).detail.replace("self s", "self-s")
            assert server.bodies == []

    run(main())


def test_a_certificate_that_an_authority_of_the_site_file_signed_is_believed(tmp_path: Path) -> None:
    """Of the authority, or the server's own; and nobody else is disbelieved for it."""
    own = tmp_path / "own.pem"
    own.write_text(SIGNED.read_text() + PEM.read_text())

    async def main() -> list[tuple[Verdict, str]]:
        async with Server(says(plain(completion())), tls=signed()) as server:
            found = []
            for path in (AUTHORITY, own):
                context = trusted(read_authorities(path))
                assert context.verify_mode is ssl.CERT_REQUIRED and context.check_hostname
                assert len(context.get_ca_certs()) > len(trusted("").get_ca_certs()) > 100
                found += judged(await play(f"https://localhost:{server.port}", [b"{}"], trusted=context))
            return [(one.verdict, one.detail) for one in found]

    assert run(main()) == [(Verdict.OK, "")] * 2


def test_a_certificate_of_another_name_is_refused_with_its_words() -> None:
    async def main() -> None:
        async with Server(says(b""), tls=serving()) as server:
            assert "engine.test" in (await _refused(server, believing(), "engine.test")).detail
            assert (await _refused(server, believing(), "engine..test")).detail  # a name that TLS cannot ask for
            assert server.bodies == []

    run(main())


def test_a_server_that_speaks_no_tls_is_refused_with_its_words() -> None:
    class Talks(LoopbackServer):
        async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            writer.write(said)
            writer.close()

    async def main() -> None:
        nonlocal said
        async with Talks() as server:
            assert "wrong version" in (await _refused(server, believing())).detail.lower().replace("_", " ")
            said = b""
            assert "handshake" in (await _refused(server, believing())).detail

    said = b"HTTP/1.1 400 Bad Request\r\n\r\n"
    run(main())


def test_a_handshake_that_never_ends_is_timed_out() -> None:
    class Silent(LoopbackServer):
        async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while await reader.read(1 << 16):
                    pass
            finally:
                writer.close()

    async def main() -> Played:
        async with Silent() as server:
            endpoint = f"https://127.0.0.1:{server.port}"
            return await play(endpoint, [b"{}"], trusted=believing(), timeout=0.2, keep_alive=False)

    [one] = judged(run(main()))
    assert (one.verdict, one.exchange.sent_ns) == (Verdict.TIMED_OUT, None)


# Records, byte for byte -------------------------------------------------------------------------------


class Sealed:
    """The server's end of one TLS connection, whose bytes are sent as a test wants."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = serving()
        context.num_tickets = 0  # they would come after the handshake, at any time
        self._tls = context.wrap_bio(self._in, self._out, server_side=True)
        self.sent = self.before = 0

    async def _patiently(self, act: Callable[[], object]) -> object:
        while True:
            try:
                result = act()
            except ssl.SSLWantReadError:
                result = None
            if words := self._out.read():
                await self.raw(words)
            if result is not None:
                return result
            data = await self.wire.reader.read(1 << 16)
            if not data:
                raise ConnectionResetError
            self._in.write(data)

    async def shake_hands(self) -> None:
        await self._patiently(lambda: self._tls.do_handshake() or True)
        self.before = self.sent

    async def request(self) -> bytes:
        got = b""
        while b"\r\n\r\n" not in got:
            more = await self._patiently(lambda: self._tls.read(1 << 16))
            assert isinstance(more, bytes)
            got += more
        return got.partition(b"\r\n\r\n")[2]

    def seal(self, data: bytes) -> bytes:
        self._tls.write(data)
        return self._out.read()

    def farewell(self) -> bytes:
        with contextlib.suppress(ssl.SSLWantReadError):
            self._tls.unwrap()
        return self._out.read()

    async def raw(self, data: bytes) -> None:
        self.sent += len(data)
        self.wire.sends.append(self.wire.clock.now())
        self.wire.writer.write(data)
        await self.wire.writer.drain()

    async def taken(self) -> None:
        """Of what came after the handshake: the client reads that one before it counts."""
        await self.wire.taken_raw(self.sent - self.before)


def spoken(
    serve: Callable[[Sealed], Awaitable[None]], count: int = 1, *, connections: int = 1
) -> tuple[list[Wire], Played]:
    class Bare(LoopbackServer):
        async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            wire = Wire(reader, writer, clock)
            wires.append(wire)
            sealed = Sealed(wire)
            try:
                await sealed.shake_hands()
                await serve(sealed)
                await wire.gone()
            except OSError:
                pass
            except Exception as error:
                self.faults.append(error)
            finally:
                await wire.close()

    async def main() -> Played:
        async with Bare() as server:
            endpoint = f"https://127.0.0.1:{server.port}"
            played = await play(endpoint, numbered(count), trusted=believing(), clock=clock)
            assert server.connections == connections
            return played

    clock = RunClock()
    wires: list[Wire] = []
    return wires, run(main())


@pytest.mark.parametrize("cut", [1, 4, 5, 6, 40, -1])
def test_a_record_cut_anywhere_has_the_stamp_of_its_last_byte(cut: int) -> None:
    """Nothing of it can be read before."""
    at: list[int] = []

    async def serve(sealed: Sealed) -> None:
        await sealed.request()
        await sealed.raw(sealed.seal(chunked_head() + piece(role())))
        record = sealed.seal(piece(delta(TEXT)))
        await sealed.raw(record[:cut])
        await sealed.taken()
        at.append(sealed.wire.clock.now())
        await sealed.raw(record[cut:])
        await sealed.taken()
        at.append(sealed.wire.clock.now())
        await sealed.raw(sealed.seal(b"".join(map(piece, events()[len(WORDS) + 1 :])) + END))

    _, played = spoken(serve)
    [one] = judged(played, stream=True)
    assert (one.verdict, one.detail) == (Verdict.OK, "")
    assert one.reply is not None
    assert one.reply.text == TEXT
    assert one.reply.first_token_ns is not None
    assert at[0] <= one.reply.first_token_ns <= at[1]
    assert one.exchange.clock == "kernel"


def test_an_answer_behind_which_tls_ends_is_followed_by_a_new_connection() -> None:
    """The farewell comes with the answer, in one read, and HTTP said nothing of it."""

    async def serve(sealed: Sealed) -> None:
        body = await sealed.request()
        await sealed.raw(sealed.seal(plain(completion(body.decode()))) + sealed.farewell())

    wires, played = spoken(serve, 3, connections=3)
    for number, one in enumerate(judged(played)):
        assert (one.verdict, one.detail) == (Verdict.OK, "")
        assert one.reply is not None
        assert one.reply.text == numbered(3)[number].decode()
    assert len(wires) == 3


def test_an_answer_without_a_length_ends_with_tls() -> None:
    async def serve(sealed: Sealed) -> None:
        await sealed.request()
        await sealed.raw(sealed.seal(head(connection="close") + completion()) + sealed.farewell())

    _, played = spoken(serve, 2, connections=2)
    assert [one.verdict for one in judged(played)] == [Verdict.OK] * 2


def test_what_is_no_record_resets_the_answer_and_what_came_before_is_kept() -> None:
    async def serve(sealed: Sealed) -> None:
        await sealed.request()
        await sealed.raw(sealed.seal(chunked_head() + piece(role()) + piece(delta(TEXT))) + b"\x00" * 50)

    _, played = spoken(serve)
    [one] = judged(played, stream=True)
    assert one.verdict is Verdict.RESET
    assert one.detail
    assert one.reply is not None
    assert one.reply.text == TEXT


@pytest.mark.parametrize("farewell", [False, True])
def test_a_stream_cut_by_the_end_of_tls_is_truncated(farewell: bool) -> None:
    async def serve(sealed: Sealed) -> None:
        await sealed.request()
        await sealed.raw(sealed.seal(chunked_head() + piece(role()) + piece(delta(TEXT))))
        if farewell:
            await sealed.raw(sealed.farewell())
        else:
            await sealed.wire.close()

    _, played = spoken(serve)
    [one] = judged(played, stream=True)
    assert one.verdict is Verdict.TRUNCATED
    assert one.reply is not None
    assert one.reply.text == TEXT
