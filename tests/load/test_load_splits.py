"""The bytes of a reply cut at every offset into two segments that really arrive apart."""

from __future__ import annotations

import asyncio

import pytest
from anyio._backends._asyncio import StreamProtocol  # what the client's bytes are handed to
from load_wire import (
    DONE,
    END,
    MODEL,
    Server,
    Wire,
    chunked_head,
    completion,
    delta,
    event,
    piece,
    plain,
    role,
    run,
    send,
)

from runner.engine.reply import Usage
from runner.engine.verdict import Verdict
from runner.load.exchange import Exchange
from runner.load.reading import judge_exchange

WORD = "가🙂é"
COUNTS = {"prompt_tokens": 11, "completion_tokens": 3}
PLAIN = plain(completion(WORD, usage=COUNTS))
LAST = event({"model": MODEL, "choices": [], "usage": COUNTS})
STREAM = chunked_head() + b"".join(piece(part) for part in [role(), delta(WORD), delta("", "stop"), LAST, DONE]) + END


@pytest.mark.parametrize(("whole", "stream"), [(PLAIN, False), (STREAM, True)], ids=["plain", "stream"])
def test_two_segments_cut_anywhere_read_like_one(whole: bytes, stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server sends the rest of a reply only after the client has taken the first segment off its socket."""
    taken: dict[tuple[str, int], asyncio.Event] = {}
    apart: set[int] = set()
    _watch_reads(monkeypatch, taken)

    async def answer(wire: Wire, body: bytes) -> None:
        cut = int(body)
        seen = taken[wire.writer.get_extra_info("peername")] = asyncio.Event()
        await wire.send(whole[:cut])
        if cut:
            await asyncio.wait_for(seen.wait(), 10)
            apart.add(cut)
        await wire.send(whole[cut:])

    async def main() -> list[Exchange]:
        async with Server(answer) as server:
            cuts = [str(cut).encode() for cut in range(len(whole))]
            return await send(server, cuts, concurrency=4)

    found = run(main())
    assert len(found) == len(whole)
    assert apart == set(range(1, len(whole)))
    seen_apart = 0
    for done in found:
        one = judge_exchange(done, model=MODEL, stream=stream)
        assert one.reply is not None, (done.index, one)
        said = (one.verdict, one.reply.text, one.reply.usage, one.reply.finish_reason)
        assert said == (Verdict.OK, WORD, Usage(11, 3, None), "stop"), (done.index, one)
        seen_apart += len({stamp for stamp, _ in done.chunks}) > 1
    assert seen_apart >= len(whole) // 2, "the segments did not arrive apart"


def _watch_reads(monkeypatch: pytest.MonkeyPatch, taken: dict[tuple[str, int], asyncio.Event]) -> None:
    """Tell the server, by the client's address, whenever the client has read from its socket."""
    made, received = StreamProtocol.connection_made, StreamProtocol.data_received
    names: dict[int, tuple[str, int]] = {}

    def connection_made(self: StreamProtocol, transport: asyncio.BaseTransport) -> None:
        names[id(self)] = transport.get_extra_info("sockname")
        made(self, transport)

    def data_received(self: StreamProtocol, data: bytes) -> None:
        received(self, data)
        if (waiting := taken.get(names[id(self)])) is not None:
            waiting.set()

    monkeypatch.setattr(StreamProtocol, "connection_made", connection_made)
    monkeypatch.setattr(StreamProtocol, "data_received", data_received)
