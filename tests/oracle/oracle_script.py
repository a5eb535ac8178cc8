"""What the oracle says: a script, made into the bytes of each send before any request comes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from itertools import accumulate
from typing import Any

PROMPT_TOKENS = 7
WORDS = (" one", " two", " three", " four", " five", " six", " seven", " eight")
FAULTS = (
    "http", "in-band-error", "truncate", "reset", "stall", "empty", "html", "wrong-model", "malformed", "no-done",
    "close-without-finish",
)  # fmt: skip
CUT = ("truncate", "reset", "stall")
"""Faults after which no byte follows; in order of how the connection is left: FIN, RST, open."""


class ScriptError(ValueError):
    """The script asks for what is not understood."""


@dataclass(frozen=True)
class Fault:
    """What goes wrong, from the event with the number `at_event` (0 is the first) on, in every `every`-th request."""

    kind: str
    at_event: int = 0
    every: int = 1


@dataclass(frozen=True)
class Script:
    """One stream. Times are seconds after the request was read; event i is due at `first_after_s + i * gap_s`.

    `tokens`: of each event, or of all. `splits`: (event, byte of the event, delay in seconds): the event goes out in
    two sends. `coalesce`: so many events go out in one send, when the last of them is due. `tail_after_s`: the pause
    between the last event and what follows it (usage, [DONE], the last chunk), which go out in one send of their own.
    `extra`: further fields of each event. `turns`: overrides, one for each request in turn, by arrival.
    """

    events: int = 128
    first_after_s: float = 0.05
    gap_s: float = 0.01
    tokens: int | list[int] = 1
    model: str = "oracle"
    usage: str = "continuous"
    role_chunk: bool = True
    finish: bool = True
    done: bool = True
    eol: str = "\n"
    splits: list[tuple[int, int, float]] = field(default_factory=list)
    coalesce: int = 1
    fault: Fault | None = None
    text: list[str] = field(default_factory=lambda: list(WORDS))
    tail_after_s: float = 0.0
    extra: dict[str, Any] = field(default_factory=dict)
    turns: list[dict[str, Any]] = field(default_factory=list)

    @property
    def counts(self) -> list[int]:
        """Tokens of each event."""
        return self.tokens if isinstance(self.tokens, list) else [self.tokens] * self.events


def read_script(said: dict[str, Any]) -> Script:
    """A script from its JSON object. Raises ScriptError for a key or a value that is not understood."""
    known = {each.name for each in fields(Script)}
    if unknown := sorted(said.keys() - known):
        raise ScriptError(f"unknown keys: {', '.join(unknown)}")
    values = {key: value for key, value in said.items() if value is not None or key == "fault"}
    if (fault := values.get("fault")) is not None:
        if unknown := sorted(fault.keys() - {each.name for each in fields(Fault)}):
            raise ScriptError(f"unknown keys of a fault: {', '.join(unknown)}")
        values["fault"] = Fault(**fault)
    script = Script(**values)
    for wrong, why in (
        (script.events < 1, "events: at least 1"),
        (len(script.counts) != script.events or min(script.counts) < 0, "tokens: one number for each event"),
        (script.usage not in ("continuous", "final", "none"), "usage: continuous, final or none"),
        (script.eol not in ("\n", "\r\n", "\r"), "eol: LF, CRLF or CR"),
        (min(script.first_after_s, script.gap_s, script.tail_after_s) < 0, "times: not below 0"),
        (script.coalesce < 1 or (script.coalesce > 1 and script.splits), "coalesce: at least 1, and without splits"),
        (not script.text, "text: at least one"),
    ):
        if wrong:
            raise ScriptError(why)
    if (broken := script.fault) is not None and (
        broken.kind not in FAULTS or not 0 <= broken.at_event < script.events or broken.every < 1
    ):
        raise ScriptError(f"fault: a kind of {', '.join(FAULTS)}, an event of the script, and every at least 1")
    for event, offset, delay in script.splits:
        if not 0 <= event < script.events or not 0 < offset < len(event_bytes(script, event)) or delay < 0:
            raise ScriptError(f"splits: no byte {offset} inside event {event}, or a delay below 0")
    for turn in script.turns:
        read_script({**said, "turns": [], **turn})
    return script


# Bytes ------------------------------------------------------------------------------------------------


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _sse(script: Script, data: bytes) -> bytes:
    return b"data: " + data + script.eol.encode() * 2


def _usage(completion: int) -> dict[str, int]:
    return {
        "prompt_tokens": PROMPT_TOKENS,
        "total_tokens": PROMPT_TOKENS + completion,
        "completion_tokens": completion,
    }


def _words(script: Script, first: int, count: int) -> str:
    """The text of `count` tokens behind the first `first` ones."""
    return "".join(script.text[at % len(script.text)] for at in range(first, first + count))


def _top(script: Script, kind: str, fault: Fault | None) -> dict[str, Any]:
    named = script.model + ("-another" if fault is not None and fault.kind == "wrong-model" else "")
    return {"id": "chatcmpl-oracle", "object": kind, "created": 0, "model": named}


def _chunk(
    script: Script, fault: Fault | None, delta: dict[str, str], reason: str | None, generated: int | None
) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
    whole = {**_top(script, "chat.completion.chunk", fault), "choices": [choice], **script.extra}
    if generated is not None:
        whole["usage"] = _usage(generated)
    return _sse(script, _json(whole))


def event_bytes(script: Script, number: int, fault: Fault | None = None) -> bytes:
    """The SSE bytes of the event with that number, without HTTP's framing."""
    before = sum(script.counts[:number])
    count = script.counts[number]
    reason = "stop" if script.finish and number == script.events - 1 else None
    generated = before + count if script.usage == "continuous" else None
    whole = _chunk(script, fault, {"content": _words(script, before, count)}, reason, generated)
    if fault is not None and fault.kind == "malformed" and fault.at_event == number:
        return whole.replace(b'"choices":[{', b'"choices":[[{', 1)
    return whole


