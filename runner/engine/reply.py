"""What one reply of the chat endpoint said, plain or streamed, and what both readers share."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from .verdict import Verdict


@dataclass(frozen=True, slots=True)
class Usage:
    """The server's own token counts; None where it did not say."""

    prompt: int | None
    completion: int | None
    cached: int | None


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply, judged. None is "the server did not say", never 0.

    ``detail``: one line, the server's own words where it had any; empty for ``ok``.
    ``text``, ``reasoning``: of the first choice, as decoded, white space untouched.
    ``token_ids``, ``prompt_token_ids``: with ``return_token_ids`` only.
    ``first_token_ns``, ``last_token_ns``: monotonic stamps of the first and last event that carried a token,
    of any channel (text, reasoning, tool call, or ids whose text is still to come); None for a plain reply.
    ``event_ns``: stamps of all events that carried a token; an event's stamp is that of the byte which
    ends it.
    ``events_tokens``: tokens in each of these events, from token ids or from running usage; None when neither
    tells for every event.
    ``event_bounds``: of the events whose stamp is only an upper bound, because the read that ended them held more
    behind them: (number of the event, stamp of the read before, None where there was none).
    """

    verdict: Verdict
    detail: str
    text: str = ""
    reasoning: str = ""
    token_ids: tuple[int, ...] | None = None
    prompt_token_ids: tuple[int, ...] | None = None
    finish_reason: str | None = None
    usage: Usage | None = None
    model: str | None = None
    first_token_ns: int | None = None
    last_token_ns: int | None = None
    event_ns: tuple[int, ...] = ()
    events_tokens: tuple[int, ...] | None = None
    event_bounds: tuple[tuple[int, int | None], ...] = ()


MAX_REPLY: Final = 64 * 1024 * 1024
"""Bytes of one reply, plain or streamed, that are read; a longer one is ``malformed`` and nothing of it is told."""
MAX_DETAIL: Final = 500
"""Characters of a server's words that a detail quotes."""
_DECODER: Final = json.JSONDecoder()


def one_line(words: str) -> str:
    """``words`` on one line, cut to ``MAX_DETAIL`` characters."""
    line = " ".join(words.split())
    return line if len(line) <= MAX_DETAIL else line[: MAX_DETAIL - 1] + "…"


def load_json(text: bytes | str) -> Any:
    """Like json.loads; raises ValueError alone, also for text that nests without end."""
    try:
        if isinstance(text, bytes) and text.startswith(b'{"'):  # no UTF-16 or 32, and no white space before it
            whole = text.decode("utf-8", "surrogatepass")
            value, end = _DECODER.raw_decode(whole)
            if end == len(whole):
                return value
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def error_words(body: object) -> str | None:
    """The words of an error object (``{"error": ...}`` or ``{"object": "error", ...}``); None if it is
    none."""
    if not isinstance(body, dict):
        return None
    error = body.get("error")
    if error is None or error is False:
        return _message(body) if body.get("object") == "error" else None
    return _message(error) if isinstance(error, dict) else one_line(str(error))


def _message(error: dict[str, Any]) -> str:
    message = one_line(str(error.get("message") or _written(error)))
    kind = error.get("type")
    return one_line(f"{kind}: {message}") if isinstance(kind, str) and kind else message


def _written(value: object) -> str:
    """As JSON; what could just be read may nest too deeply to be written."""
    try:
        return json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "replace").decode()
    except RecursionError:
        return "nested too deeply"


def http_error(status: int, body: bytes) -> Reply:
    """The reply for a status other than 200, with the server's words from any of the bodies it may send."""
    try:
        parsed = load_json(body)
    except ValueError:
        words = one_line(body[:4096].decode("utf-8", "replace"))
    else:
        detail = parsed.get("detail") if isinstance(parsed, dict) else None
        words = error_words(parsed) or one_line(detail if isinstance(detail, str) else _written(parsed))
    return Reply(Verdict.HTTP_ERROR, f"HTTP {status}: {words}" if words else f"HTTP {status}")


