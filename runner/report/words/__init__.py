"""Every word of a report, in both languages, in one place: one module a subject, Korean first."""

from collections.abc import Mapping
from typing import Any, Final

from runner.engine.verdict import Verdict
from runner.report.words.findings import FINDINGS
from runner.report.words.notes import NOTES
from runner.report.words.tables import TABLES
from runner.report.words.verdicts import VERDICTS

KO, EN = 0, 1
LANGUAGES: Final = ("ko", "en")

ALL_WORDS: Final[Mapping[str, tuple[str, str]]] = {**TABLES, **FINDINGS, **NOTES, **VERDICTS}

_REQUEST_VERDICTS: Final[Mapping[Verdict, tuple[str, str]]] = {
    Verdict.OK: ("정상", "ok"),
    Verdict.HTTP_ERROR: ("HTTP 오류", "HTTP error"),
    Verdict.IN_BAND_ERROR: ("본문 속 오류", "in-band error"),
    Verdict.TRUNCATED: ("잘림", "truncated"),
    Verdict.EMPTY: ("빈 응답", "empty"),
    Verdict.WRONG_MODEL: ("다른 모델", "wrong model"),
    Verdict.MALFORMED: ("형식 오류", "malformed"),
    Verdict.TIMED_OUT: ("시간 초과", "timed out"),
    Verdict.REFUSED: ("연결 거부", "refused"),
    Verdict.RESET: ("연결 끊김", "reset"),
    Verdict.INTERRUPTED: ("중단됨", "interrupted"),
}


class Words:
    """The words of one language. Raises KeyError for a word that does not exist, ValueError for the language."""

    def __init__(self, language: str) -> None:
        self._index = LANGUAGES.index(language)
        self.language = language

    def __call__(self, key: str, **figures: Any) -> str:
        """The word for `key`, its gaps filled."""
        return ALL_WORDS[key][self._index].format(**figures) if figures else ALL_WORDS[key][self._index]

    def has(self, key: str) -> bool:
        """Whether there is such a word."""
        return key in ALL_WORDS

    def trouble(self, kind: str) -> str:
        """The word for what went wrong while a round ran: a verdict, or that nothing came."""
        return self.verdict(kind) if kind in _REQUEST_VERDICTS else self(kind)

    def verdict(self, verdict: str) -> str:
        """The word for a request's verdict."""
        return _REQUEST_VERDICTS[Verdict(verdict)][self._index]
