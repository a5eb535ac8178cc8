"""Reader of streamed chat completions: server-sent events, over bytes.

Over bytes, because an event and a character may be cut at any of them, and because text may hold U+2028,
U+0085 and other characters at which str.splitlines would cut: the standard knows CR, LF and CRLF alone.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

from .reply import (
    MAX_REPLY,
    Reply,
    Usage,
    count_of,
    error_words,
    http_error,
    ids_of,
    load_json,
    not_a_completion,
    one_line,
    said,
    shortcoming,
    too_long,
    usage_of,
)
from .verdict import Verdict

_BOM = b"\xef\xbb\xbf"
_DONE = b"[DONE]"
_CLOSING_NS = 1_000_000
"""The last token's event and those that close a stream (finish reason, usage, [DONE]) are written one after the other,
without a step of the engine between them: what they add to a read moves its stamp by less than this."""
_LINE_END = re.compile(rb"\r\n|\n|\r")
_USUAL = re.compile(rb"data: (.*)\n\n")
"""An event as nearly all are written. It reads like any other only where no line ends with a CR."""


class Event(NamedTuple):
    """One server-sent event. ``end``: offset of the byte that ended it; ``closed``: by an empty line; ``line_feed``:
    that byte was a CR, behind which the LF of the same line end stands."""

    kind: bytes
    data: bytes
    end: int
    closed: bool
    line_feed: bool = False


def _lines(stream: bytes, start: int) -> Iterator[tuple[bytes, int, bool]]:
    """Lines from ``start`` without their ends, with the offset of the byte that ended each, and whether one did."""
    for end in _LINE_END.finditer(stream, start):
        yield stream[start : end.start()], end.start(), True
        start = end.end()
    if start < len(stream):
        yield stream[start:], len(stream) - 1, False


def events(stream: bytes) -> Iterator[Event]:
    """The events of a stream, by the standard, and beyond it a last event that no empty line closes."""
    start = len(_BOM) if stream.startswith(_BOM) else 0
    if b"\r" not in stream:
        while usual := _USUAL.match(stream, start):
            start = usual.end()
            yield Event(b"", usual[1], start - 1, closed=True)
    yield from events_by_line(stream, start)


def events_by_line(stream: bytes, start: int) -> Iterator[Event]:
    """The events from ``start``, where none is under way, however they are written."""
    kind, data, end = b"", list[bytes](), -1
    for line, at, terminated in _lines(stream, start):
        if not line and terminated:
            if data:
                yield Event(kind, b"\n".join(data), at, closed=True, line_feed=stream.startswith(b"\r\n", at))
            kind, data = b"", []
            continue
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            data.append(value)
            end = at
        elif name == b"event":
            kind = value
    if data:
        yield Event(kind, b"\n".join(data), end, closed=False)


class _Reads:
    """The reads that brought a stream, by which its events have their stamps."""

    def __init__(self, reads: Sequence[tuple[int, bytes]]) -> None:
        befores = [None, *(stamp for stamp, _ in reads)]
        filled = [(stamp, before, len(data)) for (stamp, data), before in zip(reads, befores, strict=False) if data]
        self._stamps = [stamp for stamp, _, _ in filled]
        self._befores = [before for _, before, _ in filled]
        self._ends = list(accumulate(length for _, _, length in filled))

    def stamped(self, found: Sequence[Event]) -> tuple[tuple[int, ...], tuple[tuple[int, int | None], ...]]:
        """When these events had come, and of which that is an upper bound, as ``Reply`` has both. ``found`` are those
        that carried a token: behind the last of them come only those that close the stream.

        A read's stamp is that of its last byte: it is an upper bound for an event behind which the read held more.
        """
        ends = self._ends
        numbers = [bisect_right(ends, event.end) for event in found]
        bounds = [
            (place, self._befores[number])
            for place, (event, number) in enumerate(zip(found, numbers, strict=True))
            if ends[number] > event.end + 1 + event.line_feed
        ]
        stamps = tuple([self._stamps[number] for number in numbers])
        if bounds and bounds[-1][0] == len(found) - 1 and (before := bounds[-1][1]) is not None:
            bounds[-1] = (len(found) - 1, max(before, stamps[-1] - _CLOSING_NS))
        return stamps, tuple(bounds)


class _Chunk(NamedTuple):
    """A chunk that has choices: its event, whether a delta held anything, and what tells of its tokens."""

    event: Event
    said: bool
    ids: tuple[int, ...] | None
    running: int | None


@dataclass(slots=True)
class _Heard:
    """What the events so far told."""

    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    chunks: list[_Chunk] = field(default_factory=list)
    first_ids: list[int] = field(default_factory=list)
    prompt_token_ids: tuple[int, ...] | None = None
    finish_reasons: dict[int, str | None] = field(default_factory=dict)
    counts: dict[str, Any] | None = None
    models: list[str] = field(default_factory=list)
    tool_call: bool = False
    done: bool = False
    error: str | None = None
    fault: str | None = None
    cut: bool = False

    @property
    def usage(self) -> Usage | None:
        """The last that was said: running counts are never summed."""
        return usage_of(self.counts)

    def hear(self, event: Event) -> None:
        """Take an event in."""
        data = event.data.strip(b" \t")
        if data == _DONE:
            self.done = True
            return
        try:
            chunk = load_json(event.data)
        except ValueError:
            if event.kind == b"error":
                self.error = self.error or one_line(event.data.decode("utf-8", "replace"))
            elif not event.closed:
                self.cut = True  # the transport ended inside this event
            else:
                self._fault("an event that is no JSON", event)
            return
        words = error_words(chunk)
        if words is None and event.kind == b"error":
            words = one_line(event.data.decode("utf-8", "replace"))
        if words is not None:
            self.error = self.error or words
        elif not isinstance(chunk, dict) or not isinstance(choices := chunk.get("choices"), list):
            self._fault("an event that is no chat completion chunk", event)
        elif not self._choices(chunk, choices, event):
            self._fault("a choice without a delta", event)

    def _fault(self, what: str, event: Event) -> None:
        self.fault = self.fault or one_line(f"{what}: {event.data[:200].decode('utf-8', 'replace')}")

    def _choices(self, chunk: dict[str, Any], choices: list[Any], event: Event) -> bool:
        """Take a chunk in; False where it has not a chunk's shape."""
        if isinstance(named := chunk.get("model"), str) and named not in self.models:
            self.models.append(named)
        running = None
        if isinstance(counts := chunk.get("usage"), dict):
            self.counts = counts
            running = count_of(counts.get("completion_tokens"))
        if (prompt_ids := ids_of(chunk.get("prompt_token_ids"))) is not None:
            self.prompt_token_ids = prompt_ids
        if not choices:
            return True  # the chunk of the final usage
        ids: tuple[int, ...] | None = None
        anything = False
        for choice in choices:
            delta = said(choice.get("delta")) if isinstance(choice, dict) else None
            if delta is None:
                return False
            index = choice.get("index", 0)
            if type(index) is not int:  # a bool is none
                return False
            if isinstance(reason := choice.get("finish_reason"), str):
                self.finish_reasons[index] = reason
            else:
                self.finish_reasons.setdefault(index, None)
            text, reasoning, tool_call = delta
            anything = anything or bool(text or reasoning or tool_call)
            self.tool_call = self.tool_call or tool_call
            own_ids = ids_of(choice.get("token_ids"))
            if own_ids is not None:
                ids = own_ids if ids is None else ids + own_ids
            if index == 0:
                self.text.append(text)
                self.reasoning.append(reasoning)
                self.first_ids += own_ids or ()
        self.chunks.append(_Chunk(event, anything, ids, running))
        return True

    def tokens(self) -> tuple[list[Event], tuple[int, ...] | None, bool]:
        """The events that carried a token, the tokens in each if known, and whether ids are known."""
        spoke = [chunk for chunk in self.chunks if chunk.said]
        by_ids = bool(self.chunks) and any(chunk.ids for chunk in self.chunks)
        by_ids = by_ids and all(chunk.ids is not None for chunk in spoke)
        # usage on the last chunk alone is the final count, not a running one
        by_usage = bool(spoke) and all(chunk.running is not None for chunk in spoke)
        found: list[Event] = []
        counts: list[int] = []
        counted = 0
        for event, anything, ids, running in self.chunks:
            rise = running - counted if by_usage and running is not None else 0
            counted += rise
            if anything or ids or rise:
                found.append(event)
                counts.append(len(ids or ()) if by_ids else rise)
        known = (by_ids or by_usage) and min(counts, default=0) >= 0
        return found, tuple(counts) if known else None, by_ids


