"""The oracle tells the truth: what it says it sent, and when, against a plain blocking socket."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from time import monotonic_ns
from typing import Any

import pytest
from oracle_process import SERVER, Serving, oracle
from oracle_script import Script, ScriptError, event_bytes, read_script

from runner.engine.exposition import parse
from runner.engine.stream import read_stream
from runner.engine.verdict import Verdict

BASE = {"events": 6, "first_after_s": 0.03, "gap_s": 0.02}


@pytest.fixture(scope="module")
def serving() -> Iterator[Serving]:
    with oracle(BASE) as found:
        yield found


class Reader:
    """A connection, read as it comes: (stamp, bytes)."""

    def __init__(self, serving: Serving) -> None:
        self.sock = socket.create_connection(("127.0.0.1", serving.port), timeout=10)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sent_ns = 0

    def ask(self, body: dict[str, Any], *fields: str) -> None:
        data = json.dumps(body).encode()
        head = ["POST /v1/chat/completions HTTP/1.1", "host: oracle", f"content-length: {len(data)}", *fields]
        self.sent_ns = monotonic_ns()
        self.sock.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + data)

    def reads(self, end: bytes = b"\r\n0\r\n\r\n") -> list[tuple[int, bytes]]:
        """What comes, up to the end, the other side's FIN (an empty read) or its RST (None)."""
        got: list[tuple[int, bytes]] = []
        whole = b""
        while not whole.endswith(end):
            data = self.sock.recv(65536)
            got.append((monotonic_ns(), data))
            whole += data
            if not data:
                break
        return got


def parts(raw: bytes) -> tuple[bytes, list[bytes], bool]:
    """Head, HTTP chunks, and whether the last chunk came."""
    head, _, rest = raw.partition(b"\r\n\r\n")
    chunks = []
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        if length == 0:
            return head, chunks, True
        chunks.append(rest[:length])
        rest = rest[length + 2 :]
    return head, chunks, False


def asked(serving: Serving, **over: Any) -> tuple[bytes, list[tuple[int, bytes]], Any]:
    """One streamed request with overrides: all bytes, the reads, and the truth."""
    serving.truth(reset=True)
    reader = Reader(serving)
    with reader.sock:
        reader.ask({"stream": True, "oracle": over, "oracle_index": 7}, "x-request-index: 12")
        reads = reader.reads()
    [truth] = serving.truth()
    assert (truth.id, truth.body_index) == ("12", 7)
    assert reader.sent_ns <= truth.received_ns
    return b"".join(data for _, data in reads), reads, truth


def test_each_event_was_sent_when_the_oracle_says(serving: Serving) -> None:
    script = read_script({**BASE, "tail_after_s": 0.02})
    raw, reads, truth = asked(serving, tail_after_s=0.02)
    _, chunks, ended = parts(raw)
    events = [event_bytes(script, number) for number in range(6)]
    assert ended and chunks[1:7] == events and b'"role":"assistant"' in chunks[0]
    assert chunks[8] == b"data: [DONE]\n\n" and len(chunks) == 9
    assert len(truth.sent_before_ns) == len(truth.sent_after_ns) == 6
    # the stamp before a send, then the client has it; and the oracle never sends early
    for number, (before, after, event) in enumerate(
        zip(truth.sent_before_ns, truth.sent_after_ns, events, strict=True)
    ):
        seen = next(stamp for stamp, data in reads if event in data)
        assert before < seen and before < after
        assert before - truth.received_ns >= 30_000_000 + number * 20_000_000
    assert truth.last_before_ns > truth.sent_before_ns[-1]
    assert truth.last_before_ns < reads[-1][0]
    assert truth.arrived_ns is None or truth.arrived_ns <= truth.received_ns
    assert truth.tokens == [1] * 6 and truth.generated == 6 and truth.fault is None


def test_the_runners_own_reader_finds_the_words_and_the_tokens(serving: Serving) -> None:
    raw, _, truth = asked(serving, tokens=[1, 4, 3, 4, 1, 1], text=["é", "🙂"], eol="\r")
    _, chunks, _ = parts(raw)
    reply = read_stream(200, "text/event-stream", [(0, b"".join(chunks))], ended=True, model="oracle")
    assert reply.verdict is Verdict.OK
    assert reply.text == "é🙂" * 7
    assert reply.usage is not None and reply.usage.completion == 14 == sum(truth.tokens)


