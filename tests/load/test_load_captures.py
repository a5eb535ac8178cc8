"""The capture: what was put in comes out, packed or not, and from a file that is cut or spoilt no more than is true."""

from __future__ import annotations

import random
import socket
import struct
from pathlib import Path

import pytest
from load_bytes import MODEL, TEXT, chunked_head, completion, delta, events, piece, plain, role
from load_wire import CLOSING

from runner.engine.verdict import Verdict
from runner.load.arrival import Arrival
from runner.load.capture import Captured, CaptureError, CaptureReader, CaptureWriter, Closing, compress
from runner.load.exchange import read_exchange
from runner.load.reading import SET_NS, Judged, judge_exchange, read_captures
from runner.load.stamps import Note, raw_stamps

ORIGIN, OFFSET = 5_000_000_000, 1_700_000_000_123_456_789
"""The run's start by the monotonic clock, and the wall clock minus it."""


def note(at: int) -> list[Note]:
    """The kernel's stamp of a read at this time of the run."""
    return [(socket.SOL_SOCKET, 35, struct.pack("@qq", *divmod(at + ORIGIN + OFFSET, 1_000_000_000)))]


def arrival(index: int, reads: list[tuple[int | None, int, bytes]], **over: object) -> Arrival:
    """Of a request that was sent at 1,000 of the run; the reads as `Captured` has them."""
    fields: dict[str, object] = {
        "planned_ns": ORIGIN + 900,
        "connect_ns": None,
        "sent_ns": ORIGIN + 1_000,
        "ended_ns": ORIGIN + 99_000,
        "outcome": "complete",
        "detail": "",
        **over,
    }
    return Arrival(
        index,
        **fields,
        data=[data for _, _, data in reads],
        notes=[[] if at is None else note(at) for at, _, _ in reads],
        seen=[ORIGIN + seen for _, seen, _ in reads],
    )


def written(path: Path, arrivals: list[Arrival], closing: Closing | None = CLOSING) -> Path:
    writer = CaptureWriter(path, ORIGIN, OFFSET)
    for one in arrivals:
        writer(one)
    writer.close(closing)
    return path


STREAM = [chunked_head(), *map(piece, events()), b"0\r\n\r\n"]
READS: list[tuple[int | None, int, bytes]] = [
    (2_000 + 100 * number, 2_050 + 100 * number, data) for number, data in enumerate(STREAM)
]
SEVERAL = [
    arrival(3, READS),
    arrival(1, [], sent_ns=None, outcome="refused", detail="no \n way ✓", connect_ns=None),
    arrival(2, [(None, 70, b"x" * 300)], connect_ns=(ORIGIN + 10, ORIGIN + 25), outcome="not-http", detail="n"),
    arrival(0, [(7_000, 7_001, plain(completion()))]),
]


def several(path: Path) -> Path:
    return written(path, SEVERAL)


# What goes in comes out -------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True])
def test_what_was_put_away_is_read_back(packed: bool, tmp_path: Path) -> None:
    path = several(tmp_path / "x.capture")
    if packed:
        plain_size = path.stat().st_size
        path = compress(path)
        assert path.name == "x.capture.gz"
        assert path.stat().st_size < plain_size
        assert not (tmp_path / "x.capture").exists()
    reader = CaptureReader(path)
    assert reader.closing is None
    assert list(reader) == [
        Captured(3, 900, None, 1_000, 99_000, "complete", "", READS),
        Captured(1, 900, None, None, 99_000, "refused", "no \n way ✓", []),
        Captured(2, 900, 15, 1_000, 99_000, "not-http", "n", [(None, 70, b"x" * 300)]),
        Captured(0, 900, None, 1_000, 99_000, "complete", "", [(7_000, 7_001, plain(completion()))]),
    ]
    assert reader.closing == CLOSING
    assert CaptureReader(path).read_closing() == CLOSING


def test_packing_the_same_capture_gives_the_same_bytes(tmp_path: Path) -> None:
    one = compress(several(tmp_path / "one.capture"))
    two = compress(several(tmp_path / "two.capture"))
    assert one.read_bytes()[10:].partition(b"\0")[2] == two.read_bytes()[10:].partition(b"\0")[2]


@pytest.mark.parametrize("closing", [CLOSING, None])
def test_a_round_without_requests_has_a_capture(closing: Closing | None, tmp_path: Path) -> None:
    reader = CaptureReader(written(tmp_path / "x.capture", [], closing))
    assert list(reader) == []
    assert reader.closing == closing


