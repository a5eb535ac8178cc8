"""What went wrong between the runner and a cluster, in words for its user."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


class ClusterError(Exception):
    """A cluster that cannot be used, or that refused. `status`, `reason` ("Conflict", "NotFound") and `causes` are the
    API's own, None and empty where the API did not answer. `unsure`: a write was sent, and whether it was done is not
    known."""

    def __init__(
        self,
        words: str,
        *,
        status: int | None = None,
        reason: str | None = None,
        causes: list[dict[str, Any]] | None = None,
        unsure: bool = False,
    ) -> None:
        super().__init__(words)
        self.status = status
        self.reason = reason
        self.causes = causes or []
        self.unsure = unsure

    @property
    def transient(self) -> bool:
        """Whether the same call may well succeed later: the server was not reached, too busy, or not up."""
        # Not 500: so does 1.36 answer the apply of a field that its schema lacks.
        return self.status in {None, 429, 502, 503, 504}


@dataclass(frozen=True, slots=True)
class Refusal:
    """A Status object of the API, or what stands in its place."""

    status: int
    message: str
    reason: str | None = None
    causes: list[dict[str, Any]] = field(default_factory=list)


def refusal(status: int, phrase: str | None, body: bytes | str | None) -> Refusal:
    """Read an error answer. A body that is no Status (a proxy's page) is quoted, shortened."""
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body or ""
    try:
        said = json.loads(text)
    except ValueError:
        said = None
    if not isinstance(said, Mapping):
        return Refusal(status, " ".join(text.split())[:300] or phrase or f"HTTP {status}")
    details = said.get("details")
    causes = details.get("causes") if isinstance(details, Mapping) else None
    return Refusal(
        status,
        str(said.get("message") or phrase or f"HTTP {status}"),
        said.get("reason") or None,
        [cause for cause in causes or [] if isinstance(cause, dict)],
    )