@pytest.mark.parametrize("usage", ["continuous", "final", "none"])
def test_usage_is_said_as_asked(serving: Serving, usage: str) -> None:
    _, chunks, _ = parts(asked(serving, usage=usage, tokens=2)[0])
    said = [json.loads(chunk[6:])["usage"]["completion_tokens"] for chunk in chunks if b'"usage"' in chunk]
    assert said == {"continuous": [0, 2, 4, 6, 8, 10, 12, 12], "final": [12], "none": []}[usage]


def test_an_event_in_two_sends_is_stamped_by_the_second(serving: Serving) -> None:
    script = read_script({**BASE, "text": ["🙂"]})
    event = event_bytes(script, 2)
    inside = event.index("🙂".encode()) + 2
    raw, reads, truth = asked(serving, text=["🙂"], splits=[[2, inside, 0.3]])
    assert event in raw
    first = next(stamp for stamp, data in reads if data.endswith(event[:inside]))
    second = next(stamp for stamp, data in reads if data.startswith(event[inside:]))
    assert first < truth.sent_before_ns[2] < second
    assert truth.sent_before_ns[2] - truth.received_ns >= 370_000_000


def test_events_of_one_send_have_one_stamp(serving: Serving) -> None:
    raw, reads, truth = asked(serving, coalesce=4)
    assert len(parts(raw)[1]) == 9
    assert len(set(truth.sent_before_ns[:4])) == 1 and len(set(truth.sent_before_ns[4:])) == 1
    script = read_script(BASE)
    assert any(event_bytes(script, 0) in data and event_bytes(script, 3) in data for _, data in reads)


def test_a_plain_reply_comes_when_its_last_event_would_have(serving: Serving) -> None:
    serving.truth(reset=True)
    reader = Reader(serving)
    with reader.sock:
        for limit, words in ((None, " one two three four five six"), (2, " one two")):
            reader.ask({"max_tokens": limit} if limit else {})
            [(_, data)] = reader.reads(end=b"}}")
            assert json.loads(data.partition(b"\r\n\r\n")[2])["choices"][0]["message"]["content"] == words
    whole, cut = serving.truth()
    assert whole.last_before_ns - whole.received_ns >= 130_000_000
    assert cut.last_before_ns - cut.received_ns >= 50_000_000
    assert (whole.sent_before_ns.tolist(), cut.generated) == ([], 2)


def test_a_connection_is_kept_or_closed_as_asked(serving: Serving) -> None:
    reader = Reader(serving)
    with reader.sock:
        for _ in range(2):
            reader.ask({"stream": True})
            reader.reads()
        reader.ask({"stream": True}, "Connection: close")
        raw = b"".join(data for _, data in reader.reads())
        assert b"connection: close" in raw.partition(b"\r\n\r\n")[0]
        assert reader.sock.recv(1) == b""


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [
        ("http", Verdict.HTTP_ERROR), ("html", Verdict.MALFORMED), ("empty", Verdict.TRUNCATED),
        ("in-band-error", Verdict.IN_BAND_ERROR), ("wrong-model", Verdict.WRONG_MODEL),
        ("malformed", Verdict.MALFORMED), ("no-done", Verdict.TRUNCATED),
        ("close-without-finish", Verdict.TRUNCATED), ("truncate", Verdict.TRUNCATED), ("reset", None),
    ],
)  # fmt: skip
def test_every_second_request_has_the_fault(serving: Serving, kind: str, verdict: Verdict | None) -> None:
    serving.truth(reset=True)
    found: list[Verdict | None] = []
    for _ in range(4):
        reader = Reader(serving)
        with reader.sock:
            reader.ask(
                {"stream": True, "oracle": {"gap_s": 0, "fault": {"kind": kind, "at_event": 2, "every": 2}}},
                "Connection: close",
            )
            try:
                raw = b"".join(data for _, data in reader.reads(end=b"never"))
            except ConnectionResetError:
                found.append(None)
                continue
        head, chunks, ended = parts(raw) if b"chunked" in raw else (*raw.split(b"\r\n\r\n", 1), True)
        status, kind_of = int(head.split()[1]), head.partition(b"content-type: ")[2].partition(b"\r\n")[0].decode()
        body = chunks if isinstance(chunks, bytes) else b"".join(chunks)
        found.append(read_stream(status, kind_of, [(0, body)], ended=ended, model="oracle").verdict)
        if kind == "truncate":
            assert ended == (len(found) % 2 == 1)
    assert found == [Verdict.OK, verdict, Verdict.OK, verdict]
    assert [one.fault for one in serving.truth()] == [None, kind, None, kind]