def test_bytes_that_look_like_the_captures_own_are_an_answers(tmp_path: Path) -> None:
    """A body may hold anything, whole lines of a capture included."""
    other = several(tmp_path / "other.capture").read_bytes()
    data = b"\n" + other + b'{"closing": {}}\n'
    path = written(tmp_path / "x.capture", [arrival(0, [(1, 2, data)]), arrival(1, [(3, 4, b"\n")])])
    assert [(one.index, one.reads) for one in CaptureReader(path)] == [(0, [(1, 2, data)]), (1, [(3, 4, b"\n")])]
    whole = CaptureReader(path)
    assert list(whole) and CaptureReader(path).read_closing() == whole.closing


STAMP = struct.pack("@qq", 5, 6)


@pytest.mark.parametrize(
    ("notes", "stamps"),
    [
        ([], []),
        ([[(socket.SOL_SOCKET, 35, STAMP)]], [(5, 6)]),
        ([[]], [(-1, -1)]),
        ([[(socket.SOL_SOCKET, 35, STAMP)], []], [(5, 6), (-1, -1)]),
        ([[(socket.SOL_SOCKET, 35, b"short")]], [(-1, -1)]),
        ([[(41, 50, b"1234"), (socket.SOL_SOCKET, 35, STAMP)]], [(5, 6)]),
        ([[(41, 50, b"1234")], [(socket.SOL_SOCKET, 35, STAMP)]], [(-1, -1), (5, 6)]),
    ],
)
def test_a_read_has_the_kernels_stamp_or_none(notes: list[list[Note]], stamps: list[tuple[int, int]]) -> None:
    assert list(struct.iter_unpack("<qq", raw_stamps(notes))) == stamps


# Cut and spoilt ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True])
def test_a_capture_cut_at_any_byte_is_readable_up_to_there(packed: bool, tmp_path: Path) -> None:
    """The process ended, or the disk was full: what was written whole stays, and nothing is made up."""
    path = several(tmp_path / "x.capture")
    whole = list(CaptureReader(path))
    data = (compress(path) if packed else path).read_bytes()
    cut = tmp_path / "cut.capture"
    most = 0
    for size in range(len(data)):
        cut.write_bytes(data[:size])
        reader = CaptureReader(cut)
        found: list[Captured] = []
        try:
            for one in reader:
                found.append(one)
        except CaptureError as error:
            assert str(cut) in str(error)
        else:
            assert size
            assert CaptureReader(cut).read_closing() == reader.closing
        assert found == whole[: len(found)]
        assert len(found) >= most  # with more bytes never less
        most = len(found)
        assert reader.closing in (None, CLOSING)
    assert most == len(whole)


def test_a_spoilt_capture_names_itself_or_reads_otherwise(tmp_path: Path) -> None:
    """Any byte may have any value: no other error comes out."""
    data = bytearray(several(tmp_path / "x.capture").read_bytes())
    packed = bytearray(compress(several(tmp_path / "y.capture")).read_bytes())
    spoilt = tmp_path / "spoilt.capture"
    dice = random.Random(4)
    errors = 0
    for source in (data, packed):
        for at in range(0, len(source), 1 + len(source) // 150):
            was = source[at]
            for value in {0, 0x7F, 0xFF, was ^ 1, dice.randrange(256)} - {was}:
                source[at] = value
                spoilt.write_bytes(source)
                try:
                    judged = [
                        judge_exchange(read_exchange(one, kernel=True), model=MODEL, stream=True)
                        for one in CaptureReader(spoilt)
                    ]
                    assert len(judged) <= 4
                except CaptureError as error:
                    errors += 1
                    assert str(spoilt) in str(error)
            source[at] = was
    assert errors > 50


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"5\n",
        b"[]\n",
        b"{}\n",
        b"\x00" * 100,
        b"\x1f\x8b",
        b'{"capture": 2, "origin_ns": 0, "offset_ns": 0}\n',
        b'{"capture": 1}\n',
        b'{"capture": 1, "origin_ns": 0, "offset_ns": 0}\n5\n',
        b'{"capture": 1, "origin_ns": 0, "offset_ns": 0}\n{"index": 0}\n',
        b'{"capture": 1, "origin_ns": 0, "offset_ns": 0}\n{"reads": -1, "size": 0, "index": 0, "outcome": "reset"}\n',
        b'{"capture": 1, "origin_ns": 0, "offset_ns": 0}\n{"reads": 0, "size": -9, "index": 0, "outcome": "reset"}\n\n',
        b'{"capture": 1, "origin_ns": 0, "offset_ns": 0}\n{"reads": 1%b, "size": 0, "index": 0, "outcome": "reset"}\n'
        % (b"0" * 30),
        b'{"capture": 1, "origin_ns": 0, "offset_ns": 0}\n{"closing": {"slots": 1}}\n',
        b'{"capture": 1, "origin_ns": 0, "offset_ns": 0}\n{"reads": 0, "size": 0, "index": 0, "outcome": "fine"}\n\n',
        b'{"capture": 1, "origin_ns": 0, "offset_ns": 0}\n' + b"[" * 100_000 + b"\n",
    ],
    ids=range(17),
)
def test_what_is_no_capture_says_so(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.capture"
    path.write_bytes(data)
    with pytest.raises(CaptureError, match=r"x\.capture"):
        list(CaptureReader(path))
    with pytest.raises(CaptureError, match=r"x\.capture"):
        CaptureReader(path).read_closing()


@pytest.mark.parametrize("length", [0, 8, 9, -1, 1 << 60])
def test_reads_that_do_not_add_up_to_what_came_say_so(length: int, tmp_path: Path) -> None:
    """Bytes would go to another read's stamp."""
    path = written(tmp_path / "x.capture", [arrival(0, [(1, 2, b"seven.."), (3, 4, b"eleven.....")])])
    lengths = struct.pack("<qq", 7, 11)
    data = path.read_bytes()
    assert data.count(lengths) == 1
    path.write_bytes(data.replace(lengths, struct.pack("<qq", length, 11)))
    with pytest.raises(CaptureError, match=r"x\.capture cannot be read: request 0"):
        list(CaptureReader(path))


def test_a_capture_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"gone\.capture"):
        read_captures([tmp_path / "gone.capture"], model=MODEL, stream=False)


