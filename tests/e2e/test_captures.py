"""What came over the wire is kept, and every figure of a run can be read from it again."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import brief, command, environment, run_experiment, streamed
from finished_run import Finished

Event = dict[str, Any]


def in_two_processes(spec: dict[str, Any]) -> None:
    spec["load"] = {"processes": 2}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A brief run, streamed, by two processes of the load generator."""
    return run_experiment(tmp_path_factory.mktemp("captures"), brief, streamed, in_two_processes)


@pytest.fixture
def copied(finished: Finished, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished.directory, tmp_path / "run"))


def again(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command("report", str(directory), "--from-captures", *words),
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
        timeout=120,
    )


def journal(directory: Path) -> list[Event]:
    return [json.loads(line) for line in (directory / "journal.jsonl").read_text(encoding="utf-8").splitlines()]


def rewrite(directory: Path, edit: Callable[[Event], Event | None]) -> None:
    """Each event as `edit` gives it back, None leaves it out; the numbering is mended, as a careful forger would."""
    kept = [event for event in map(edit, journal(directory)) if event is not None]
    lines = (json.dumps({**event, "n": number}, ensure_ascii=False) + "\n" for number, event in enumerate(kept))
    (directory / "journal.jsonl").write_text("".join(lines), encoding="utf-8")


def measured(event: Event) -> bool:
    return event["event"] == "request" and event["role"] == "measured"


def test_the_captures_give_the_same_report(finished: Finished, copied: Path) -> None:
    before = {name: (copied / name).read_bytes() for name in ("report.md", "result.json")}
    for name in before:
        (copied / name).unlink()
    ended = again(copied)
    assert ended.returncode == 0, ended.stderr
    assert {name: (copied / name).read_bytes() for name in before} == before
    counted = sum(event["event"] == "request" and event["role"] != "probe" for event in journal(copied))
    assert f"{counted} requests read from the captures: as the journal has them" in ended.stderr


def test_each_process_has_its_capture_and_says_what_it_saw_of_itself(finished: Finished) -> None:
    rounds = [event["processes"] for event in journal(finished.directory) if event["event"] == "client-watched"]
    assert len(rounds) == 4  # two conditions, two concurrencies
    for processes in rounds:
        assert len(processes) == 2
        assert sum(one["requests"] for one in processes) == 8
        for one in processes:
            assert (finished.directory / one["capture"]).is_file()
            assert one["clock"] == "kernel"
            assert one["reads"] >= one["requests"] > 0


def test_every_streamed_token_has_a_stamp_between_sending_and_end(finished: Finished) -> None:
    requests = [event for event in journal(finished.directory) if measured(event)]
    assert len(requests) == 32
    for one in requests:
        events = one["events"]
        assert sum(events["tokens"]) == one["completion_tokens"]
        assert len(events["at_ns"]) == len(events["tokens"])
        assert events["at_ns"] == sorted(events["at_ns"])
        assert events["at_ns"][0] == one["first_token_ns"] - one["sent_ns"] > 0
        assert one["sent_ns"] + events["at_ns"][-1] <= one["last_byte_ns"] <= one["ended_ns"]
    assert any(len(one["events"]["at_ns"]) < one["completion_tokens"] for one in requests if one["arm"] == "on")


@pytest.mark.parametrize("name", ["sent_ns", "last_byte_ns", "first_token_ns", "completion_tokens", "verdict"])
def test_an_edited_request_is_found(copied: Path, name: str) -> None:
    edited: list[Event] = []

    def edit(event: Event) -> Event:
        if measured(event) and not edited:
            edited.append(event)
            return {**event, name: "truncated" if name == "verdict" else event[name] - 1}
        return event

    report = (copied / "report.md").read_bytes()
    rewrite(copied, edit)
    ended = again(copied)
    assert ended.returncode == 2
    assert re.search(rf"the captures say otherwise: off #1 load C=2 round 1: request 1: {name} ", ended.stderr)
    assert (copied / "report.md").read_bytes() == report


def test_a_request_that_the_journal_leaves_out_is_found(copied: Path) -> None:
    rewrite(copied, lambda event: None if measured(event) and event["index"] == 5 else event)
    ended = again(copied)
    assert ended.returncode == 2
    assert "off #1 load C=2 round 1: request 5 is in no journal" in ended.stderr


def test_a_request_that_no_capture_holds_is_an_error(copied: Path) -> None:
    rewrite(copied, lambda event: {**event, "index": 50} if measured(event) and event["index"] == 5 else event)
    ended = again(copied)
    assert ended.returncode == 2
    assert "no capture holds request 50" in ended.stderr


def test_what_the_captures_say_goes_to_an_output(finished: Finished, copied: Path) -> None:
    """The journal is a forgery; the report that is asked for elsewhere is the captures'."""
    rewrite(copied, lambda event: {**event, "last_byte_ns": event["sent_ns"] + 1} if measured(event) else event)
    ended = again(copied, "--output", "-")
    assert ended.returncode == 2
    assert ended.stdout == finished.report
    assert "and " in ended.stderr.splitlines()[-1]  # not all of them one by one


def test_a_missing_or_broken_capture_is_named(copied: Path) -> None:
    place = copied / "artifacts" / "off-1" / "load-c2-r1.capture.gz"
    whole = gzip.decompress(place.read_bytes())
    place.write_bytes(b"nothing of the kind")
    ended = again(copied)
    assert (ended.returncode, str(place) in ended.stderr) == (2, True)
    place.write_bytes(gzip.compress(whole[:-2000]))  # as a crash would leave it
    assert again(copied).returncode == 2
    place.unlink()
    place.with_name("load-c2-r1-2.capture.gz").unlink()
    ended = again(copied)
    assert "there is no capture" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_run_of_before_has_no_captures(tmp_path: Path) -> None:
    ended = again(Path(__file__).parents[2] / "examples" / "ngram-h200", "--output", str(tmp_path / "report.md"))
    assert ended.returncode == 2
    assert "there is no capture" in ended.stderr
