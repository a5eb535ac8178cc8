"""What a saved file is, by its content, and what the readers find in it. Names and suffixes decide nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from . import metrics
from .chat import read_reply
from .exposition import Exposition, ExpositionError, parse
from .facts import Fact, log_facts, reply_facts, scrape_facts, server_info_facts, token_counts
from .log import ARGUMENTS_LINE, read_log
from .log_line import LineKind, read_line, survey, whole_lines
from .reply import Reply, load_json, one_line
from .server_info import ServerInfoError, read_server_info
from .socket_reads import SocketReadsError, http_answer
from .stream import events, read_stream
from .verdict import Verdict

MAX_RECORDING: Final = 256 * 1024 * 1024
"""Bytes of a file that is read."""
MAX_FAULTS: Final = 20
"""Faults of a file that are told one by one."""


class Kind(StrEnum):
    """What a file holds."""

    LOG = "log"
    SCRAPE = "scrape"
    REPLIES = "replies"
    STREAMS = "streams"
    SERVER_INFO = "server info"
    MODELS = "models"
    VERSION = "version"
    ANSWERS = "answers"


@dataclass(frozen=True, slots=True)
class Fault:
    """What could not be read; ``line`` counts from 1."""

    line: int
    words: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What a file holds. Read completely: ``faults`` is empty.

    ``size``: its extent in words. ``facts``: of a log, a scrape or a server info; of replies and streams, those of
    the first. ``replies``: every reply, plain or streamed. ``notes``: what a reader should know and that is no fault.
    """

    kind: Kind
    size: str
    facts: tuple[Fact, ...] = ()
    faults: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()
    replies: tuple[Reply, ...] = ()
    scrape: Exposition | None = field(default=None, repr=False)


_STREAM: Final = re.compile(r"(?:data|event|id|retry)?: ?")
_SAMPLE: Final = re.compile(
    r"# (?:HELP|TYPE|EOF)\b|[A-Za-z_:][\w:]*(?:\{.*\})? [+-]?(?:[\d.]+(?:e[+-]?\d+)?|Inf|NaN)\s"
)
_JSON: Final = re.compile(r'\{\s*(?:["}]|$)|\[\s*(?:[\[{"\]\d-]|$)')
_LOOK: Final = 2_000  # lines in which a log must show a header


def read_recording(data: bytes) -> Reading | None:
    """What is in a file; None where it is nothing that an engine says. Never raises on its content."""
    if len(data) > MAX_RECORDING:
        return None
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    start = text.lstrip()
    if _JSON.match(start) and (found := _json(text)) is not _NO_JSON:
        return found
    if start.startswith("HTTP/1."):
        return _answers([(1, data)], Kind.REPLIES)
    first = start.partition("\n")[0]
    if _STREAM.match(first) and first.partition(":")[0] in ("data", "event", "id", "retry", ""):
        return _streams([_raw_stream(data)])
    lines, cut = whole_lines(text)
    if any(read_line(line).kind in (LineKind.LOGGER, LineKind.SERVER) for line in lines[:_LOOK]):
        return _log(lines, cut=cut)
    if _SAMPLE.match(first):
        return _scrape(text)
    return _broken_json(text) if _JSON.match(start) else None


# ------------------------------------------------------------------------------------------------------
# Logs and scrapes


def _log(lines: list[str], *, cut: bool) -> Reading:
    found = survey(lines)
    kinds = ", ".join(f"{count} {kind}" for kind, count in found.kinds.items() if count)
    notes = tuple(f"line {number} is nobody's that is known here: {words[:200]}" for number, words in found.foreign)
    faults = [Fault(number, "the line is cut: only its beginning was read") for number in found.cut]
    if cut:
        faults.append(Fault(len(lines) + 1, "the last line has no end and was not read"))
    evidence = read_log(lines)
    for words, value in (
        (f"{ARGUMENTS_LINE}: {{", evidence.non_default_args),
        (" with config: ", evidence.engine_config),
    ):
        last = max((number for number, line in enumerate(lines, 1) if words in line), default=None)
        if value is None and last is not None and last not in found.cut:
            faults.append(Fault(last, f"what stands after '{words.strip(' {:')}' is not whole, and was not read"))
    return Reading(Kind.LOG, f"{found.total} lines: {kinds}", tuple(log_facts(evidence)), tuple(faults), notes)


