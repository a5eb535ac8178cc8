"""What a table is, and the registry of tables."""

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from runner.analysis.confounding import Difference
from runner.checks.finding import Result
from runner.checks.outcome import allowed_inconclusive
from runner.exit_code import ExitCode
from runner.record.record import Record
from runner.report.markdown import code, escape
from runner.report.numbers import Numbers
from runner.report.words import Words


@dataclass(frozen=True, slots=True)
class Table:
    """One table: cells are Markdown. `key` names its title among the words; `subject` is added to the title."""

    key: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    aligns: Sequence[str] = ()
    notes: Sequence[str] = ()
    subject: str = ""

    @property
    def alignment(self) -> list[str]:
        """Per column; by default the first to the left and the figures to the right."""
        return list(self.aligns) or ["left", *["right"] * (len(self.columns) - 1)]


@dataclass(frozen=True)
class Source:
    """What a table is a function of."""

    record: Record
    results: Sequence[Result]
    words: Words
    numbers: Numbers = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", Numbers(self.words))

    def meaning(self, code: ExitCode) -> str:
        """An exit code in words."""
        return code_meaning(self.words, code, self.results)

    def feature(self, name: str) -> str:
        """A side feature's name in words, safe in a cell."""
        key = f"feature.{name}"
        return self.words(key) if self.words.has(key) else escape(name)

    def confounder(self, one: Difference) -> str:
        """What confounds a comparison, and whether it is only said to."""
        name = self.feature(one.feature)
        return self.words("feature-unseen", feature=name) if one.status == "unseen" else name

    def named(self, arm: str) -> str:
        """An arm's label as inline code, for a sentence."""
        return code(self.record.plan.arm(arm).label)

    def label(self, arm: str) -> str:
        """An arm's label, safe in a cell."""
        return escape(self.record.plan.arm(arm).label)


def code_meaning(words: Words, code: ExitCode, results: Sequence[Result]) -> str:
    """An exit code in words; 0 names the checks that could not be judged and were allowed to be so."""
    allowed = allowed_inconclusive(results)
    if code is ExitCode.HELD and allowed:
        return words("exit.0-allowed", names=", ".join(allowed))
    return words(f"exit.{int(code)}")


TableFunction = Callable[[Source], list[Table]]

TABLES: dict[str, TableFunction] = {}


def table(name: str) -> Callable[[TableFunction], TableFunction]:
    """Register a table function under its id. It returns no table where the record has nothing for it."""

    def register(function: TableFunction) -> TableFunction:
        if name in TABLES:
            raise ValueError(f"two tables are called {name}")
        TABLES[name] = function
        return function

    return register


def load_tables() -> None:
    """Import every table's module, so that each registers itself."""
    package = importlib.import_module("runner.report.tables")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
