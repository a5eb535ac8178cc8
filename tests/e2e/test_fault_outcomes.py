"""Faults through the whole runner: what docs/faults.md says of each is what `run` ends with, and never a clean result
where something was wrong. Faults of single replies share a run, each at a request of its own."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Edit, Finished, environment, fault, left_behind, run_experiment, streamed, write_experiment

from runner.simulator.fault_kinds import KINDS

SCALE = 0.02
BEFORE = 2  # requests of the process before the first round: the readiness probe and the proof request

REPLIES: list[tuple[dict[str, Any], str, str]] = [  # a fault, and the verdict of a streamed and of a plain reply
    ({"kind": "in-band-error", "after_tokens": 5}, "in-band-error", "http-error"),
    ({"kind": "truncated-stream", "after_tokens": 5}, "truncated", "truncated"),
    ({"kind": "truncated-chunk", "after_tokens": 5, "inside": "chunk"}, "truncated", "truncated"),
    ({"kind": "truncated-chunk", "after_tokens": 5, "inside": "json"}, "truncated", "malformed"),
    ({"kind": "slow-drip", "bytes": 99, "seconds": 0.001}, "ok", "ok"),
    ({"kind": "malformed-json"}, "malformed", "malformed"),
    ({"kind": "http-error", "status": 429}, "http-error", "http-error"),
    ({"kind": "http-error", "status": 503}, "http-error", "http-error"),
    ({"kind": "wrong-model"}, "wrong-model", "wrong-model"),
    ({"kind": "empty"}, "empty", "empty"),
    ({"kind": "stall"}, "timed-out", "timed-out"),
    ({"kind": "death-mid-stream", "after_tokens": 5}, "truncated", "reset"),
]


def short(concurrency: int, requests: int, rounds: int = 1) -> Edit:
    def edit(spec: dict[str, Any]) -> None:
        spec["phases"]["load"] = {"concurrency": [concurrency], "requests": requests, "rounds": rounds}
        spec["limits"] = {"request-timeout-seconds": 4, "idle-seconds": 1.5}
        del spec["invariants"]["acceptance-constant"]

    return edit


def documented(ended: Finished, *kinds: str) -> None:
    """Exit code as in the table of faults."""
    for kind in kinds:
        assert ended.code in {one.exit for one in KINDS[kind].outcomes}, (kind, ended.stdout)


def as_planned(spec: dict[str, Any]) -> None:
    """No edit."""


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "plain"])
def test_every_reply_that_went_wrong_has_its_verdict(tmp_path: Path, stream: bool) -> None:
    faults = [{**one, "request": BEFORE + number} for number, (one, _, _) in enumerate(REPLIES, start=1)]
    edits = [short(1, len(REPLIES) + 1), fault(*faults), streamed if stream else as_planned]
    ended = run_experiment(tmp_path, *edits, scale=SCALE)
    [round_] = ended.record.of_arm("on")[0].rounds
    found = [request.verdict for request in round_.of_role("measured")]
    assert found[:-1] == [verdicts[0 if stream else 1] for _, *verdicts in REPLIES]
    assert found[-1] in ("refused", "reset")  # nobody is there any more, or the last of it is just going
    assert ended.code == 5, ended.stdout
    documented(ended, *(one["kind"] for one, *_ in REPLIES if one["kind"] != "slow-drip"))
    assert "on: the engine ended with exit code 1" in ended.stdout
    # No figure is made of it, and the other condition's stand.
    on, off = ([one for one in ended.result["cells"] if one["condition"] == name] for name in ("on", "off"))
    assert all(isinstance(one["throughput"], float) for one in off)
    [compared] = ended.result["comparisons"]
    assert not isinstance(compared["throughput_ratio"], float)
    assert sum(on[0]["failed"].values()) == len(REPLIES)


@pytest.mark.parametrize("kind", ["hang", "stall-while-waiting"])
def test_an_engine_that_gives_no_more_tokens_makes_the_cell_incomplete(tmp_path: Path, kind: str) -> None:
    def impatient(spec: dict[str, Any]) -> None:
        spec["limits"]["request-timeout-seconds"] = 1.5

    edits = [short(4, 8), impatient, fault({"kind": kind, "after_requests": BEFORE + 4})]
    ended = run_experiment(tmp_path, *edits, scale=SCALE)
    documented(ended, kind)
    assert ended.code == 5, ended.stdout
    assert re.search(r"on C=4: incomplete: (\d) failed \(allowed 0\) \(timed out \1: ", ended.stdout)
    [round_] = ended.record.of_arm("on")[0].rounds
    # Until the client gives up: what it lets go of leaves the queue.
    given_up = min(one.ended_ns or 0 for one in round_.of_role("measured") if one.verdict == "timed-out")
    still = [one for one in round_.samples if one.error is None and one.at_ns < given_up]
    last = [(sample.running, sample.waiting) for sample in still][-3:]
    assert len(set(last)) == 1  # nothing moves any more
    if kind == "stall-while-waiting":
        running, waiting = last[0]
        assert waiting and running is not None and running + waiting == 4


def test_counters_that_lie_by_one_once_are_found(tmp_path: Path) -> None:
    names = [f"vllm:{name}" for name in ("request_success_total", "time_to_first_token_seconds_count",
                                         "prompt_tokens_total", "generation_tokens_total",
                                         "e2e_request_latency_seconds_count")]  # fmt: skip
    each = 4
    lies = [{"kind": "counter-lies", "name": name, "request": BEFORE + each * at + 2} for at, name in enumerate(names)]
    ended = run_experiment(tmp_path, short(2, each, rounds=len(names)), fault(*lies), scale=SCALE)
    documented(ended, "counter-lies")
    assert ended.code == 1 and ended.failing() == {"request-count": "fail"}, ended.stdout
    [check] = [one for one in ended.result["checks"] if one["check"] == "request-count"]
    found = {
        one["subject"]: (one["judgement"], one["figures"].get("name", one["reason"]))
        for one in check["findings"]
        if one["judgement"] != "pass"
    }
    expected = {f"on C=2 #1.{number}": ("inconclusive", name) for number, name in enumerate(names[:-1], start=1)}
    assert found == {**expected, f"on C=2 #1.{len(names)}": ("fail", "round-contaminated")}


def test_a_start_time_that_moves_at_each_scrape_is_another_process(tmp_path: Path) -> None:
    lie = {"kind": "counter-lies", "name": "process_start_time_seconds", "per": "scrape"}
    ended = run_experiment(tmp_path, short(2, 4), fault(lie), scale=SCALE)
    documented(ended, "counter-lies")
    assert ended.code == 1 and ended.failing()["one-engine-process"] == "fail"


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("bad-model", "some-model is not a local folder and is not a valid model identifier"),
        ("bad-flag", "vllm: error: unrecognized arguments: --no-such-flag"),
    ],
)
def test_a_crash_at_the_start_is_told_in_the_engines_words(tmp_path: Path, how: str, words: str) -> None:
    def first(spec: dict[str, Any]) -> None:  # the condition that is started first, so that nothing else is
        spec["model"] = "some-model"
        spec["conditions"]["off"]["env"] = {"SIMULATOR_FAULTS": json.dumps([{"kind": "crash-at-start", "with": how}])}

    ended = run_experiment(tmp_path, first, scale=SCALE)
    documented(ended, "crash-at-start")
    assert f"ended with exit code {2 if how == 'bad-flag' else 1} while starting" in ended.stdout
    assert words in ended.stdout


def test_an_engine_that_ignores_sigterm_is_killed_and_nothing_is_left(tmp_path: Path) -> None:
    spec = write_experiment(tmp_path, short(2, 4), fault({"kind": "ignore-sigterm"}), scale=SCALE)
    patient = (
        "import sys; import runner.target.child as child; child._STOP_SECONDS = 1.0\n"
        "from runner.cli import main\n"
        f"sys.exit(main([{spec.name!r}]))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", patient], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    finished = Finished(ended.returncode, ended.stdout, ended.stderr, tmp_path)
    documented(finished, "ignore-sigterm")
    stopped = {one.arm: one.stopped.how for one in finished.record.engines if one.stopped is not None}
    assert stopped["off"] == "stopped by SIGTERM"
    assert stopped["on"].startswith("killed: it did not stop within 1 s of SIGTERM")
    assert left_behind(tmp_path) == []


def test_every_fault_is_tried_through_the_runner() -> None:
    text = "".join(path.read_text("utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    tried = set(re.findall(r'"kind": "([\w-]+)"', text)) | {"hang", "stall-while-waiting"}
    assert tried == {name for name, kind in KINDS.items() if kind.outcomes}
