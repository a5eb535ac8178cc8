"""The run of a real GPU that is kept under `examples/ngram-h200`: its journal still gives its report, its logs still
say what the journal says of them, and what `examples/README.md` claims of it is what the record shows."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from runner.engine.log import read_log
from runner.execution.proof import evidence_read
from runner.record.directory import JOURNAL
from runner.record.record import Record, read_record
from runner.report.write import make_report

RUN = Path(__file__).parents[2] / "examples" / "ngram-h200"


@pytest.fixture(scope="module")
def record() -> Record:
    return read_record(RUN)


def test_report_and_result_are_made_again_byte_for_byte() -> None:
    made = make_report(RUN)
    assert made.report.encode() == (RUN / "report.md").read_bytes()
    assert made.result.encode() == (RUN / "result.json").read_bytes()


def test_the_spec_that_is_offered_is_the_one_that_was_run(record: Record) -> None:
    text = (RUN / "spec.yaml").read_bytes()
    assert text == (RUN.parents[1] / "specs" / "ngram-h200.yaml").read_bytes()
    assert record.plan.spec_sha256 == hashlib.sha256(text).hexdigest()


def test_the_logs_say_what_the_journal_says_of_them(record: Record) -> None:
    """The engine's own words, read again: all but what came from a scrape, which is not kept."""
    assert len(record.engines) == 8
    for engine, launch in zip(record.engines, record.plan.launches, strict=True):
        assert engine.launched is not None and engine.launched.log is not None and engine.evidence is not None
        log = read_log((RUN / engine.launched.log).read_text("utf-8").splitlines())
        again = evidence_read(launch, record.plan.arm(engine.arm), log, None)
        kept = engine.evidence
        assert (again.version, again.parsed, again.speculation) == (kept.version, kept.parsed, kept.speculation)
        assert (again.features, again.quotes) == (kept.features, kept.quotes)
        by_log = {one.name for one in again.arguments if one.verdict == "in-force"}
        assert by_log == {one.name for one in kept.arguments if one.verdict == "in-force"} - {"gpu_memory_utilization"}


def test_the_journal_by_itself_has_the_counts_that_are_claimed() -> None:
    """Plain JSON, none of our readers: requests, texts, and drafts per request in every round."""
    requests: Counter[str] = Counter()
    texts, rounds = set(), {}
    for line in (RUN / JOURNAL).read_text("utf-8").splitlines():
        event: dict[str, Any] = json.loads(line)
        key = tuple(event.get(name) for name in ("arm", "replicate", "concurrency", "round"))
        if event["event"] == "request" and event["role"] in ("warm-up", "excluded", "measured"):
            requests[event["arm"]] += 1
            texts.add(event["output_id"])
            assert (event["verdict"], event["completion_tokens"]) == ("ok", 68)
        if event["event"] == "scraped":
            rounds.setdefault(key, {})[event["moment"]] = event["series"]
    assert requests == {"off": 800, "off-v1": 800, "off-v1-sync": 800, "on": 800}
    assert len(texts) == 1
    assert len(rounds) == 56
    for (arm, *_), both in rounds.items():
        moved = {
            what: sum(
                both["after"][name] - both["before"][name]
                for name in both["after"]
                if re.match(rf"vllm:{what}_total\{{", name)
            )
            for what in (
                "request_success",
                "spec_decode_num_drafts",
                "spec_decode_num_draft_tokens",
                "spec_decode_num_accepted_tokens",
            )
        }
        finished = moved.pop("request_success")
        assert finished in (10, 65)
        assert [value / finished for value in moved.values()] == ([9, 45, 34] if arm == "on" else [0, 0, 0])


def test_the_claims_are_the_results() -> None:
    result = json.loads((RUN / "result.json").read_text("utf-8"))
    assert (result["simulated"], result["exit_code"]) == (False, 6)
    undecided = {one["check"] for one in result["checks"] if one["judgement"] == "inconclusive"}
    assert undecided == {"queue-only-above", "spread-below-effect", "memory-per-running"}
    assert {one["judgement"] for one in result["checks"]} == {"pass", "inconclusive"}
    separated = {
        (one["condition"], one["concurrency"]) for one in result["comparisons"] if one["separation"] == "faster"
    }
    assert separated == {("on", 1), ("on", 4), ("on", 16), ("on", 32)}
    ratios = {
        one["concurrency"]: one["latency_ratio" if one["concurrency"] == 1 else "throughput_ratio"]
        for one in result["comparisons"]
        if one["condition"] == "on"
    }
    assert ratios[1] == pytest.approx(2.48, abs=0.005)
    assert all(1.9 <= round(ratios[level], 1) <= 2.1 for level in (4, 16, 32))
