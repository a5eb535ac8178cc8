"""What is read quickly is read as by the long way: events as nearly all are written, JSON, stamps of several reads."""

from __future__ import annotations

import json
from itertools import accumulate, pairwise

import pytest
from engine_recorded import chunk, sse, usage
from hypothesis import example, given
from hypothesis import strategies as st

from runner.engine.reply import load_json
from runner.engine.stream import events, events_by_line, read_stream
from runner.engine.verdict import Verdict

PIECES = [b"data: ", b"data:", b"data", b"event: x", b": ping", b"{}", b'{"a": 1}', b"[DONE]", b" ", b"\n", b"\n\n"]
PIECES += [b"data: {}\n\n", b"data: \n\n", b"\r", b"\r\n", b"\r\n\r\n", b"\xef\xbb\xbf", b"\x00", "\u2028\x85".encode()]
BOM = b"\xef\xbb\xbf"


@given(st.lists(st.sampled_from(PIECES)).map(b"".join))
@example(b"data: a\rb\n\n")
@example(b"data: a\n\n\ndata: b\n\ndata: c\ndata: d\n\ndata: e")
@example(BOM + b"data: a\n\n" + BOM + b"data: b\n\ndata: c\n\n")
def test_events_are_those_of_the_lines(stream: bytes) -> None:
    assert list(events(stream)) == list(events_by_line(stream, len(BOM) if stream.startswith(BOM) else 0))


BODIES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)
TEXTS = BODIES.map(json.dumps) | BODIES.map(lambda value: json.dumps(value, ensure_ascii=False))
ENDS = st.sampled_from(["", " ", "\n", "x", "}", "\x00"])
ENCODINGS = st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32-be"])


def either(text: bytes, *, quick: bool) -> str:
    try:
        return repr(load_json(text) if quick else json.loads(text))
    except ValueError as error:
        return str(error)


@given(TEXTS, ENDS, ENCODINGS, st.integers(0, 40))
@example('{"a": 1, "a": 2}', "", "utf-8", 40)
@example('{"a": NaN, "b": "\\ud800", "c": 123456789012345678901234567890}', "", "utf-8", 80)
@example('{"a"', "", "utf-8", 2)
def test_json_is_read_as_json_loads_reads_it(text: str, end: str, encoding: str, cut: int) -> None:
    whole = (text + end).encode(encoding, "surrogatepass")
    for data in (whole, whole[:cut], whole[cut:], whole[:cut] + b"\xff" + whole[cut:], b'{"' + whole):
        assert either(data, quick=True) == either(data, quick=False)


WORDS = [chunk("a", usage=usage(1)), chunk("b", usage=usage(2)), chunk("c", "stop", usage=usage(3))]


@given(
    st.lists(st.tuples(st.integers(0, len(WORDS)), st.integers(-3, 3) | st.integers(-200, 200)), max_size=8),
    st.sampled_from([b"\n", b"\r", b"\r\n"]),
    st.lists(st.integers(1, 3_000_000), min_size=9, max_size=9),
)
@example([(1, 0), (2, -1), (3, -2)], b"\r\n", [1] * 9)
@example([(1, 0), (1, 0), (2, 1), (3, 1)], b"\n", [2_000_000] * 9)
def test_stamps_are_those_of_the_reads_that_brought_the_last_byte(
    near: list[tuple[int, int]], newline: bytes, waits: list[int]
) -> None:
    """Cut anywhere, and often where one event ends and the next begins."""
    body = sse(*WORDS).replace(b"\n", newline)
    behinds = list(accumulate((len(sse(word, end=b"").replace(b"\n", newline)) for word in WORDS), initial=0))
    edges = [0, *sorted(min(max(behinds[word] + more, 0), len(body)) for word, more in near), len(body)]
    times = list(accumulate(waits))
    reads = [(at, body[start:end]) for at, (start, end) in zip(times, pairwise(edges), strict=False)]
    reply = read_stream(200, None, reads, ended=True, model="m")

    stamps, bounds = [], []
    for number, behind in enumerate(behinds[1:]):
        last = behind - len(newline)  # an empty line's first byte ends the event
        [read] = [place for place, (start, end) in enumerate(pairwise(edges)) if start <= last < end]
        stamps.append(reads[read][0])
        if edges[read + 1] > behind:
            before = reads[read - 1][0] if read else None
            if before is not None and number == len(WORDS) - 1:
                before = max(before, stamps[-1] - 1_000_000)
            bounds.append((number, before))
    assert (reply.event_ns, reply.event_bounds) == (tuple(stamps), tuple(bounds))
    assert reply.events_tokens == (1, 1, 1)


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("shape", [(b'{"error":', b'{"a":', b"1", b"}", b"}"), (b'{"x":', b"[", b"", b"]", b"}")])
def test_what_can_just_be_read_and_not_be_written_is_an_answer_all_the_same(
    status: int, shape: tuple[bytes, bytes, bytes, bytes, bytes]
) -> None:
    """How deep that is hangs on who calls: all depths about it."""
    begin, opened, middle, closed, end = shape
    for depth in range(850, 1010):
        body = begin + opened * depth + middle + closed * depth + end
        data = body if status != 200 else b"data: " + body + b"\n\n"
        reply = read_stream(status, "text/event-stream", [(1, data)], ended=True, model="m")
        assert reply.verdict is not Verdict.OK
