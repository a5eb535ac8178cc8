"""Faults on demand: ``SIMULATOR_FAULTS`` is a JSON list of ``{"kind": ..., parameters}``.

Faults of a request (all that name no ``after_requests``, and not those of the start) take ``"request": n``
(the n-th generation request that this process receives, from 1, readiness probes included), ``"from": n``
(that one and all later ones), or neither (every request).

The kinds, their parameters, and what they do:

``flag-ignored``: ``flag``, ``form``
    `flag` is a flag's name, or ``speculative`` for all spec flags. `form` is ``neither`` (as if it had not
    been given), ``parsed-only`` (the args line shows it, the engine does not use it), or ``flat-counters``
    (speculation only: everything says that it is on, and no draft is ever proposed).
``different-text``: ``token``, ``every`` (optional)
    From this output token on another text; with `every`, only for each so-many-th request.
``missing-series``: ``name``
    The metric is not exposed.
``counter-lies``: ``name``, ``by`` (default 1)
    The metric's series gain `by` for each finished request (of those selected).
``foreign-traffic``: ``after_requests``, ``requests``, ``prompt`` (optional)
    After so many client requests the engine gets so many chat requests of its own.
``death-mid-stream``: ``after_tokens``
    The whole process dies once the request has so many tokens.
``in-band-error``: ``after_tokens``
    Stream: an error chunk under HTTP 200, then [DONE]. Plain: HTTP 500 InternalServerError.
``truncated-stream``: ``after_tokens``
    Stream: a clean end without finish reason, usage and [DONE]. Plain: a body shorter than its content
    length.
``malformed-json``
    The body (or every chunk) is not JSON.
``http-error``: ``status``
    An error body with this status; nothing is generated.
``wrong-model``: ``model`` (optional)
    The reply names another model.
``empty``
    No text and zero completion tokens in the reply.
``stall``
    The request never finishes; a stream stays open.
``slow-drain``: ``seconds``
    All engine metrics lag behind by so long.
``slow-start``: ``seconds``
    The start takes so much longer.
``crash-at-start``: ``with``
    ``cuda-oom``, ``bad-model`` or ``bad-flag``, in vLLM's own words, exit code 1.
``hang``: ``after_requests``
    /health stays 200, but no step runs any more.
``restart``: ``after_requests``
    Metrics fall back to 0 and the process's start time changes.
``ignore-sigterm``
    SIGTERM has no effect.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SPECULATIVE_FLAGS = ("speculative_config", "spec_method", "spec_model", "spec_tokens")

_REQUIRED: Mapping[str, tuple[str, ...]] = {
    "flag-ignored": ("flag", "form"),
    "different-text": ("token",),
    "missing-series": ("name",),
    "counter-lies": ("name",),
    "foreign-traffic": ("after_requests", "requests"),
    "death-mid-stream": ("after_tokens",),
    "in-band-error": ("after_tokens",),
    "truncated-stream": ("after_tokens",),
    "malformed-json": (),
    "http-error": ("status",),
    "wrong-model": (),
    "empty": (),
    "stall": (),
    "slow-drain": ("seconds",),
    "slow-start": ("seconds",),
    "crash-at-start": ("with",),
    "hang": ("after_requests",),
    "restart": ("after_requests",),
    "ignore-sigterm": (),
}
_CHOICES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("flag-ignored", "form"): ("neither", "parsed-only", "flat-counters"),
    ("crash-at-start", "with"): ("cuda-oom", "bad-model", "bad-flag"),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault; `parameters` is its JSON object."""

    kind: str
    parameters: Mapping[str, Any]

    def selects(self, request: int) -> bool:
        """True if the fault applies to the request of this number."""
        if "request" in self.parameters:
            return request == int(self.parameters["request"])
        if "every" in self.parameters and request % int(self.parameters["every"]):
            return False
        return request >= int(self.parameters.get("from", 1))


class Faults:
    """The faults of one process."""

    def __init__(self, faults: list[Fault]) -> None:
        self._faults = faults

    def of_kind(self, kind: str) -> list[Fault]:
        """All faults of a kind."""
        return [fault for fault in self._faults if fault.kind == kind]

    def parameter(self, kind: str, name: str) -> Any:
        """A parameter of the first fault of a kind; None without one."""
        return next((fault.parameters[name] for fault in self.of_kind(kind)), None)

    def of_request(self, number: int) -> dict[str, Fault]:
        """Faults by kind that apply to a request."""
        return {fault.kind: fault for fault in self._faults if fault.selects(number)}

    def due(self, kind: str, requests: int) -> list[Fault]:
        """Faults of a kind whose ``after_requests`` has just been reached."""
        return [fault for fault in self.of_kind(kind) if requests == int(fault.parameters["after_requests"])]

    def ignored_flags(self, form: str) -> list[str]:
        """Argparse destinations whose flags are ignored in this form."""
        destinations: list[str] = []
        for fault in self.of_kind("flag-ignored"):
            if fault.parameters["form"] == form:
                flag = str(fault.parameters["flag"]).removeprefix("--").replace("-", "_")
                destinations += SPECULATIVE_FLAGS if flag == "speculative" else (flag,)
        return destinations

    @property
    def all_ignored_flags(self) -> list[str]:
        """Argparse destinations of every ``flag-ignored``."""
        return [name for form in _CHOICES["flag-ignored", "form"] for name in self.ignored_flags(form)]

    @property
    def without_drafts(self) -> bool:
        """True if speculation claims to be on and proposes nothing."""
        return bool(self.ignored_flags("flat-counters"))


def parse(text: str) -> Faults:
    """Faults of the environment variable's value. Raises ValueError for anything not in the table."""
    raw = json.loads(text or "[]")
    if not isinstance(raw, list):
        raise ValueError("must be a JSON list")  # noqa: TRY004 -- one exception for every bad value
    faults: list[Fault] = []
    for item in raw:
        if not isinstance(item, dict) or item.get("kind") not in _REQUIRED:
            raise ValueError(f"unknown fault {item!r}")
        kind = item["kind"]
        missing = [name for name in _REQUIRED[kind] if name not in item]
        if missing:
            raise ValueError(f"fault {kind!r} needs {', '.join(missing)}")
        for (of, name), choices in _CHOICES.items():
            if of == kind and item[name] not in choices:
                raise ValueError(f"fault {kind!r}: {name} must be one of {', '.join(choices)}")
        faults.append(Fault(kind, item))
    return Faults(faults)
