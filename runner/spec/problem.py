"""What is wrong with a file: each problem at its place, all of them at once."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runner.engine.arguments import WrittenFloat

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
        # what an alias repeats stands in one place and is one problem
        once = {(problem.position, problem.message): problem for problem in reversed(problems)}
        self.problems = sorted(once.values(), key=lambda p: (p.position.line, p.position.column, p.message))
        super().__init__("\n".join(self._line(problem) for problem in self.problems))

    def _line(self, problem: Problem) -> str:
        key = dotted(problem.path)
        place = f"{self.file}:{problem.position.line}:{problem.position.column}"
        line = f"{place}: {key}: {problem.message}" if key else f"{place}: {problem.message}"
        # a file's own control characters must neither break the line nor reach the terminal
        return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in line)


def dotted(path: Path) -> str:
    """`("prompts", "a", "messages", 0)` as `prompts.a.messages[0]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{short(part)}" if text else short(part)
    return text


def short(text: str) -> str:
    """The text on one line, cut where nobody would read on."""
    line = " ".join(text.split())
    return line if len(line) <= 80 else f"{line[:77]}..."


def shown(value: object) -> str:
    """A value as YAML would spell it, for a message."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case WrittenFloat():
            return value.text
        case str():
            return json.dumps(value if len(value) <= 80 else f"{value[:77]}...", ensure_ascii=False)
        case Mapping():
            return "a mapping"
        case list():
            return "a list"
        case _:
            return str(value)