def _framed(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"


def head(status: str, kind: str, *, close: bool, length: int | None) -> bytes:
    """An HTTP head; chunked where no length is given."""
    size = b"transfer-encoding: chunked" if length is None else b"content-length: %d" % length
    end = b"connection: close\r\n\r\n" if close else b"\r\n"
    return b"HTTP/1.1 %b\r\ncontent-type: %b\r\n%b\r\n%b" % (status.encode(), kind.encode(), size, end)


@dataclass(frozen=True)
class Send:
    """One send: `after_ns` after the request was read; `events` are completed by it."""

    after_ns: int
    data: bytes
    events: int


@dataclass(frozen=True)
class Said:
    """Everything that one request is answered: sends in their order. The first one's head is put before it when
    the request is there; `leaves` is what becomes of the connection then: open, FIN, RST or nothing ever."""

    status: str
    kind: str
    length: int | None
    head_at_once: bool
    sends: tuple[Send, ...]
    tokens: tuple[int, ...]
    generated: int
    fault: str | None
    leaves: str = "open"
    counted: bool = True


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def stream_of(script: Script, fault: Fault | None) -> Said:
    """The sends of one streamed answer."""
    kind = fault.kind if fault is not None else None
    if kind in ("http", "html"):
        return _whole_error(script, str(kind))
    told, ended_early = script.events, kind in (*CUT, "empty", "in-band-error", "close-without-finish")
    if fault is not None and ended_early:
        told = 0 if kind == "empty" else fault.at_event
    sends, latest = _event_sends(script, fault, told), 0
    if sends:
        latest = sends[-1].after_ns
    if not ended_early:
        sends.append(Send(latest + _ns(script.tail_after_s), _tail(script, fault), 0))
    else:
        due = max(latest, _ns(script.first_after_s + told * script.gap_s))
        data = b"" if kind in CUT else LAST_CHUNK
        if kind == "in-band-error":
            said = {"error": {"message": "the oracle was told to fail", "type": "InternalServerError", "code": 500}}
            data = _framed(_sse(script, _json(said))) + _framed(_sse(script, b"[DONE]")) + LAST_CHUNK
        sends.append(Send(due, data, 0))
    leaves = {"truncate": "FIN", "reset": "RST", "stall": "stall"}.get(kind or "", "open")
    counts = script.counts[:told]
    return Said(
        "200 OK", "text/event-stream; charset=utf-8", None, True, tuple(sends), tuple(counts), sum(counts), kind,
        leaves, counted=not ended_early,
    )  # fmt: skip


def _event_sends(script: Script, fault: Fault | None, told: int) -> list[Send]:
    splits: dict[int, list[tuple[int, float]]] = {}
    for event, offset, delay in script.splits:
        splits.setdefault(event, []).append((offset, delay))
    sends: list[Send] = []
    waiting, count, latest = b"", 0, 0
    if script.role_chunk:
        running = 0 if script.usage == "continuous" else None
        waiting = _framed(_chunk(script, fault, {"role": "assistant", "content": ""}, None, running))
    for number in range(told):
        data = event_bytes(script, number, fault)
        framed = _framed(data)
        latest = max(latest, _ns(script.first_after_s + number * script.gap_s))
        before = len(framed) - len(data) - 2
        begun = 0
        for offset, delay in sorted(splits.get(number, ())):
            sends.append(Send(latest, waiting + framed[begun : before + offset], 0))
            waiting, begun, latest = b"", before + offset, latest + _ns(delay)
        waiting, count = waiting + framed[begun:], count + 1
        if count == script.coalesce or number == told - 1:
            sends.append(Send(latest, waiting, count))
            waiting, count = b"", 0
    return sends


def _tail(script: Script, fault: Fault | None) -> bytes:
    data = b""
    if script.usage != "none":
        whole = {**_top(script, "chat.completion.chunk", fault), "choices": [], "usage": _usage(sum(script.counts))}
        data += _framed(_sse(script, _json(whole)))
    if script.done and (fault is None or fault.kind != "no-done"):
        data += _framed(_sse(script, b"[DONE]"))
    return data + LAST_CHUNK


def _whole_error(script: Script, kind: str) -> Said:
    if kind == "http":
        said = {"error": {"message": "the oracle was told to fail", "type": "InternalServerError", "code": 500}}
        status, content, data = "500 Internal Server Error", "application/json", _json(said)
    else:
        status, content, data = "200 OK", "text/html", b"<html><body>Sign in</body></html>"
    sends = (Send(_ns(script.first_after_s), data, 0),)
    return Said(status, content, len(data), False, sends, (), 0, kind, counted=False)


def plain_of(script: Script, fault: Fault | None, limit: int | None) -> Said:
    """The one send of an answer that is not streamed, of at most `limit` tokens: it comes when its last event would
    have."""
    kind = fault.kind if fault is not None else None
    if kind in ("http", "html"):
        return _whole_error(script, str(kind))
    events, generated = script.events, sum(script.counts)
    if limit is not None and limit < generated:
        events = next(number for number, so_far in enumerate(accumulate(script.counts), 1) if so_far >= limit)
        generated = limit
    message = {"role": "assistant", "content": _words(script, 0, generated)}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop" if script.finish else None}
    whole = {**_top(script, "chat.completion", fault), "choices": [choice], "usage": _usage(generated)}
    data = _json(whole)
    if kind == "malformed":
        data = data[:-1]
    elif kind == "in-band-error":
        data = _json({"error": {"message": "the oracle was told to fail", "type": "InternalServerError", "code": 500}})
    leaves = {"truncate": "FIN", "reset": "RST", "stall": "stall"}.get(kind or "", "open")
    length = len(data)
    if kind in CUT:
        data = data[: length // 2]
    elif kind == "empty":
        data, length = b"", 0
    sends = (Send(_ns(script.first_after_s + (events - 1) * script.gap_s), data, 0),)
    counted = kind not in (*CUT, "empty", "in-band-error", "malformed")
    return Said("200 OK", "application/json", length, False, sends, (), generated, kind, leaves, counted=counted)