def _scrape(text: str) -> Reading:
    try:
        scrape = parse(text)
    except ExpositionError as error:
        line = re.search(r"line (\d+)", str(error))
        return Reading(Kind.SCRAPE, "not read", faults=(Fault(int(line[1]) if line else 1, str(error)),))
    strangers = sorted({name for name, _ in scrape.series if metrics.stranger(name)})
    notes = (f"names of vLLM's that are not known here: {', '.join(strangers)}",) if strangers else ()
    size = f"{len(scrape.series)} samples of {len(scrape.types)} families"
    return Reading(Kind.SCRAPE, size, tuple(scrape_facts(scrape)), notes=notes, scrape=scrape)


# ------------------------------------------------------------------------------------------------------
# JSON: one document, or one a line

_NO_JSON: Final = Reading(Kind.REPLIES, "not read")


def _json(text: str) -> Reading | None:
    """A document, or one a line; ``_NO_JSON`` where not even the first line is any."""
    try:
        return _document(load_json(text), text)
    except ValueError:
        lines = text.split("\n")
    try:
        first = load_json(next(line for line in lines if line.strip()))
    except ValueError:
        return _NO_JSON
    return _json_lines(first, lines)


def _broken_json(text: str) -> Reading:
    try:
        load_json(text)
        words = "no JSON"
    except ValueError as error:
        words = one_line(str(error))
    place = re.search(r"line (\d+)", words)
    return Reading(
        Kind.REPLIES, "not read", faults=(Fault(int(place[1]) if place else 1, f"cut or broken JSON: {words}"),)
    )


def _document(found: object, text: str) -> Reading | None:
    """One whole JSON document."""
    if not isinstance(found, Mapping):
        return None
    if "vllm_config" in found:
        return _server_info(text)
    if _is_reply(found):
        return _replies([(1, 200, text.encode("utf-8", "replace"))])
    if _is_answer(found):
        inner = _body(found["body"])
        if found["status"] == 200 and (of := read_recording(inner)) is not None:
            return of
        return _replies([(1, found["status"], inner)])
    if found and all(isinstance(value, Mapping) and type(value.get("status")) is int for value in found.values()):
        return _answers_by_name(found)
    if found.get("object") == "list" and isinstance(found.get("data"), list):
        names = [str(item.get("id")) for item in found["data"] if isinstance(item, Mapping)]
        return Reading(Kind.MODELS, f"{len(names)} models", (Fact("models", ", ".join(names)),))
    if isinstance(found.get("version"), str) and found.keys() <= {"version", "simulated"}:
        return Reading(Kind.VERSION, "one version", (Fact("version", found["version"]),))
    return _json_lines(found, text.split("\n")) if "\n" not in text.strip() else None


def _answers_by_name(found: Mapping[str, Mapping[str, Any]]) -> Reading:
    """Answers of several paths or requests, each with its status and (most of them) its body."""
    if all(answer["status"] != 200 for answer in found.values()):
        return _replies([(1, answer["status"], _body(answer.get("body", ""))) for answer in found.values()])
    facts: list[Fact] = []
    for name, answer in found.items():
        inner = read_recording(_body(answer.get("body", ""))) if answer["status"] == 200 else None
        facts.append(Fact(name, f"HTTP {answer['status']}"))
        facts += inner.facts if inner is not None else ()
    return Reading(Kind.ANSWERS, f"{len(found)} answers", tuple(facts))


def _json_lines(first: object, lines: list[str]) -> Reading | None:
    if not isinstance(first, Mapping):
        return None
    filled = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if _is_reply(first):
        return _replies([(number, 200, line.encode("utf-8", "replace")) for number, line in filled])
    if isinstance(first.get("reads"), list):
        return _answers(filled, Kind.STREAMS)
    if isinstance(first.get("data"), str) and "t" in first:
        return _answers([(1, "\n".join(line for _, line in filled))], Kind.STREAMS)
    if isinstance(first.get("message", first.get("msg", first.get("log"))), str):
        whole, cut = whole_lines("\n".join(lines))
        return _log(whole, cut=cut)
    return None


def _is_reply(found: Mapping[str, Any]) -> bool:
    return isinstance(found.get("choices"), list) or "error" in found or found.get("object") == "error"


def _is_answer(found: Mapping[str, Any]) -> bool:
    return type(found.get("status")) is int and "body" in found


def _body(found: object) -> bytes:
    return (found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)).encode("utf-8", "replace")


def _server_info(text: str) -> Reading:
    try:
        info = read_server_info(text)
    except ServerInfoError as error:
        return Reading(Kind.SERVER_INFO, "not read", faults=(Fault(1, str(error)),))
    return Reading(Kind.SERVER_INFO, "one document", tuple(server_info_facts(info)))