# Which clock ------------------------------------------------------------------------------------------


def closing(**over: object) -> Closing:
    return Closing(**{**{name: getattr(CLOSING, name) for name in Closing.__slots__}, **over})


def read(path: Path) -> tuple[list[Judged], object]:
    heard = read_captures([path], model=MODEL, stream=True)
    return heard.judged, heard.processes[0] if heard.processes else None


def stamps(one: Judged) -> tuple[int | None, ...]:
    assert one.reply is not None
    return (one.exchange.first_byte_ns, *one.reply.event_ns, one.exchange.last_byte_ns)


KERNELS = tuple(READS[number][0] for number in (0, 2, 3, 4, -1))
USERS = tuple(READS[number][1] for number in (0, 2, 3, 4, -1))
"""By either clock: the first byte, the three words and the last byte."""


def test_every_stamp_of_what_came_is_the_kernels(tmp_path: Path) -> None:
    [one], process = read(written(tmp_path / "x.capture", [arrival(0, READS)]))
    assert one.verdict is Verdict.OK
    assert one.exchange.clock == "kernel"
    assert stamps(one) == KERNELS
    assert one.exchange.sent_ns == 1_000
    assert (process.clock, process.why_user) == ("kernel", None)
    assert (process.reads, process.read_lag_p50_ns, process.read_lag_max_ns) == (9, 50, 50)


WHY = {
    "set": (closing(drift_ns=SET_NS + 1), "the wall clock, by which the kernel stamps, was set by +0.000100 s"),
    "set-back": (closing(drift_ns=-3_600_000_000_000), "was set by -3600.000000 s"),
    "not-stamped": (closing(why_user="darwin has no kernel stamps for TCP"), "darwin has no kernel stamps for TCP"),
}


@pytest.mark.parametrize("why", WHY)
def test_a_kernels_clock_that_says_nothing_is_not_believed(why: str, tmp_path: Path) -> None:
    closed, words = WHY[why]
    [one], process = read(written(tmp_path / "x.capture", [arrival(0, READS)], closed))
    assert one.exchange.clock == "user"
    assert stamps(one) == USERS
    assert process.clock == "user"
    assert words in process.why_user
    assert process.read_lag_p50_ns is None


@pytest.mark.parametrize("drift", [0, SET_NS, -SET_NS])
def test_a_clock_that_drifts_is_believed(drift: int, tmp_path: Path) -> None:
    [one], process = read(written(tmp_path / "x.capture", [arrival(0, READS)], closing(drift_ns=drift)))
    assert one.exchange.clock == "kernel"
    assert process.drift_ns == drift


def test_a_capture_without_its_end_has_the_users_clock(tmp_path: Path) -> None:
    """Whether the wall clock was set nobody knows."""
    [one], process = read(written(tmp_path / "x.capture", [arrival(0, READS)], None))
    assert one.verdict is Verdict.OK
    assert one.exchange.clock == "user"
    assert process is None


