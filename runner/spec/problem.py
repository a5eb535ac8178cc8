"""What is wrong with a file: each problem at its place, all of them at once."""

from collections.abc import Sequence
from dataclasses import dataclass

Path = tuple[str | int, ...]
"""The way from the document's root to a key: ("conditions", "on", "args")."""


@dataclass(frozen=True, slots=True)
class Position:
    """Line and column, both counted from 1, as editors do."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Problem:
    """One error: the key's path, its place, and what to do."""

    path: Path
    position: Position
    message: str


class SpecError(Exception):
    """A file that cannot be used. Its text is one line per problem: `FILE:LINE:COLUMN: KEY: MESSAGE`."""

    def __init__(self, file: str, problems: Sequence[Problem]) -> None:
        self.file = file
        self.problems = sorted(set(problems), key=lambda p: (p.position.line, p.position.column, p.message))
        super().__init__("\n".join(self._line(problem) for problem in self.problems))

    def _line(self, problem: Problem) -> str:
        key = dotted(problem.path)
        place = f"{self.file}:{problem.position.line}:{problem.position.column}"
        return f"{place}: {key}: {problem.message}" if key else f"{place}: {problem.message}"


def dotted(path: Path) -> str:
    """`("prompts", "a", "messages", 0)` as `prompts.a.messages[0]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
