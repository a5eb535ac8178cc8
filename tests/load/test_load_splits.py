"""The bytes of a reply cut at every offset into two segments that really arrive apart."""

from __future__ import annotations

import pytest
from load_bytes import DONE, END, MODEL, chunked_head, completion, delta, event, piece, plain, role
from load_wire import Server, Wire, run, send

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
def test_two_segments_cut_anywhere_read_like_one(whole: bytes, stream: bool) -> None:
    """The server sends the rest of a reply only after the client has taken the first segment off its socket."""
    apart: set[int] = set()

    async def answer(wire: Wire, body: bytes) -> None:
        cut = int(body)
        await wire.send(whole[:cut])
        if cut:
            await wire.taken()
            apart.add(cut)
        await wire.send(whole[cut:])

    async def main() -> list[Exchange]:
        async with Server(answer) as server:
            cuts = [str(cut).encode() for cut in range(len(whole))]
            return await send(server, cuts, concurrency=4)

    found = run(main())
    assert len(found) == len(whole)
    assert apart == set(range(1, len(whole)))
    for done in found:
        one = judge_exchange(done, model=MODEL, stream=stream)
        assert one.reply is not None, (done.index, one)
        said = (one.verdict, one.reply.text, one.reply.usage, one.reply.finish_reason)
        assert said == (Verdict.OK, WORD, Usage(11, 3, None), "stop"), (done.index, one)
        assert len(done.chunks) == (2 if done.index else 1), "the segments did not arrive apart"
        assert len({stamp for stamp, _ in done.chunks}) == len(done.chunks)
