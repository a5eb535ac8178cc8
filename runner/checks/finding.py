"""What a check says: a judgement, the reason, the figures."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Judgement(StrEnum):
    """`inconclusive` is what cannot be known from this record; `not-applicable` what the experiment does not have."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    NOT_APPLICABLE = "not-applicable"


@dataclass(frozen=True, slots=True)
class Finding:
    """One statement of a check.

    `reason` is a key of the report's words and `figures` fill its gaps; `subject` says what it is about (a
    condition, a round). A check gives one finding per thing it found, and at least one.
    """

    judgement: Judgement
    reason: str
    figures: dict[str, Any] = field(default_factory=dict)
    subject: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """A check's findings and the judgement that they add up to."""

    check: str
    findings: tuple[Finding, ...]
    parameters: dict[str, Any]
    allow_inconclusive: bool

    @property
    def judgement(self) -> Judgement:
        """The worst of the findings: one failure fails, one unknown leaves it open."""
        return worst(finding.judgement for finding in self.findings)


_ORDER = (Judgement.FAIL, Judgement.INCONCLUSIVE, Judgement.PASS)


def worst(judgements: Iterable[Judgement]) -> Judgement:
    """fail over inconclusive over pass; not-applicable only when nothing else was said."""
    seen = set(judgements)
    return next((judgement for judgement in _ORDER if judgement in seen), Judgement.NOT_APPLICABLE)
