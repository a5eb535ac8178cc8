"""The H200 recording as a run: the committed report comes out byte for byte, and says what the data show."""

from __future__ import annotations

import json
import re

import pytest
from h200_run import EXAMPLE, report

from runner.report.write import Reported


@pytest.fixture(scope="module")
def made() -> Reported:
    return report()


def test_the_committed_report_is_what_the_recording_gives(made: Reported) -> None:
    assert (EXAMPLE / "report.md").read_text(encoding="utf-8") == made.report
    assert (EXAMPLE / "result.json").read_text(encoding="utf-8") == made.result


def row(text: str, table: str, *keys: str) -> list[str]:
    """The cells of a table's row, found by its first ones."""
    [block] = re.findall(rf"^### [^\n]*\(`{table}`\)\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
    for line in block.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[: len(keys)] == list(keys):
            return cells
    raise AssertionError(f"{table} has no row {keys}")


def test_what_the_data_show_is_what_the_report_says(made: Reported) -> None:
    text = made.report
    for level, ratio in (("16", "1.62×"), ("32", "1.50×")):
        assert row(text, "summary", level, "on")[2:] == [ratio, "separated"]
    # One arm is 40 % slow at C=16; at C=32 the same 16 requests run and are not.
    assert row(text, "summary", "16", "off-v1-noasync")[2:] == ["0.61×", "not separated (C=32 does not confirm it)"]
    assert row(text, "summary", "32", "off-v1-noasync")[2:] == ["0.96×", "not separated"]
    for level in ("1", "4", "16", "32"):
        assert row(text, "summary", level, "off-v1-async")[3] == "not separated"
    assert "The comparison of `on` is confounded: Async scheduling, Model runner, Sampling options" in text
    assert "The comparison of `off-v1-noasync` is confounded" not in text
    # The queue at C=32 is shown; three samples decide nothing.
    assert row(text, "resources", "on C=32")[4].startswith("16 (0~16), too few samples")
    assert "the same batch runs: the host's noise, no effect" in text
    assert "against the control `off-v1-noasync`, which shares them, it is C=1 1.69× (separated)" in text
    assert "the share of Sampling options without effect in the speed-up of `on`" in text
    assert "all of them equal the baseline's output" in text
    assert "— simulated" not in text and "simulated: no" in text


def test_no_judgement_is_made_of_noise(made: Reported) -> None:
    result = json.loads(made.result)
    judged = {one["check"]: one for one in result["checks"]}
    for name in ("same-output", "queue-only-above"):
        assert judged[name]["judgement"] == "inconclusive"
    assert judged["forward-model"]["judgement"] == "pass"
    # The arm that is slow at C=16 alone has an effect above its spread there, which its own C=32 does not confirm.
    spread = {one["subject"]: one for one in judged["spread-below-effect"]["findings"]}
    assert spread["off-v1-noasync C=16"]["reason"] == "effect-not-confirmed"
    assert {one["judgement"] for name, one in spread.items() if name.startswith("on ")} == {"pass"}
    # Single requests at C=1 overlap: the mean of 1.58 is not told from the slow first ones.
    assert judged["sequential-separated"]["judgement"] == "fail"
    at_1 = [one for one in judged["speedup"]["findings"] if one["subject"] == "on C=1"]
    assert [one["judgement"] for one in at_1] == ["inconclusive"]
