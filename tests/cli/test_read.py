"""`run read`: what is found, what is absent, and what could not be read, with file and line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from spec_files import run

from runner.engine.recording import MAX_RECORDING

RECORDINGS = Path(__file__).parents[1] / "recordings"
ON = RECORDINGS / "h200-b2048" / "on-a"
DOCS = Path(__file__).parents[2] / "docs" / "recordings.md"
Capsys = pytest.CaptureFixture[str]


def test_a_folder_is_read_completely(capsys: Capsys) -> None:
    said = run(capsys, "read", ON)
    assert (said.code, said.err) == (0, [])
    files = sorted(path for path in ON.rglob("*") if path.is_file())
    assert [line.split(": ")[0] for line in said.out.splitlines() if re.match(r"\S+: (?!window)", line)] == [
        str(path) for path in files
    ]
    assert {Path(name).name for name in re.findall(r"(\S+): no reader", said.out)} == {
        "command.json", "nvidia-smi.csv", "samples.csv", "timings.json",
    }  # fmt: skip
    assert said.out.count(": window") == len(list(ON.glob("metrics/*-before.prom")))


def test_a_log_says_what_is_absent_and_quotes(capsys: Capsys) -> None:
    said = run(capsys, "read", RECORDINGS / "cpu" / "0.32.0-cpu-tiny" / "off" / "server.log")
    assert said.code == 0
    assert "  speculative: off\n    | speculative_config=None\n" in said.out
    absent = said.out.split("  absent: ")[1].strip().split(", ")
    assert {"async_scheduling", "model_memory_gib", "max_num_batched_tokens"} <= set(absent)
    assert not any(re.search(rf"^  {name}:", said.out, re.MULTILINE) for name in absent)


def test_two_scrapes_are_a_window_in_their_order(capsys: Capsys) -> None:
    before, after = (ON / "metrics" / f"c1-r1-{end}.prom" for end in ("before", "after"))
    said = run(capsys, "read", before, after)
    window = said.out.split(": window\n")[1]
    # the README: ten requests of 68 tokens; six drafts of five, 26 accepted, a request
    for words in (
        "finished requests: 10",
        "generated tokens: 680",
        "drafts: 60",
        "draft tokens: 300",
        "accepted tokens: 260",
    ):
        assert f"  {words}\n" in window
    off = [RECORDINGS / "h200-b2048" / "off-a" / "metrics" / f"c1-r1-{end}.prom" for end in ("before", "after")]
    window = run(capsys, "read", *off).out.split(": window\n")[1]
    assert "  absent: drafts, draft tokens, accepted tokens\n" in window and "drafts: " not in window


def test_a_window_that_goes_back_says_why(tmp_path: Path, capsys: Capsys) -> None:
    for name, end in (("one", "after"), ("two", "before")):
        (tmp_path / name).write_bytes((ON / "metrics" / f"c1-r1-{end}.prom").read_bytes())
    said = run(capsys, "read", tmp_path / "one", tmp_path / "two")
    assert "generated tokens (reset: " in said.out.split(": window\n")[1]


@pytest.mark.parametrize(
    ("name", "change", "line", "words"),
    [
        ("metrics/c1-r1-after.prom", lambda data: data[:-20], None, "cut"),
        ("metrics/c1-r1-after.prom", lambda data: data + b"what\n", -1, "cannot be read"),
        ("startup.log", lambda data: data[:-9], -1, "no end"),
        ("startup.log", lambda data: b"\n" * 3 + b"x" * 300_000 + b"\n" + data, 4, "only its beginning"),
        ("bodies-c1-r1.jsonl", lambda data: data[:-100], 2, "truncated|malformed"),
        ("stream-c1.jsonl", lambda data: data[:-100], 3, "no JSON"),
        ("stream-c1.jsonl", lambda data: data.replace(b"[DONE]", b"[D0NE]"), 1, "malformed"),
        ("server_info.json", lambda data: data[:-5], 1, "cut or broken JSON"),
        ("server_info.json", lambda data: b'{"vllm_config": "text"}', 1, "config_format=json"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(
    name: str, change: object, line: int | None, words: str, tmp_path: Path, capsys: Capsys
) -> None:
    data = change((ON / name).read_bytes())  # type: ignore[operator]  # a lambda of the table above
    path = tmp_path / Path(name).name
    path.write_bytes(data)
    for asked in (path, tmp_path):
        said = run(capsys, "read", asked)
        assert said.code == 2
        place, _, why = said.err[0].removeprefix(f"{path}:").partition(": ")
        assert re.search(words, why), said.err
        expected = data.rstrip(b"\n").count(b"\n") + 1 if line == -1 else line
        assert expected is None or int(place) == expected


def test_a_stream_that_breaks_off_is_no_complete_reading(tmp_path: Path, capsys: Capsys) -> None:
    body = (RECORDINGS / "h200" / "q3b-on" / "sse" / "sse-kr.raw").read_bytes()
    path = tmp_path / "stream.txt"
    path.write_bytes(body)
    assert run(capsys, "read", path).code == 0
    path.write_bytes(body[: len(body) // 2])
    said = run(capsys, "read", path)
    assert (said.code, len(said.err)) == (2, 1)
    assert "truncated" in said.err[0]


def test_a_saved_answer_with_its_head(tmp_path: Path, capsys: Capsys) -> None:
    stream = (RECORDINGS / "h200" / "q3b-on" / "sse" / "sse-kr.raw").read_bytes()
    refusal = json.dumps({"error": {"message": "no", "type": "NotFoundError", "code": 404}}).encode()
    (tmp_path / "a").write_bytes(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n" + stream)
    (tmp_path / "b").write_bytes(b"HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\n\r\n" + refusal)
    (tmp_path / "c").write_bytes(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n" + (ON / "metrics/c1-r1-after.prom").read_bytes()
    )
    said = run(capsys, "read", tmp_path)
    assert (said.code, said.err) == (0, [])
    assert "1 stream of 37 events: 1 ok, 68 completion tokens" in said.out
    assert "verdict: http-error: HTTP 404: NotFoundError: no" in said.out
    assert f"{tmp_path / 'c'}: scrape, " in said.out


def test_tokens_that_contradict_each_other_are_no_complete_reading(tmp_path: Path, capsys: Capsys) -> None:
    first = (ON / "bodies-c1-r1.jsonl").read_text("utf-8").splitlines()[0]
    (tmp_path / "reply.json").write_text(first.replace('"completion_tokens": 68', '"completion_tokens": 67'), "utf-8")
    said = run(capsys, "read", tmp_path / "reply.json")
    assert said.code == 2
    assert "contradict each other: 67, 68" in said.err[0]


def test_lines_that_nobody_known_wrote_are_named_and_no_fault(tmp_path: Path, capsys: Capsys) -> None:
    log = (ON / "startup.log").read_bytes()
    (tmp_path / "log").write_bytes(b"node-7: NCCL INFO something\n" + log)
    said = run(capsys, "read", tmp_path / "log")
    assert (said.code, said.err) == (0, [])
    assert "note: line 1 is nobody's that is known here: node-7: NCCL INFO something" in said.out


def test_files_that_are_no_recording(tmp_path: Path, capsys: Capsys) -> None:
    (tmp_path / "notes.txt").write_text("hello\n")
    (tmp_path / "large").write_bytes(b"")
    with (tmp_path / "large").open("r+b") as large:
        large.truncate(MAX_RECORDING + 1)  # sparse
    assert run(capsys, "read", tmp_path).code == 0
    for name, words in (("notes.txt", "no reader"), ("large", str(MAX_RECORDING)), ("missing", "No such file")):
        said = run(capsys, "read", tmp_path / name)
        assert said.code == 2
        assert said.err[0].startswith(f"{tmp_path / name}:1: ") and words in said.err[0]


def test_the_documentation_says_the_bounds_of_the_code() -> None:
    from runner.engine import exposition, log, log_line, printed, reply

    words = DOCS.read_text("utf-8")
    mebi = 1024 * 1024
    for bound in (
        f"| {MAX_RECORDING // mebi} MiB |", f"{log_line.MAX_LINE:,} characters |", f"| {log.MAX_ERRORS} |",
        f"| {printed.MAX_NESTING} deep |", f"| {reply.MAX_REPLY // mebi} MiB |",
        f"| {exposition.MAX_TEXT // mebi} MiB, {exposition.MAX_SERIES:,} samples, ",
        f", {exposition.MAX_LINE:,} characters a line |",
    ):  # fmt: skip
        assert bound in words, bound


@pytest.mark.parametrize(
    ("words", "said"),
    [("non-default args: {", "non-default args"), (" with config: ", "with config")],
)
def test_a_line_that_was_cut_on_its_way_is_named(capsys: Capsys, tmp_path: Path, words: str, said: str) -> None:
    lines = (ON / "startup.log").read_text(encoding="utf-8").splitlines()
    [number] = [index for index, line in enumerate(lines, 1) if words in line]
    lines[number - 1] = lines[number - 1][: lines[number - 1].index(words) + len(words) + 30]
    log = tmp_path / "server.log"
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = run(capsys, "read", str(log))
    assert found.code == 2
    assert found.err == [f"{log}:{number}: what stands after '{said}' is not whole, and was not read"]


def test_an_empty_folder_is_no_success(capsys: Capsys, tmp_path: Path) -> None:
    found = run(capsys, "read", str(tmp_path))
    assert (found.code, found.err) == (2, [f"{tmp_path}: there is no file in this folder"])