# ------------------------------------------------------------------------------------------------------
# Replies and streams

_UNREADABLE: Final = (Verdict.TRUNCATED, Verdict.MALFORMED)


def _replies(bodies: list[tuple[int, int, bytes]]) -> Reading:
    """Plain replies: line, status and body of each."""
    found: list[tuple[int, Reply]] = []
    for line, status, body in bodies:
        reply = read_reply(status, "application/json", body, model="")
        named = reply if reply.model is None else read_reply(status, "application/json", body, model=reply.model)
        found.append((line, named))
    return _told(Kind.REPLIES, found, _counted(len(found), "plain reply", "plain replies"))


@dataclass(frozen=True, slots=True)
class _Stream:
    line: int
    status: int
    content_type: str | None
    chunks: list[tuple[int, bytes]]
    stamped: bool


def _raw_stream(data: bytes) -> _Stream:
    return _Stream(1, 200, "text/event-stream", [(0, data)], stamped=False)


def _answers(records: list[tuple[int, str]] | list[tuple[int, bytes]], kind: Kind) -> Reading:
    """HTTP answers as a socket gave them, one a record: streams, or plain replies with their head."""
    streams: list[_Stream] = []
    faults: list[Fault] = []
    for line, record in records:
        try:
            answer = http_answer(record)
        except SocketReadsError as error:
            faults.append(Fault(line + error.line - 1, str(error)))
            continue
        if kind is Kind.REPLIES and "event-stream" not in (answer.content_type or ""):
            inner = read_recording(b"".join(data for _, data in answer.chunks)) if answer.status == 200 else None
            return inner or _replies([(line, answer.status, b"".join(data for _, data in answer.chunks))])
        streams.append(_Stream(line, answer.status, answer.content_type, answer.chunks, answer.stamped))
    told = _streams(streams)
    return replace(told, faults=(*faults, *told.faults)[:MAX_FAULTS])


def _streams(streams: list[_Stream]) -> Reading:
    found: list[tuple[int, Reply]] = []
    for one in streams:
        reply = read_stream(one.status, one.content_type, one.chunks, ended=True, model="")
        if reply.model is not None:
            reply = read_stream(one.status, one.content_type, one.chunks, ended=True, model=reply.model)
        if not one.stamped:
            # when the bytes came is not in the file: only that they came
            reply = replace(reply, first_token_ns=None, last_token_ns=None)
        found.append((one.line if len(streams) > 1 or one.stamped else _broken_line(one, reply), reply))
    total = sum(1 for one in streams for _ in events(b"".join(data for _, data in one.chunks)))
    return _told(Kind.STREAMS, found, f"{_counted(len(found), 'stream', 'streams')} of {total} events")


def _broken_line(stream: _Stream, reply: Reply) -> int:
    """The line of a raw stream where reading ends: that of the event that is no JSON, or the last one."""
    body = b"".join(data for _, data in stream.chunks)
    if reply.verdict is Verdict.MALFORMED:
        for event in events(body):
            try:
                load_json(event.data if event.data.strip() != b"[DONE]" else b"0")
            except ValueError:
                return body.count(b"\n", 0, event.end) or 1
    return max(1, len(body.rstrip().split(b"\n"))) if reply.verdict in _UNREADABLE else 1


def _told(kind: Kind, found: list[tuple[int, Reply]], what: str) -> Reading:
    faults = [Fault(line, f"{reply.verdict}: {reply.detail}") for line, reply in found if reply.verdict in _UNREADABLE]
    for line, reply in found:
        if len(counts := token_counts(reply)) > 1:
            faults.append(Fault(line, f"the tokens contradict each other: {', '.join(map(str, sorted(counts)))}"))
    replies = tuple(reply for _, reply in found)
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in _count(replies))
    facts = tuple(reply_facts(replies[0])) if replies else ()
    tokens = [reply.usage.completion for reply in replies if reply.usage and reply.usage.completion is not None]
    counted = f", {sum(tokens)} completion tokens by usage" if len(tokens) == len(replies) and replies else ""
    size = f"{what}: {verdicts}{counted}"
    return Reading(kind, size, facts, tuple(faults[:MAX_FAULTS]), replies=replies)


def _counted(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"


def _count(replies: tuple[Reply, ...]) -> Iterator[tuple[Verdict, int]]:
    for verdict in Verdict:
        if count := sum(reply.verdict is verdict for reply in replies):
            yield verdict, count
