"""Error answers in vLLM's form: ``{"error": {"message", "type", "param", "code"}}``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

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


def from_validation(error: ValidationError) -> RequestError:
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
        ]
    )


def not_json(error: json.JSONDecodeError) -> RequestError:
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
        ]
    )


def wrong_content_type(content_type: str) -> RequestError:
    """vLLM accepts application/json only."""
    return RequestError(
        "1 validation error:\n  "
        + repr(f"Unsupported Media Type: Only 'application/json' is allowed, not {content_type!r}"),
        kind="Bad Request",
    )


def _schema_error(details: Sequence[Mapping[str, Any]]) -> RequestError:
    count = len(details)
    lines = "".join(f"\n  {dict(detail)}" for detail in details)
    place = ".".join(str(part) for part in details[0]["loc"])
    return RequestError(f"{count} validation error{'s' if count > 1 else ''}:{lines}", kind="Bad Request", param=place)
