"""What a server's log says of its start (vLLM 0.26.0 to 0.33.0).

Lines are found by their words, never by their number in the log or in vLLM's source. The process prefix is
optional: 0.26.0 puts it before every line, 0.33.0 before its own logger's lines only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from .log_line import MAX_QUOTE, Line, read_line
from .printed import read_assignments, read_value, whole

MAX_ERRORS: Final = 40
"""Errors that are kept, the earliest ones: they hold the cause."""
_MAX_SEARCH: Final = 4_000  # characters of a message in which words are looked for anywhere
_MAX_PROCESSES: Final = 1_000

ARGUMENTS_LINE: Final = "non-default args"
"""How the line of parsed arguments begins."""
SPECULATIVE_KEY: Final = "speculative_config"
"""The configuration line's word for speculation."""


@dataclass(frozen=True, slots=True)
class Speculative:
    """Speculation as the engine configured it. ``model`` is None for ngram and suffix, as the engine
    prints it."""

    method: str | None
    model: str | None
    tokens: int | None

    def __str__(self) -> str:
        """As the engine's configuration line prints it."""
        return f"method={self.method!r}, model={self.model!r}, num_spec_tokens={self.tokens}"


@dataclass(frozen=True, slots=True)
class LogEvidence:
    """What the log says; a field is None (or an empty tuple) where it does not say.

    ``non_default_args``: argparse destination to parsed value; a value that is no literal is a ``Repr``, one
    that the engine hides is ``"***"``. vLLM prints what differs from its default: absence here is no
    evidence.
    ``engine_config``: the engine's configuration line by top-level key; values as printed, quotes included.
    ``speculative``: of that line; ``speculative_off``: that line says None. Both unset: no such line.
    ``async_scheduling``: the last statement of the log, for the engine's own process speaks last.
    ``async_reason``, ``model_runner_reason``: in the log's words, where it gives one.
    ``max_num_batched_tokens``, ``max_num_scheduled_tokens``: of their log lines (the latter is a warning's).
    ``unsupported_sampling``: request options that the engine says are without effect.
    ``kv_cache_tokens``: tokens; ``max_concurrency``: requests of full length; ``model_memory_gib``: GiB.
    ``startup_complete``: the server said so.
    ``errors``: the engine's last words for a failure: exceptions, argparse errors, lines of level ERROR;
    after the start only what ends the engine, for a refused request is no failure of it; nothing after a
    stop began. ``more_errors``: how many others there were beyond ``MAX_ERRORS``.
    ``cut_lines``: lines of which only the beginning was read (longer than ``MAX_LINE``, or cut on their way here):
    where there are any, an absent field may have stood in one.
    ``quotes``: field name to the line (no time, no process) from which it was read.
    """

    version: str | None = None
    non_default_args: dict[str, Any] | None = None
    engine_config: dict[str, str] | None = None
    speculative: Speculative | None = None
    speculative_off: bool = False
    async_scheduling: Literal["enabled", "disabled"] | None = None
    async_reason: str | None = None
    model_runner: Literal["V1", "V2"] | None = None
    model_runner_reason: str | None = None
    max_num_batched_tokens: int | None = None
    max_num_scheduled_tokens: int | None = None
    unsupported_sampling: tuple[str, ...] = ()
    kv_cache_tokens: int | None = None
    max_concurrency: float | None = None
    model_memory_gib: float | None = None
    startup_complete: bool = False
    errors: tuple[str, ...] = ()
    more_errors: int = 0
    cut_lines: int = 0
    quotes: dict[str, str] = field(default_factory=dict)


# ------------------------------------------------------------------------------------------------------
# Failures

_EXCEPTION: Final = re.compile(r"^(?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception|Exit|Interrupt)(?::\s.*)?$")
_ARGPARSE: Final = re.compile(r"^[\w./-]+(?: [\w-]+)?: error: ")
_VALIDATION: Final = re.compile(r"\d+ validation errors? for ")
_STOP: Final = re.compile(
    r"\[shutdown\] .*(?:shutdown triggered|received signal)|^Shutting down$"
    r"|[Rr]eceived (?:signal )?SIG(?:TERM|INT)"
)
# what ends an engine that was serving
_FATAL: Final = re.compile(
    r"EngineDeadError|EngineCore encountered|Engine core proc|output_handler failed|CUDA error|out of memory"
    r"|OutOfMemoryError|died unexpectedly|[Ff]atal"
)
_ENGINE_PROCESS: Final = re.compile(r"^(?:EngineCore|\w*Worker)")


