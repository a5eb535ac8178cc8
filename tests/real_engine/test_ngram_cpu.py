"""The experiment `specs/ngram-cpu.yaml` on the real engine: one whole run, and what must be true of it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import vllm_cpu
from finished_run import Finished
from kept_evidence import counted_exactly, log_of, one_text

from runner.record.record import Record

pytestmark = pytest.mark.timeout(900)

ARMS = ("off", "off-sync", "on")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """The command of the README, from the checkout's own spec, run directories elsewhere."""
    folder = tmp_path_factory.mktemp("ngram-cpu")
    return vllm_cpu.run(folder, str(vllm_cpu.SPEC), "--target", "process")


@pytest.fixture(scope="module")
def record(run: Finished) -> Record:
    return run.record


def test_the_run_passes_and_says_that_it_is_real(run: Finished) -> None:
    assert run.code == 0, run.stdout + run.stderr
    assert run.result["simulated"] is False
    assert "— simulated" not in run.report
    assert "- simulated: no\n" in run.report


def test_each_condition_is_in_force_by_the_engines_own_log(run: Finished, record: Record) -> None:
    for arm in ARMS:
        [engine] = record.of_arm(arm)
        assert engine.evidence is not None and engine.proof is not None
        assert {one.verdict for one in engine.evidence.arguments} == {"in-force"}, arm
        words = re.sub(r"\s+", " ", log_of(run, arm))
        assert engine.evidence.parsed is not None
        for name in engine.evidence.parsed:
            assert f"'{name}':" in words
        assert engine.proof.verdict == "in-force"
    [on] = record.of_arm("on")
    assert on.evidence is not None and on.evidence.speculation is not None
    assert on.evidence.speculation.model_dump() == {"method": "ngram", "model": None, "tokens": 5}
    assert "SpeculativeConfig(method='ngram', model=None, num_spec_tokens=5)" in log_of(run, "on")
    assert on.proof is not None and on.proof.state == "moved"
    assert "SpeculativeConfig(" not in log_of(run, "off")
    features = {arm: record.of_arm(arm)[0].evidence.features for arm in ARMS}
    # A CPU has none, in no condition. This release's log says so under the N-gram method alone, its configuration
    # always.
    assert {one["async-scheduling"].value for one in features.values()} == {"disabled"}
    assert features["off"]["async-scheduling"].source == "/server_info"
    assert features["on"]["unsupported-sampling"].value == ["min_p", "logit_bias"]


def test_the_counters_are_those_of_the_raw_scrapes_and_exact(run: Finished, record: Record) -> None:
    rounds = list(record.all_rounds())
    assert len(rounds) == len(ARMS) * 5
    for round_ in rounds:
        window = round_.of_role("warm-up", "excluded", "measured")
        assert len(window) == (10 if round_.concurrency == 1 else 17)
    counted_exactly(run, 96, "on")
    counters = run.report.split("(`draft-counters`)")[1]
    assert re.search(r"\| Drafts +\| +140 \|", counters), counters[:600]


def test_the_output_is_judged_and_identical(run: Finished) -> None:
    [finding] = [one for one in run.result["checks"] if one["check"] == "same-output"]
    assert finding["judgement"] == "pass"
    assert one_text(run)


def test_what_this_build_does_not_print_is_absent(run: Finished, record: Record) -> None:
    for arm in ARMS:
        [engine] = record.of_arm(arm)
        assert engine.evidence is not None
        assert "Model loading took" not in log_of(run, arm)
        assert engine.evidence.model_memory_gib is None
        assert engine.evidence.kv_cache_tokens == 65_536
    rows = run.report.split("(`resources`)")[1].split("###")[0]
    cells = [line.split("|")[2:4] for line in rows.splitlines() if re.match(r"\| (off|on)", line)]
    assert len(cells) == 9
    assert all(not re.search(r"\d", cell) for pair in cells for cell in pair), "a GPU's figure without a GPU"


def test_the_report_is_the_same_again_offline(run: Finished, tmp_path: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-m", "runner", "report", str(run.directory), "--output", "-"],
        cwd=tmp_path, capture_output=True, check=True,
    )  # fmt: skip
    assert told.stdout == (run.directory / "report.md").read_bytes()