def test_a_stall_lasts_until_the_client_leaves(serving: Serving) -> None:
    serving.truth(reset=True)
    reader = Reader(serving)
    with reader.sock:
        reader.ask({"stream": True, "oracle": {"fault": {"kind": "stall", "at_event": 1}}})
        reader.reads(end=b"\n\n\r\n")
        assert running(serving) == 1
        [truth] = serving.truth()
        assert len(truth.sent_before_ns) == 1 and truth.last_before_ns is None
    while running(serving):
        pass  # the connection's end is on its way


def running(serving: Serving) -> float | None:
    return parse(serving.page("/metrics").decode()).total("vllm:num_requests_running")


def test_the_metrics_count_what_was_answered(serving: Serving) -> None:
    before = parse(serving.page("/metrics").decode())
    _, _, truth = asked(serving, tokens=3)
    after = parse(serving.page("/metrics").decode())

    def moved(name: str) -> float:
        old, new = before.total(name), after.total(name)
        assert old is not None and new is not None
        return new - old

    assert moved("vllm:request_success_total") == moved("vllm:e2e_request_latency_seconds_count") == 1
    assert moved("vllm:generation_tokens_total") == 18
    e2e = (truth.last_before_ns - truth.received_ns) / 1e9
    assert moved("vllm:e2e_request_latency_seconds_sum") == pytest.approx(e2e)
    assert after.total("process_start_time_seconds") == before.total("process_start_time_seconds")


def test_the_two_forms_of_the_truth_are_one(serving: Serving) -> None:
    asked(serving)
    [line] = serving.page("/truth").splitlines()
    said = json.loads(line)
    [truth] = serving.truth()
    assert said["sent_before_ns"] == list(truth.sent_before_ns)
    assert said["sent_after_ns"] == list(truth.sent_after_ns)
    assert said["received_ns"] == truth.received_ns
    assert serving.truth(reset=True) and serving.truth() == []


def test_every_word_is_the_same_again(serving: Serving) -> None:
    (one, _, first), (two, _, second) = asked(serving), asked(serving)
    assert one == two
    assert first.received_ns < second.received_ns
    assert all(before <= after for before, after in pairwise(second.sent_before_ns))


def test_requests_take_turns(serving: Serving) -> None:
    serving.truth(reset=True)
    reader = Reader(serving)
    with reader.sock:
        for _ in range(3):
            reader.ask({"stream": True, "oracle": {"turns": [{"events": 2}, {"events": 4, "tokens": 2}], "gap_s": 0}})
            reader.reads()
    assert [one.tokens for one in serving.truth()] == [[1, 1], [2, 2, 2, 2], [1, 1]]


@pytest.mark.parametrize(
    "wrong",
    [
        {"event": 3}, {"tokens": [1, 2]}, {"usage": "some"}, {"eol": " "}, {"fault": {"kind": "fire"}},
        {"fault": {"kind": "reset", "when": 3}}, {"splits": [[0, 0, 0.1]]}, {"splits": [[200, 1, 0.1]]},
        {"gap_s": -1}, {"turns": [{"gap": 1}]}, {"coalesce": 2, "splits": [[0, 1, 0.1]]},
    ],
)  # fmt: skip
def test_a_script_that_is_not_understood_is_an_error(wrong: dict[str, Any], serving: Serving) -> None:
    with pytest.raises(ScriptError):
        read_script(wrong)
    reader = Reader(serving)
    with reader.sock:
        reader.ask({"stream": True, "oracle": wrong}, "Connection: close")
        assert b"".join(data for _, data in reader.reads(end=b"never")).startswith(b"HTTP/1.1 400 ")


def test_it_ends_with_its_standard_input(tmp_path: Any) -> None:
    file = tmp_path / "script.json"
    file.write_text("{}")
    with subprocess.Popen(
        [sys.executable, str(SERVER), "--script", str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        assert json.loads(process.stdout.readline())["pid"] == process.pid
        process.stdin.close()
        assert process.wait(20) == 0


def test_the_defaults_are_the_published_script() -> None:
    assert read_script({}) == Script()
    assert (Script().events, Script().first_after_s, Script().gap_s) == (128, 0.05, 0.01)
