"""Error answers in vLLM's form: ``{"error": {"message", "type", "param", "code"}}``.

0.32.0 words some of them otherwise than 0.26.0; both are as recorded, and 0.33.0 is taken to be as 0.32.0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from runner.simulator.release import Release

STATUS_TYPES: Mapping[int, str] = {
    400: "BadRequestError",
    404: "NotFoundError",
    429: "Too Many Requests",
    500: "InternalServerError",
    503: "Service Unavailable",
}


class RequestError(Exception):
    """An answer other than a completion. `status` is the HTTP status."""

    def __init__(self, message: str, *, status: int = 400, kind: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body: dict[str, Any] = {
            "error": {
                "message": message,
                "type": kind or STATUS_TYPES.get(status, "InternalServerError"),
                "param": param,
                "code": status,
            }
        }


def bad_value(message: str, parameter: str, value: object) -> RequestError:
    """A value that has the right type and is still refused."""
    return RequestError(f"{message} (parameter={parameter}, value={value})", param=parameter)


def is_first(release: Release) -> bool:
    """True for 0.26.0, whose words are the older ones."""
    return release.version == "0.26.0"


def unknown_model(name: str, served: Sequence[str], release: Release) -> RequestError:
    """A model that is not served here."""
    aliases = "" if is_first(release) else f" Valid aliases: {', '.join(served)}."
    return RequestError(f"The model `{name}` does not exist.{aliases}", status=404, param="model")


def from_validation(error: ValidationError, release: Release) -> RequestError:
    """Schema errors, each with its place in the body."""
    return _schema_error(
        [
            {
                "type": detail["type"],
                "loc": ("body", *detail["loc"]),
                "msg": detail["msg"],
                "input": detail["input"],
                **({"ctx": detail["ctx"]} if "ctx" in detail else {}),
            }
            for detail in error.errors(include_url=False)
        ],
        release,
    )


def not_json(error: json.JSONDecodeError, release: Release) -> RequestError:
    """A body that is no JSON, with the position."""
    return _schema_error(
        [
            {
                "type": "json_invalid",
                "loc": ("body", error.pos),
                "msg": "JSON decode error",
                "input": {},
                "ctx": {"error": error.msg},
            }
        ],
        release,
    )


def wrong_content_type(content_type: str) -> RequestError:
    """vLLM accepts application/json only."""
    return RequestError(
        "1 validation error:\n  "
        + repr(f"Unsupported Media Type: Only 'application/json' is allowed, not {content_type!r}"),
        kind="Bad Request",
    )


def too_many_characters(characters: int, longest: int, asked: int, limit: int, release: Release) -> RequestError | None:
    """A prompt that is too long whatever its tokens are, the longest of which has so many characters; else None.

    0.32.0 compares with the whole context, 0.26.0 with what the tokens asked for leave of it.
    """
    room = limit - asked if is_first(release) else limit
    most = room * longest
    if characters <= most:
        return None
    output = f"you requested {asked} output tokens and " if is_first(release) else ""
    remedy = " or the number of requested output tokens" if is_first(release) else ""
    return bad_value(
        f"This model's maximum context length is {limit} tokens. However, {output}your prompt contains {characters} "
        f"characters (more than {most} characters, which is the upper bound for {room} input tokens). Please reduce "
        f"the length of the input prompt{remedy}.",
        "input_text",
        characters,
    )


def template_traceback(message: str) -> str:
    """What the log says when the chat template refuses a conversation."""
    return f"""An error occurred in `transformers` while applying chat template
Traceback (most recent call last):
  File "/site-packages/vllm/renderers/hf.py", line 778, in safe_apply_chat_template
    plain = tokenizer.apply_chat_template(
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/site-packages/vllm/tokenizers/hf.py", line 62, in apply_chat_template
    return tok.apply_chat_template(*args, **kwargs)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/site-packages/transformers/tokenization_utils_base.py", line 3088, in apply_chat_template
    raise ValueError("{message}")
ValueError: {message}"""


def _schema_error(details: Sequence[Mapping[str, Any]], release: Release) -> RequestError:
    count = len(details)
    shown = [dict(detail) if is_first(release) else _summed_up(detail) for detail in details]
    lines = "".join(f"\n  {detail}" for detail in shown)
    return RequestError(
        f"{count} validation error{'s' if count > 1 else ''}:{lines}", kind="Bad Request", param=_place(details[0])
    )


def _place(detail: Mapping[str, Any]) -> str:
    return ".".join(str(part) for part in detail["loc"])


def _summed_up(detail: Mapping[str, Any]) -> dict[str, Any]:
    """As 0.32.0 shows it: the place as one word, a container by its kind and length."""
    given = detail["input"]
    if isinstance(given, dict | list):
        given = f"<{type(given).__name__} of {len(given)} items>"
    return {**detail, "loc": _place(detail), "input": given}
