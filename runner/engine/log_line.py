"""One line of a server's log: what stands before the message, whoever put it there, and what kind of line it is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

MAX_LINE: Final = 262_144
"""Characters of a line that are read. A longer one is cut, and no arguments or configuration are read from
it."""
MAX_QUOTE: Final = 1_000
"""Characters of a line that are quoted."""

_ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
# `docker compose logs` and `kubectl logs --prefix`
_SOURCE: Final = re.compile(r"\[pod/[^\]\s]{1,400}\] |[\w.-]{1,100} +\| ")
# `kubectl logs --timestamps`, and a node's own log file with stream and tag; tag P: the runtime cut the line
_TIME: Final = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d) (?:std(?:out|err) ([FP])(?: |$))?"
)
_PROCESS: Final = re.compile(r"\(([^()]{0,200}?) pid=\d+\) ?")
# whatever VLLM_LOGGING_PREFIX put before it
_HEADER: Final = re.compile(
    r"(?:^|.{0,200}?\s)(DEBUG|INFO|WARNING|ERROR|CRITICAL)\s+"
    r"\d\d-\d\d \d\d:\d\d:\d\d\S* \[([^\]:\s]+)(?::\d+)?\] ?"
)
# uvicorn pads its level to nine characters
_PLAIN_LEVEL: Final = re.compile(r"(?:^|.{0,200}?\s)(?:(INFO):     |(WARNING):  |(ERROR):    |(CRITICAL): )(?! )")


class LineKind(StrEnum):
    """Who wrote a line."""

    LOGGER = "vLLM's logger"
    SERVER = "HTTP server"
    RECORD = "JSON formatter"
    TRACEBACK = "traceback outside the logger"
    COMMAND_LINE = "command line's parser"
    WARNING = "Python warning"
    LIBRARY = "library's own logger"
    PROGRESS = "progress bar"
    BLANK = "blank"
    FOREIGN = "nobody known"


@dataclass(frozen=True, slots=True)
class Line:
    """One log line: ``process`` (``""`` if it has none), ``level``, ``file`` and the message.

    ``cut``: only its beginning is here. ``kind``: by this line alone; ``LineKinds`` knows the ones before.
    """

    process: str
    level: str
    file: str
    message: str
    cut: bool = False
    kind: LineKind = LineKind.FOREIGN

    @property
    def quote(self) -> str:
        """The line without time and process, for a reader."""
        place = f"[{self.file}]" if self.file else ""
        words = " ".join(part for part in (self.level, place, self.message.strip()) if part)
        return words if len(words) <= MAX_QUOTE else words[: MAX_QUOTE - 1] + "…"


def read_line(raw: str) -> Line:
    """Take one line apart; any text is a line."""
    cut = len(raw) > MAX_LINE
    text = _ANSI.sub("", raw[:MAX_LINE]).strip("\r\n")
    if found := _SOURCE.match(text):
        text = text[found.end() :]
    if found := _TIME.match(text):
        text, cut = text[found.end() :], cut or found[1] == "P"
    if text.startswith("{"):
        return _json_line(text, cut)
    process = ""
    if found := _PROCESS.match(text):
        process, text = found[1], text[found.end() :].lstrip("\r")
    if found := _HEADER.match(text):
        inner = _PROCESS.search(text, 0, found.start(1))
        process = inner[1] if inner and not process else process
        return Line(process, found[1], found[2], text[found.end() :], cut, LineKind.LOGGER)
    if found := _PLAIN_LEVEL.match(text):
        level = found[found.lastindex or 0]
        return Line(process, level, "", text[found.end() :], cut, LineKind.SERVER)
    return Line(process, "", "", text, cut, _kind(text))


_ACCESS: Final = re.compile(r'\S+:\d+ - "[A-Z]+ \S+ HTTP/[\d.]+" \d{3}')


def is_access(raw: str) -> bool:
    """Whether a line says that the HTTP server answered a request, and nothing else."""
    line = read_line(raw)
    return line.kind is LineKind.SERVER and _ACCESS.match(line.message) is not None


def _json_line(text: str, cut: bool) -> Line:
    """A line of a JSON formatter or of Docker's log file, by the usual field names; other JSON is a plain line."""
    plain = Line("", "", "", text, cut)
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return plain
    if not isinstance(fields, dict):
        return plain
    if isinstance(fields.get("log"), str) and {"stream", "time"} <= fields.keys():
        inner = fields["log"]
        # the runtime cuts long lines: then the end of the line is missing
        return plain if inner.startswith("{") else replace(read_line(inner), cut=cut or not inner.endswith("\n"))
    message = fields.get("message", fields.get("msg"))
    if not isinstance(message, str):
        return plain

    def word(*names: str) -> str:
        return next((str(fields[name]) for name in names if name in fields), "")

    level = word("level", "levelname").upper()
    process = word("process", "process_name", "vllm_process_name")
    return Line(process, level, word("file", "filename"), message, cut, LineKind.RECORD)


