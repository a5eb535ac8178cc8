"""Words: every key that the code uses exists, in both languages, with the same gaps."""

import re
from pathlib import Path
from string import Formatter

import pytest
from journals import make_plan

import runner
from runner.checks.outcome import PRECEDENCE
from runner.engine.verdict import Verdict
from runner.report import words as module
from runner.report.words import Words
from runner.spec.invariants import Invariants
from runner.spec.strict import kebab

PACKAGE = Path(runner.__file__).parent
ALL = module.ALL_WORDS


def gaps(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


@pytest.mark.parametrize("key", ALL)
def test_both_languages_have_the_same_gaps(key: str) -> None:
    korean, english = ALL[key]
    assert korean and english
    assert gaps(korean) == gaps(english)


def test_every_reason_in_the_code_has_words() -> None:
    used: set[str] = set()
    for folder in ("analysis", "checks", "report"):
        for path in (PACKAGE / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            used |= set(re.findall(r'Absent\(\s*"([a-z-]+)"', text))
            used |= set(re.findall(r'Finding\(\s*[A-Za-z_.]+(?: if [^,]+)?,\s*"([a-z-]+)"', text))
            used |= set(re.findall(r"""\bwords\(\s*["']([a-z.-]+[a-z])["']""", text))
    assert len(used) > 100
    assert {key for key in used if key not in ALL} == set()


def test_every_word_is_used() -> None:
    code = "".join(
        path.read_text(encoding="utf-8")
        for path in PACKAGE.rglob("*")
        if path.suffix == ".py" and "words" not in path.parts
    ) + (PACKAGE.parent / "templates" / "report.md.j2").read_text(encoding="utf-8")
    families = (
        "table.",
        "feature.",
        "nature.",
        "status.",
        "judgement.",
        "check.",
        "exit.",
        "in-force.",
        "note-step-",
        "term.",
        "meaning.",
    )
    assert [
        key for key in ALL if not re.search(rf"['\"]{re.escape(key)}['\"]", code) and not key.startswith(families)
    ] == []


def test_families_are_complete() -> None:
    words = Words("en")
    for name in Invariants.model_fields:
        assert words(f"check.{kebab(name)}")
    for code in PRECEDENCE:
        assert words(f"exit.{int(code)}")
    for verdict in Verdict:
        assert words.verdict(verdict.value)


def test_an_unknown_language_or_word_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not in tuple"):
        Words("fr")
    with pytest.raises(KeyError):
        Words("en")("no such word")
    assert make_plan(tmp_path).language == "en"
