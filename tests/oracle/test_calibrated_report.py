"""A whole run against the oracle: every latency figure that the report and result.json print, against the same figure
computed here from the oracle's own times."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from calibration import Times, figures, mean_in_flight, quantile, times_of
from oracle_process import Truth, oracle

import runner

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel stamps what is received on Linux alone")
ROOT = Path(runner.__file__).parents[1]
CONCURRENCY, REQUESTS = 16, 112
TURNS = [{"first_after_s": 0.1 * turn, "gap_s": 0.01 + 0.01 * turn} for turn in range(1, 6)]
"""An odd number of them: no quantile lies between two."""
CONDITIONS: dict[str, dict[str, Any]] = {
    "steady": {"turns": TURNS},
    "bursts": {"events": 4, "tokens": [1, 4, 3, 4], "gap_s": 0.03, "first_after_s": 0.5},
    "coalesced": {"coalesce": 4, "gap_s": 0.03, "first_after_s": 0.3},
}
SPEC: dict[str, Any] = {
    "name": "oracle",
    "model": "oracle",
    "conditions": {name: {"request": {"oracle": said}} for name, said in CONDITIONS.items()},
    # each request of a round is known by its words
    "prompts": {f"p{number}": {"messages": [{"role": "user", "content": f"p{number}"}]} for number in range(REQUESTS)},
    "request": {"model": "oracle", "temperature": 0},
    "phases": {"load": {"concurrency": [CONCURRENCY], "requests": REQUESTS, "rounds": 1, "stream": True}},
    "limits": {"idle-seconds": 30},
    "invariants": {
        name: {"allow-inconclusive": True}
        for name in ("configuration-in-force", "declared-differences", "request-options")
    },
}
METRICS = ("ttft", "tpot", "itl", "chunk-gap", "e2e-latency")
"""In the order of the table."""


@dataclass(frozen=True, slots=True)
class Condition:
    """What was printed of a condition, and the truth of its measured requests."""

    cell: dict[str, Any]
    table: list[list[str]]
    requests: list[dict[str, Any]]
    truth: list[Truth]

    def true(self, metric: str) -> list[float]:
        """The values of a metric by the oracle's times."""
        return figures([times_of(one) for one in self.truth])[metric]


def matched(journal: Sequence[dict[str, Any]], truth: Sequence[Truth]) -> dict[str, list[tuple[dict[str, Any], Truth]]]:
    """Each condition's measured requests with the oracle's: of one prompt, the first that was sent came first."""
    bodies = {line["body_id"]: line["body"]["messages"][-1]["content"] for line in journal if line["event"] == "body"}
    arrivals: dict[str | None, list[Truth]] = defaultdict(list)
    for one in truth:
        arrivals[one.last_words].append(one)
    sent: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for request in sorted((line for line in journal if line["event"] == "request"), key=lambda one: one["sent_ns"]):
        sent[bodies[request["body_id"]]].append(request)
    assert sent.keys() == arrivals.keys()
    found: dict[str, list[tuple[dict[str, Any], Truth]]] = defaultdict(list)
    for words, requests in sent.items():
        for request, one in zip(requests, arrivals[words], strict=True):
            if request["role"] == "measured":
                found[request["arm"]].append((request, one))
    return found