def too_long(size: int) -> Reply:
    """The reply for an HTTP 200 beyond ``MAX_REPLY``: half of it would look like a whole one."""
    return Reply(Verdict.MALFORMED, f"the reply has {size} bytes, more than the {MAX_REPLY} that are read")


def not_a_completion(content_type: str | None, body: bytes) -> Reply:
    """The reply for an HTTP 200 whose body is neither a completion nor an error object."""
    start = body.lstrip(b"\xef\xbb\xbf \t\r\n")[:200]
    kind = (content_type or "").partition(";")[0].strip().lower()
    what = "an HTML page" if start.startswith(b"<") or kind == "text/html" else kind or "a body without a type"
    words = one_line(start.decode("utf-8", "replace"))
    return Reply(Verdict.MALFORMED, one_line(f"HTTP 200 with {what}, no chat completion: {words}"))


def usage_of(found: object) -> Usage | None:
    """The usage block of a reply or a chunk; None when it is absent or null."""
    if not isinstance(found, dict):
        return None
    details = found.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return Usage(count_of(found.get("prompt_tokens")), count_of(found.get("completion_tokens")), count_of(cached))


def count_of(found: object) -> int | None:
    """A count of tokens; None for anything that is none."""
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None


def ids_of(found: object) -> tuple[int, ...] | None:
    """A list of token ids; None for anything that is none (the server was not asked: null)."""
    if not isinstance(found, list) or not all(type(item) is int for item in found):
        return None
    return tuple(found)


class Said(NamedTuple):
    """What a message or a delta holds, by channel. ``tool_call``: there is one."""

    text: str
    reasoning: str
    tool_call: bool

    def __bool__(self) -> bool:
        return bool(self.text or self.reasoning or self.tool_call)


def said(message: object) -> Said | None:
    """The channels of a plain reply's message or a chunk's delta; None where it is no message."""
    if not isinstance(message, dict):
        return None
    content = message.get("content")
    reasoning = message.get("reasoning")
    if reasoning is None:
        reasoning = message.get("reasoning_content")  # the name of older versions
    # Not by one isinstance of `str | None`, which takes several times as long: this is asked of every chunk.
    if not (content is None or isinstance(content, str)) or not (reasoning is None or isinstance(reasoning, str)):
        return None
    return Said(content or "", reasoning or "", bool(message.get("tool_calls") or message.get("function_call")))


def shortcoming(
    *,
    asked: str,
    models: list[str | None],
    missing: list[str],
    finish_reasons: list[str],
    tokens: int | None,
    anything: bool,
) -> tuple[Verdict, str]:
    """The verdict of a reply that is well-formed and free of error objects.

    ``models``: all names the reply gave; ``missing``: in words, what a complete reply has and this one lacks;
    ``tokens``: completion tokens by usage; ``anything``: there is text, reasoning or a tool call.
    """
    stranger = next((model for model in models or [None] if model != asked), asked)
    checks: tuple[tuple[bool, Verdict, str], ...] = (
        (
            stranger != asked,
            Verdict.WRONG_MODEL,
            f"asked {asked!r}, the reply names {'no model' if stranger is None else repr(stranger)}",
        ),
        ("error" in finish_reasons, Verdict.IN_BAND_ERROR, "finish_reason is error"),
        (bool(missing), Verdict.TRUNCATED, "; ".join(missing)),
        ("abort" in finish_reasons, Verdict.TRUNCATED, "finish_reason is abort"),
        (tokens == 0, Verdict.EMPTY, "usage says 0 completion tokens"),
        (not anything, Verdict.EMPTY, "no text, no reasoning and no tool call"),
    )
    return next(((verdict, detail) for holds, verdict, detail in checks if holds), (Verdict.OK, ""))
