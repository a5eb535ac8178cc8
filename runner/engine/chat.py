"""Reader of plain (not streamed) chat completions."""

from __future__ import annotations

from .reply import (
    MAX_REPLY,
    Reply,
    error_words,
    http_error,
    ids_of,
    load_json,
    not_a_completion,
    said,
    shortcoming,
    too_long,
    usage_of,
)
from .verdict import Verdict


def read_reply(status: int, content_type: str | None, body: bytes, *, model: str) -> Reply:
    """Judge one complete HTTP answer of the chat endpoint; never raises.

    ``model``: the name that was asked, compared with the name in the answer. With ``n`` above 1 the text
    is the first choice's, and every choice must have its finish reason.
    """
    if status != 200:
        return http_error(status, body)
    if len(body) > MAX_REPLY:
        return too_long(len(body))
    try:
        parsed = load_json(body)
    except ValueError:
        return not_a_completion(content_type, body)
    if (words := error_words(parsed)) is not None:
        return Reply(Verdict.IN_BAND_ERROR, words)
    choices = parsed.get("choices") if isinstance(parsed, dict) else None
    if not isinstance(choices, list) or not choices:
        return not_a_completion(content_type, body)
    messages = [said(choice.get("message")) if isinstance(choice, dict) else None for choice in choices]
    first = messages[0]
    if first is None or None in messages:
        return not_a_completion(content_type, body)

    reasons = [choice.get("finish_reason") for choice in choices]
    finished = [reason for reason in reasons if isinstance(reason, str)]
    named = parsed.get("model") if isinstance(parsed.get("model"), str) else None
    usage = usage_of(parsed.get("usage"))
    verdict, detail = shortcoming(
        asked=model,
        models=[named],
        missing=[] if len(finished) == len(reasons) else ["no finish reason"],
        finish_reasons=finished,
        tokens=usage.completion if usage else None,
        anything=any(messages),
    )
    return Reply(
        verdict,
        detail,
        text=first.text,
        reasoning=first.reasoning,
        token_ids=ids_of(choices[0].get("token_ids")),
        prompt_token_ids=ids_of(parsed.get("prompt_token_ids")),
        finish_reason=reasons[0] if isinstance(reasons[0], str) else None,
        usage=usage,
        model=named,
    )