# ------------------------------------------------------------------------------------------------------
# Lines without a header

_KINDS: Final[tuple[tuple[re.Pattern[str], LineKind], ...]] = (
    (re.compile(r"\s*$"), LineKind.BLANK),
    (re.compile(r"Traceback \(most recent call last\)"), LineKind.TRACEBACK),
    # multiprocessing, before the traceback of a child that died
    (re.compile(r"Process [\w-]{1,200}:$"), LineKind.TRACEBACK),
    (re.compile(r"usage: |[\w./-]{1,200}(?: [\w-]{1,200})?: error: "), LineKind.COMMAND_LINE),
    # a glog header, with or without a bracket or a rank before it, a library's C++ and Python sides
    (re.compile(r"(?:\[rank\d{1,6}\]:)?\[?[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ "), LineKind.LIBRARY),
    (re.compile(r"\S{1,400}:\d+: \w*Warning: "), LineKind.WARNING),
    (re.compile(r".{0,200}?\d{1,3}% ?(?:Completed ?)?\|.{0,200}\[\d\d:\d\d"), LineKind.PROGRESS),
)


def _kind(text: str) -> LineKind:
    return next((kind for pattern, kind in _KINDS if pattern.match(text)), LineKind.FOREIGN)


_GOES_ON: Final = frozenset({LineKind.TRACEBACK, LineKind.COMMAND_LINE, LineKind.WARNING})
_MAX_PROCESSES: Final = 1_000


class LineKinds:
    """Kinds of successive lines: a traceback's frames, a usage text and a warning's source line are indented and
    have no mark of their own. Followed per process, for several write at once. A traceback ends with its exception,
    whose further lines are indented."""

    def __init__(self) -> None:
        self._before: dict[str, LineKind] = {}
        self._raised: set[str] = set()

    def of(self, line: Line) -> LineKind:
        """The kind of the next line."""
        kind = line.kind
        before = self._before.get(line.process)
        if kind in (LineKind.FOREIGN, LineKind.BLANK) and before in _GOES_ON:
            if line.message[:1].isspace():
                return before
            if before is LineKind.TRACEBACK and kind is LineKind.FOREIGN and line.process not in self._raised:
                self._raised.add(line.process)
                return before
        if len(self._before) >= _MAX_PROCESSES:
            self._before.clear()
            self._raised.clear()
        self._before[line.process] = kind
        self._raised.discard(line.process)
        return kind


MAX_NAMED: Final = 20
"""Foreign lines whose numbers are kept; the count goes on."""


@dataclass(frozen=True, slots=True)
class Lines:
    """What a log consists of. ``total``: its lines; ``kinds``: how many of each kind, their sum is ``total``;
    ``foreign``: number (from 1) and quote of the first ``MAX_NAMED`` lines that no rule assigns; ``cut``: numbers of
    the first ``MAX_NAMED`` lines of which only the beginning was read."""

    total: int
    kinds: dict[LineKind, int]
    foreign: tuple[tuple[int, str], ...]
    cut: tuple[int, ...]


def survey(lines: Iterable[str]) -> Lines:
    """Assign every line of a log to its writer. Memory does not grow with the log."""
    kinds = LineKinds()
    counts = dict.fromkeys(LineKind, 0)
    foreign: list[tuple[int, str]] = []
    cut: list[int] = []
    total = 0
    for number, raw in enumerate(lines, 1):
        line, total = read_line(raw), number
        kind = kinds.of(line)
        counts[kind] += 1
        if kind is LineKind.FOREIGN and len(foreign) < MAX_NAMED:
            foreign.append((number, line.quote))
        if line.cut and len(cut) < MAX_NAMED:
            cut.append(number)
    return Lines(total, counts, tuple(foreign), tuple(cut))


def whole_lines(text: str) -> tuple[list[str], bool]:
    """The lines of a log file, and whether a last one without its end was left out: half a figure looks like one."""
    *lines, last = text.split("\n")
    return lines, bool(last.strip("\r"))