@dataclass(slots=True)
class _Errors:
    """Errors so far; tracebacks are followed per process, for several may fail at once."""

    found: list[str] = field(default_factory=list)
    more: int = 0
    in_traceback: set[str] = field(default_factory=set)
    validating: dict[str, int] = field(default_factory=dict)
    stopping: bool = False

    def read(self, line: Line, *, serving: bool) -> None:
        self.stopping = self.stopping or bool(_STOP.search(line.message[:_MAX_SEARCH]))
        if self.stopping:
            return
        text = line.message.rstrip()
        if self._belongs_to_validation(line, text):
            return
        if text.startswith("Traceback (most recent call last)"):
            if len(self.in_traceback) < _MAX_PROCESSES:
                self.in_traceback.add(line.process)
        elif line.process in self.in_traceback and (not text or text[0].isspace() or text.startswith("+")):
            return  # a frame
        else:
            ends_traceback = line.process in self.in_traceback
            self.in_traceback.discard(line.process)
            stated = ends_traceback or _EXCEPTION.match(text) or _ARGPARSE.match(text)
            if (stated or line.level in ("ERROR", "CRITICAL")) and text.strip():
                self._add(line, text, serving=serving)

    def _add(self, line: Line, text: str, *, serving: bool) -> None:
        if serving and not (_FATAL.search(text[:_MAX_SEARCH]) or _ENGINE_PROCESS.match(line.process)):
            return  # a refused request
        words = text.strip()[:MAX_QUOTE]
        if words in self.found:
            return
        if len(self.found) >= MAX_ERRORS:
            self.more += 1
            return
        self.found.append(words)
        if _VALIDATION.search(words):
            self.validating[line.process] = len(self.found) - 1

    def _belongs_to_validation(self, line: Line, text: str) -> bool:
        """pydantic tells what is wrong on the indented line after the one that names the model."""
        at = self.validating.pop(line.process, None)
        if at is None or not text[:1].isspace():
            return False
        words = text.strip().partition(" [type=")[0]
        self.found[at] = f"{self.found[at]}: {words}"[:MAX_QUOTE]
        return True

    def listed(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.found))


# ------------------------------------------------------------------------------------------------------
# The whole log

_ARGS: Final = re.compile(r"^non-default args: (\{.*\})\s*$")
_CONFIG: Final = re.compile(r"^Initializing an? \S+ LLM engine \(v([^)]+)\) with config: (.*)$")
_VERSION: Final = re.compile(r"^vLLM (?:API )?server version (\S+?),? |^[\s▀▄█]*[▀▄█]\s+version (\S+)")
_ASYNC_STATE: Final = re.compile(r"^Async(?:hronous)? scheduling is (enabled|disabled)\.?\s*$")
_ASYNC_REASON: Final = re.compile(r"^Async(?:hronous)? scheduling .*\bdisabled\b")
_V2_RUNNER: Final = re.compile(r"^Using V2 Model Runner")
_V1_RUNNER: Final = re.compile(r"^(Model Runner V2 .+); using the V1 model runner instead")
_BATCHED: Final = re.compile(r"^Chunked prefill is enabled with max_num_batched_tokens=(\d+)\.")
_SCHEDULED: Final = re.compile(r"^max_num_scheduled_tokens is set to (\d+) based on the speculative decoding")
_SAMPLING: Final = re.compile(r"^([a-z_]+(?:(?:, | and )[a-z_]+)*) parameters won't work with speculative decoding")
_KV_TOKENS: Final = re.compile(r"^[\w+ ]*KV cache size: ([\d,]+) tokens")
_CONCURRENCY: Final = re.compile(r"(?:^|, )Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x")
_WEIGHTS: Final = re.compile(r"^Model loading took ([\d.]+) GiB(?: memory)? and [\d.]+ seconds")
_COMPLETE: Final = re.compile(r"^Application startup complete\.")


@dataclass(slots=True)
class _Reader:
    """The evidence so far."""

    fields: dict[str, Any] = field(default_factory=dict)
    quotes: dict[str, str] = field(default_factory=dict)
    errors: _Errors = field(default_factory=_Errors)
    explicit_runner: bool = False
    cut_lines: int = 0

    def put(self, name: str, value: object, line: Line) -> None:
        self.fields[name] = value
        self.quotes[name] = line.quote

    def read(self, line: Line) -> None:
        self.cut_lines += line.cut
        serving = "startup_complete" in self.fields
        # a serving engine logs what its clients send: no evidence but the line of another start
        for pattern, take in _TAKERS[:1] if serving else _TAKERS:
            if found := pattern.search(line.message):
                take(self, found, line)
        if not serving:
            self._loader(line)
        self.errors.read(line, serving=serving)

    def _loader(self, line: Line) -> None:
        """The runner by the file that loads the model: where an environment variable chose it, no line
        tells."""
        if self.explicit_runner or line.level != "INFO":
            return
        if line.message.startswith("Starting to load model") and line.file.endswith("_model_runner.py"):
            self.put("model_runner", "V1", line)
        elif line.message.startswith("Loading model from scratch") and line.file.endswith("model_runner.py"):
            self.put("model_runner", "V2", line)

    def evidence(self) -> LogEvidence:
        return LogEvidence(
            **self.fields,
            errors=self.errors.listed(),
            more_errors=self.errors.more,
            cut_lines=self.cut_lines,
            quotes=self.quotes,
        )