def read_stream(
    status: int,
    content_type: str | None,
    chunks: Sequence[tuple[int, bytes]],
    *,
    ended: bool,
    model: str,
) -> Reply:
    """Judge one streamed answer; never raises.

    ``chunks``: (monotonic nanoseconds, bytes) of each read of the transport, cut anywhere; a read of nothing but
    HTTP's own has no bytes.
    ``ended``: the transport closed in order. It changes the words of ``truncated`` and nothing else: a stream
    that is complete to its terminal marker is complete. The caller that saw a reset or a timeout keeps the
    reply's text and stamps and puts its own verdict in place of ``truncated``.
    ``model``: the name that was asked.

    Judged in this order: HTTP status, error object, shape, model, completeness (``[DONE]`` and a finish
    reason for every choice), emptiness. Without usage the token metrics are unknown and the reply may
    still be ok.
    """
    stream = b"".join(data for _, data in chunks)
    if status != 200:
        return http_error(status, stream)
    if len(stream) > MAX_REPLY:
        return too_long(len(stream))
    heard = _Heard()
    found = False
    for event in events(stream):
        found = True
        heard.hear(event)
    if not found:
        return _no_event(content_type, stream, ended=ended)

    tokens, counts, ids_known = heard.tokens()
    stamps, bounds = _Reads(chunks).stamped(tokens)
    verdict, detail = _judge(heard, model, ended=ended, events_seen=len(stamps))
    return Reply(
        verdict,
        detail,
        text="".join(heard.text),
        reasoning="".join(heard.reasoning),
        token_ids=tuple(heard.first_ids) if ids_known else None,
        prompt_token_ids=heard.prompt_token_ids,
        finish_reason=heard.finish_reasons.get(0),
        usage=heard.usage,
        model=heard.models[-1] if heard.models else None,
        first_token_ns=stamps[0] if stamps else None,
        last_token_ns=stamps[-1] if stamps else None,
        event_ns=stamps,
        events_tokens=counts,
        event_bounds=bounds,
    )


