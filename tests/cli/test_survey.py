"""What a target found is told before anything is changed, and what is there is changed only with consent."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from journals import SPEC

from runner.cli import run_spec
from runner.cli.plan import main as plan_main
from runner.cli.survey import consent, survey_lines
from runner.exit_code import ExitCode
from runner.target import choose
from runner.target.base import Survey
from runner.target.embedded import EmbeddedTarget

CHANGES = Survey(facts={"context": "k3s", "namespace": "ml"}, changes=["Deployment ml/vllm: patched"])


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_where_it_is_stands_first_and_every_heading_has_its_lines() -> None:
    survey = Survey({"context": "k3s"}, ["a change"], ["image: a -> b"], ["who holds it"])
    assert list(survey_lines(survey, "off")) == [
        "context: k3s",
        "how what is there differs from `off`:",
        "  image: a -> b",
        "what will be changed of what is there, and put back:",
        "  a change",
        "note:",
        "  who holds it",
    ]


def test_nothing_to_change_needs_no_consent() -> None:
    assert consent(Survey(), given=False) is None


def test_yes_on_the_command_line_is_consent() -> None:
    assert consent(CHANGES, given=True) is None


def test_what_is_no_terminal_cannot_consent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    refused = consent(CHANGES, given=False)
    assert refused is not None and "--yes" in refused and "Nothing was changed" in refused


@pytest.mark.parametrize(
    ("answer", "agreed"), [("y\n", True), ("Yes\n", True), ("n\n", False), ("\n", False), ("", False)]
)
def test_a_terminal_is_asked(monkeypatch: pytest.MonkeyPatch, answer: str, agreed: bool) -> None:
    asked = Terminal()
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    monkeypatch.setattr("sys.stderr", asked)
    assert (consent(CHANGES, given=False) is None) is agreed
    assert "[y/N]" in asked.getvalue()


class Surveyed(EmbeddedTarget):
    """The embedded target, at a place where something was found."""

    found = Survey()

    def survey(self, _: Any) -> Survey:
        return self.found


@pytest.fixture
def surveyed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(choose, "TARGETS", {**choose.TARGETS, "embedded": lambda site, *_: Surveyed(site.embedded)})
    monkeypatch.setattr("runner.cli.inputs.TARGETS", choose.TARGETS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    path = tmp_path / "spec.yaml"
    path.write_text(json.dumps(SPEC))
    return path


@pytest.mark.parametrize(
    ("found", "code", "words"),
    [
        (Survey(problems=["no such cluster"]), ExitCode.INVALID, "run: target embedded: no such cluster"),
        (Survey(refusals=["held by helm"]), ExitCode.REFUSED, "run: target embedded: held by helm"),
        (CHANGES, ExitCode.REFUSED, "say --yes"),
    ],
)
def test_a_run_that_must_not_begin_makes_no_run_directory(
    surveyed: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    found: Survey,
    code: ExitCode,
    words: str,
) -> None:
    monkeypatch.setattr(Surveyed, "found", found)
    assert run_spec.main([str(surveyed)]) == code
    assert words in capsys.readouterr().err
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (Survey(problems=["no such cluster"]), ExitCode.INVALID),
        (Survey(refusals=["held by helm"]), ExitCode.REFUSED),
        (CHANGES, 0),
    ],
)
def test_a_plan_shows_what_would_be_changed_and_asks_nobody(
    surveyed: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    found: Survey,
    code: int,
) -> None:
    monkeypatch.setattr(Surveyed, "found", found)
    assert plan_main([str(surveyed)]) == code
    told = capsys.readouterr()
    for line in [*found.problems, *found.refusals]:
        assert line in told.err
    for line in found.changes:
        assert f"  {line}\n" in told.out
