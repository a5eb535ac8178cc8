"""`run explain` and `run report --table`: what a table shows, and a table alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from journals import make_events, make_plan, write_run
from spec_files import run

from runner.spec.invariants import Invariants
from runner.spec.strict import kebab
from runner.spec.tables import TABLE_IDS

Capsys = pytest.CaptureFixture[str]
INVARIANTS = [kebab(name) for name in Invariants.model_fields]


@pytest.fixture
def made_run(tmp_path: Path) -> Path:
    """A run directory with a journal made by hand."""
    plan = make_plan(tmp_path)
    return write_run(tmp_path / "a run", plan, make_events(plan))


def test_explain_lists_every_table_and_invariant(capsys: Capsys) -> None:
    said = run(capsys, "explain")
    assert said.code == 0
    for name in (*TABLE_IDS, *INVARIANTS):
        assert re.search(rf"^  {name} +\S", said.out, re.MULTILINE)


@pytest.mark.parametrize("name", [*TABLE_IDS, *INVARIANTS])
def test_each_is_explained(capsys: Capsys, name: str) -> None:
    said = run(capsys, "explain", name)
    assert (said.code, said.err) == (0, [])
    first, text = said.out.split("\n", 1)
    assert first.startswith((f"table {name}: ", f"invariant {name}: "))
    assert len(text.split()) > 8


def test_a_wrong_name_is_answered_with_the_nearest(capsys: Capsys) -> None:
    said = run(capsys, "explain", "spedup-rounds")
    assert said.code == 2
    assert said.err == [
        'run explain: neither a table nor an invariant is called "spedup-rounds"; did you mean "speedup-rounds"?'
    ]


def test_a_table_alone_is_the_reports_own(capsys: Capsys, made_run: Path) -> None:
    whole = run(capsys, "report", str(made_run), "--output", "-").out
    for name in ("rounds", "saturation", "forward-model"):
        said = run(capsys, "report", str(made_run), "--table", name)
        assert said.code == 0
        assert said.out.startswith("### ")
        assert said.out.strip() in whole
    both = run(capsys, "report", str(made_run), "--table", "rounds", "--table", "speedup", "--language", "ko").out
    assert re.findall(r"^### .*`(\S+)`", both, re.MULTILINE) == ["rounds", "speedup"]
    assert "처리량 배속" in both
    assert not (made_run / "report.md").exists()


def test_a_table_that_has_nothing_says_so(capsys: Capsys, tmp_path: Path) -> None:
    plan = make_plan(tmp_path, lambda spec: spec["phases"].pop("sequential"))
    folder = write_run(tmp_path / "a run", plan, make_events(plan))
    said = run(capsys, "report", str(folder), "--table", "conversion")
    assert (said.code, said.out) == (0, "table `conversion`: there is nothing to put into it\n")


def test_a_table_that_does_not_exist_is_an_error(capsys: Capsys, made_run: Path) -> None:
    said = run(capsys, "report", str(made_run), "--table", "rouns")
    assert said.code == 2
    assert 'no table is called "rouns"; did you mean "rounds"?' in said.err[-1]


def test_a_table_goes_to_a_file(capsys: Capsys, made_run: Path, tmp_path: Path) -> None:
    said = run(capsys, "report", str(made_run), "--table", "rounds", "--output", str(tmp_path / "t.md"))
    assert (said.code, said.out) == (0, f"{tmp_path / 't.md'}\n")
    assert (tmp_path / "t.md").read_text(encoding="utf-8").startswith("### ")