def _judge(heard: _Heard, model: str, *, ended: bool, events_seen: int) -> tuple[Verdict, str]:
    if heard.error is not None:
        return Verdict.IN_BAND_ERROR, heard.error
    if heard.fault is not None:
        return Verdict.MALFORMED, heard.fault
    missing: list[str] = []
    if heard.cut:
        missing.append("cut inside an event")
    if not heard.finish_reasons or None in heard.finish_reasons.values():
        missing.append("no finish reason")
    if not heard.done:
        missing.append("no [DONE]")
    if missing:
        how = "the stream closed" if ended else "the connection broke"
        missing.append(f"{how} after {events_seen} events with tokens")
    if missing and not heard.models:
        return Verdict.TRUNCATED, "; ".join(missing)
    return shortcoming(
        asked=model,
        models=list(heard.models),
        missing=missing,
        finish_reasons=[reason for reason in heard.finish_reasons.values() if reason is not None],
        tokens=heard.usage.completion if heard.usage else None,
        anything=bool(heard.tool_call or any(heard.text) or any(heard.reasoning)),
    )


def _no_event(content_type: str | None, stream: bytes, *, ended: bool) -> Reply:
    """The reply for an HTTP 200 without any event."""
    kind = (content_type or "").partition(";")[0].strip().lower()
    if not stream.strip() or (kind == "text/event-stream" and not stream.lstrip().startswith((b"<", b"{"))):
        how = "the stream closed" if ended else "the connection broke"
        return Reply(Verdict.TRUNCATED, f"{how} before its first event")
    try:
        words = error_words(load_json(stream))
    except ValueError:
        words = None
    return Reply(Verdict.IN_BAND_ERROR, words) if words is not None else not_a_completion(content_type, stream)