def rows_of(report: str, condition: str) -> list[list[str]]:
    """The condition's rows of the table of latencies."""
    section = report.partition("(`latency`)")[2].partition("\n### ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("|")]
    return [row for row in rows if row[0] == condition]


@pytest.fixture(scope="module")
def conditions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Condition]:
    """One run, all conditions."""
    folder = tmp_path_factory.mktemp("calibrated")
    env = {name: value for name, value in os.environ.items() if name not in ("RUNNER_TARGET", "KUBECONFIG")}
    with oracle({"events": 16, "tail_after_s": 0.01}) as serving:
        (folder / "spec.yaml").write_text(json.dumps(SPEC), encoding="utf-8")
        site = {"endpoint": {"urls": dict.fromkeys(CONDITIONS, serving.url)}}
        (folder / "there.yaml").write_text(json.dumps(site), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "runner", "spec.yaml", "--target", "endpoint", "--site", "there.yaml"],
            cwd=folder, env={**env, "HOME": "/nonexistent", "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        truth = serving.truth()
    directory = folder / done.stdout.splitlines()[-1]
    journal = [json.loads(line) for line in (directory / "journal.jsonl").read_text("utf-8").splitlines()]
    result = json.loads((directory / "result.json").read_text("utf-8"))
    report = (directory / "report.md").read_text("utf-8")
    pairs = matched(journal, truth)
    return {
        cell["condition"]: Condition(
            cell,
            rows_of(report, cell["condition"]),
            [request for request, _ in pairs[cell["condition"]]],
            [one for _, one in pairs[cell["condition"]]],
        )
        for cell in result["cells"]
    }


def test_every_request_is_there_and_well(conditions: dict[str, Condition]) -> None:
    assert list(conditions) == list(CONDITIONS)
    for found in conditions.values():
        assert len(found.requests) == REQUESTS
        assert {request["verdict"] for request in found.requests} == {"ok"}
        assert {request["clock"] for request in found.requests} == {"kernel"}
        for request, one in zip(found.requests, found.truth, strict=True):
            assert request["events"]["tokens"] == one.tokens
            assert request["completion_tokens"] == sum(one.tokens)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("condition", ["steady", "bursts"])
def test_each_quantile_is_the_oracles(conditions: dict[str, Condition], condition: str, metric: str) -> None:
    found = conditions[condition]
    true = found.true(metric)
    printed = found.table[METRICS.index(metric)]
    assert (printed[6].replace(",", ""), printed[7]) == (str(len(true)), "kernel")
    assert found.cell["latency"][metric]["n"] == len(true)
    for column, percent in enumerate((50, 90, 99), start=3):
        said = found.cell["latency"][metric][f"p{percent}"]
        if percent == 99 and said.get("absent") == "clock-cannot-carry":
            continue  # a machine that was busy elsewhere: some events lay together in a read, and it says so
        assert "value" in said, said
        wanted = quantile(true, percent / 100)
        assert said["value"] == pytest.approx(wanted, rel=0.02, abs=100e-6), percent
        assert said["low"] <= said["value"] <= said["high"]
        assert seconds(printed[column]) == pytest.approx(wanted, rel=0.02, abs=200e-6), printed


def seconds(printed: str) -> float:
    """A duration as the tables print it."""
    found = re.search(r"([\d.,]+) ?(ms|s)\b", printed)
    assert found is not None, printed
    return float(found[1].replace(",", "")) * {"ms": 1e-3, "s": 1.0}[found[2]]


def test_tokens_are_counted_and_not_chunks(conditions: dict[str, Condition]) -> None:
    """Events of 1, 4, 3 and 4 tokens, 30 ms apart: 90 ms for the 11 tokens after the first. The oracle
    itself may be late: what it was is compared above."""
    found = conditions["bursts"].cell["latency"]
    assert found["tpot"]["p50"]["value"] == pytest.approx(0.090 / 11, rel=0.15)
    assert found["itl"]["n"] == 11 * REQUESTS
    assert found["itl"]["p50"]["value"] == pytest.approx(0.030 / 4, rel=0.15)
    assert found["itl"]["p90"]["value"] == pytest.approx(0.030 / 3, rel=0.15)
    assert found["chunk-gap"]["n"] == 3 * REQUESTS
    assert found["chunk-gap"]["p50"]["value"] == pytest.approx(0.030, rel=0.15)


def test_what_came_together_is_an_upper_bound_and_no_figure(conditions: dict[str, Condition]) -> None:
    found = conditions["coalesced"]
    for request in found.requests:
        bounded = {number for number, _ in request["events"]["bounds"]}
        assert bounded >= {number for number in range(16) if number % 4 != 3}
    assert found.cell["client"]["upper_bound_share"] == pytest.approx(0.75, abs=0.03)
    for metric in ("ttft", "chunk-gap"):
        assert found.cell["latency"][metric]["p50"]["absent"] == "clock-cannot-carry"
    assert conditions["steady"].cell["client"]["upper_bound_share"] < 0.05
    # what is known is told: the end of the answer was read by itself
    true = quantile(found.true("e2e-latency"), 0.5)
    assert found.cell["latency"]["e2e-latency"]["p50"]["value"] == pytest.approx(true, rel=0.01)


@pytest.mark.parametrize("condition", list(CONDITIONS))
def test_the_round_is_as_long_and_as_full_as_the_oracle_saw(conditions: dict[str, Condition], condition: str) -> None:
    found = conditions[condition]
    times: list[Times] = [times_of(one) for one in found.truth]
    wall = (max(one.last_ns for one in times) - min(one.asked_ns for one in times)) / 1e9
    assert found.cell["wall"] == pytest.approx(wall, rel=0.01)
    assert found.cell["throughput"] == pytest.approx(REQUESTS / wall, rel=0.01)
    achieved = mean_in_flight([(one.asked_ns, one.last_ns) for one in times])
    client = found.cell["client"]
    assert client["asked_concurrency"] == CONCURRENCY
    assert client["achieved_concurrency"] == pytest.approx(achieved, rel=0.01)
    assert client["limit"] is None
    mean = fmean((one.last_before_ns - one.received_ns) / 1e9 for one in found.truth if one.last_before_ns)
    assert found.cell["mean_latency"] == pytest.approx(mean, rel=0.01)