def _take_args(reader: _Reader, found: re.Match[str], line: Line) -> None:
    if "non_default_args" in reader.fields:
        # the same log goes on with another start: nothing of the one before holds
        version = {key: value for key, value in reader.fields.items() if key == "version"}
        reader.fields, reader.quotes = version, {key: reader.quotes[key] for key in version}
        reader.errors, reader.explicit_runner = _Errors(), False
    parsed = None if line.cut else read_value(found[1])
    if isinstance(parsed, dict):
        reader.put("non_default_args", parsed, line)


def _take_config(reader: _Reader, found: re.Match[str], line: Line) -> None:
    reader.put("version", found[1], line)
    if line.cut or not whole(found[2]):
        return
    config = read_assignments(found[2])
    reader.put("engine_config", config, line)
    printed = config.get(SPECULATIVE_KEY)
    if printed is None:
        return
    reader.fields["speculative_off"] = printed == "None"
    reader.quotes["speculative"] = f"{SPECULATIVE_KEY}={printed}"[:MAX_QUOTE]
    if inner := re.fullmatch(r"\w+\((.*)\)", printed):
        values = {key: read_value(value) for key, value in read_assignments(inner[1]).items()}
        tokens = values.get("num_spec_tokens", values.get("num_speculative_tokens"))
        reader.fields["speculative"] = Speculative(
            _text(values.get("method")),
            _text(values.get("model")),
            tokens if isinstance(tokens, int) else None,
        )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _take_version(reader: _Reader, found: re.Match[str], line: Line) -> None:
    reader.put("version", found[1] or found[2], line)


def _take_async_state(reader: _Reader, found: re.Match[str], line: Line) -> None:
    reader.put("async_scheduling", found[1], line)
    if found[1] == "enabled":
        reader.fields.pop("async_reason", None)
        reader.quotes.pop("async_reason", None)


def _take_async_reason(reader: _Reader, found: re.Match[str], line: Line) -> None:
    if _ASYNC_STATE.search(line.message):
        return
    reader.put("async_scheduling", "disabled", line)
    reader.put("async_reason", found.string.strip(), line)


def _take_v2(reader: _Reader, found: re.Match[str], line: Line) -> None:
    reader.explicit_runner = True
    reader.put("model_runner", "V2", line)


def _take_v1(reader: _Reader, found: re.Match[str], line: Line) -> None:
    reader.explicit_runner = True
    reader.put("model_runner", "V1", line)
    reader.put("model_runner_reason", found[1], line)


def _take_sampling(reader: _Reader, found: re.Match[str], line: Line) -> None:
    reader.put("unsupported_sampling", tuple(re.split(r", | and ", found[1])), line)


def _take_complete(reader: _Reader, found: re.Match[str], line: Line) -> None:
    reader.put("startup_complete", True, line)


_Taker = Callable[[_Reader, re.Match[str], Line], None]


def _number(name: str, kind: Callable[[str], float]) -> _Taker:
    def take(reader: _Reader, found: re.Match[str], line: Line) -> None:
        reader.put(name, kind(found[1].replace(",", "").rstrip(".")), line)

    return take


_TAKERS: Final[tuple[tuple[re.Pattern[str], _Taker], ...]] = (
    (_ARGS, _take_args),
    (_CONFIG, _take_config),
    (_VERSION, _take_version),
    (_ASYNC_STATE, _take_async_state),
    (_ASYNC_REASON, _take_async_reason),
    (_V2_RUNNER, _take_v2),
    (_V1_RUNNER, _take_v1),
    (_BATCHED, _number("max_num_batched_tokens", int)),
    (_SCHEDULED, _number("max_num_scheduled_tokens", int)),
    (_SAMPLING, _take_sampling),
    (_KV_TOKENS, _number("kv_cache_tokens", int)),
    (_CONCURRENCY, _number("max_concurrency", float)),
    (_WEIGHTS, _number("model_memory_gib", float)),
    (_COMPLETE, _take_complete),
)


def read_log(lines: Iterable[str]) -> LogEvidence:
    """Read a log, whole or so far, by its lines; never raises on its content.

    An item may hold several lines. Where one log holds several starts, the last one is told.
    """
    reader = _Reader()
    for item in lines:
        for raw in item.split("\n"):
            reader.read(read_line(raw))
    return reader.evidence()