@pytest.mark.parametrize("bare", range(len(READS)))
def test_one_read_without_a_stamp_makes_its_request_the_users_throughout(bare: int, tmp_path: Path) -> None:
    """Times of two clocks in one request would be a difference that nobody took; the others keep theirs."""
    reads = [(None if number == bare else at, seen, data) for number, (at, seen, data) in enumerate(READS)]
    judged, process = read(written(tmp_path / "x.capture", [arrival(0, reads), arrival(1, READS)]))
    assert [one.exchange.clock for one in judged] == ["user", "kernel"]
    assert [stamps(one) for one in judged] == [USERS, KERNELS]
    assert process.clock == "user"
    assert process.why_user


def test_captures_of_several_processes_merge_by_number(tmp_path: Path) -> None:
    one = written(tmp_path / "x.capture", [arrival(2, READS), arrival(0, READS)], closing(requests=2))
    two = compress(written(tmp_path / "x-2.capture", [arrival(1, READS)], closing(requests=1, drift_ns=SET_NS * 2)))
    heard = read_captures([one, two], model=MODEL, stream=True, artifact=lambda path: f"a/{path.name}")
    assert [each.exchange.index for each in heard.judged] == [0, 1, 2]
    assert [each.exchange.clock for each in heard.judged] == ["kernel", "user", "kernel"]
    assert [(each.requests, each.clock, each.capture) for each in heard.processes] == [
        (2, "kernel", "a/x.capture"),
        (1, "user", "a/x-2.capture.gz"),
    ]


# Events in reads --------------------------------------------------------------------------------------


def bounds(
    reads: list[tuple[int, bytes]], tmp_path: Path
) -> tuple[tuple[int, ...], tuple[tuple[int, int | None], ...]]:
    path = written(tmp_path / "x.capture", [arrival(0, [(at, at + 1, data) for at, data in reads])])
    [one], _ = read(path)
    assert (one.verdict, one.detail) == (Verdict.OK, "")
    assert one.reply is not None
    assert one.reply.text == TEXT
    return one.reply.event_ns, one.reply.event_bounds


HEAD, ROLE, (FIRST, SECOND, THIRD), REST = STREAM[0], STREAM[1], STREAM[2:5], b"".join(STREAM[5:])


def test_an_event_that_ends_its_read_has_no_bound(tmp_path: Path) -> None:
    reads = [(1_100, HEAD), (1_200, ROLE), (1_300, FIRST), (1_400, SECOND), (1_500, THIRD), (1_600, REST)]
    assert bounds(reads, tmp_path) == ((1_300, 1_400, 1_500), ())


def test_an_event_behind_which_its_read_holds_another_came_after_the_read_before(tmp_path: Path) -> None:
    reads = [(1_100, HEAD), (1_200, ROLE), (1_300, FIRST + SECOND), (1_500, THIRD), (1_600, REST)]
    assert bounds(reads, tmp_path) == ((1_300, 1_300, 1_500), ((0, 1_200),))
    reads = [(1_100, HEAD), (1_200, ROLE + FIRST + SECOND + THIRD + REST)]
    assert bounds(reads, tmp_path) == ((1_200,) * 3, ((0, 1_100), (1, 1_100), (2, 1_100)))


def test_an_event_in_the_first_read_of_all_has_no_earliest(tmp_path: Path) -> None:
    assert bounds([(1_100, b"".join(STREAM))], tmp_path) == ((1_100,) * 3, ((0, None), (1, None), (2, None)))


def test_half_an_event_behind_another_bounds_the_one_before_and_has_its_own_stamp(tmp_path: Path) -> None:
    half = len(SECOND) // 2
    reads = [(1_100, HEAD), (1_200, ROLE), (1_300, FIRST + SECOND[:half]), (1_400, SECOND[half:])]
    found = bounds([*reads, (1_500, THIRD), (1_600, REST)], tmp_path)
    assert found == ((1_300, 1_400, 1_500), ((0, 1_200),))


def test_two_events_in_one_chunk_and_an_event_in_two(tmp_path: Path) -> None:
    """Chunks of HTTP say nothing about events."""
    words = [role(), *(delta(word) for word in (TEXT[:3], TEXT[3:])), *events()[4:]]
    joined = piece(words[1] + words[2])
    reads = [
        (1_100, HEAD),
        (1_200, piece(words[0])),
        (1_300, joined),
        (1_400, b"".join(map(piece, words[3:])) + b"0\r\n\r\n"),
    ]
    assert bounds(reads, tmp_path) == ((1_300, 1_300), ((0, 1_200),))
    cut = len(words[1]) - 7
    halves = [(1_300, piece(words[1][:cut])), (1_350, piece(words[1][cut:])), (1_400, piece(words[2]))]
    reads = [*reads[:2], *halves, (1_500, reads[3][1])]
    assert bounds(reads, tmp_path) == ((1_350, 1_400), ())
