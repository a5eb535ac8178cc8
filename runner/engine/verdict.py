"""One vocabulary for what became of a request."""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """What became of one request; only ``ok`` counts in a latency or throughput figure.

    The readers of replies give the first group. The load generator gives the second one: it alone sees the
    transport.
    """

    OK = "ok"
    HTTP_ERROR = "http-error"
    """A status other than 200."""
    IN_BAND_ERROR = "in-band-error"
    """An error object inside an HTTP 200."""
    TRUNCATED = "truncated"
    """The reply ended without its terminal marker or without a finish reason."""
    EMPTY = "empty"
    """A complete reply that holds no text, no reasoning and no tool call, or zero completion tokens."""
    WRONG_MODEL = "wrong-model"
    """The reply names a model other than the one that was asked."""
    MALFORMED = "malformed"
    """HTTP 200 with something that is no chat completion (HTML, broken JSON, another shape), or what is no HTTP."""

    TIMED_OUT = "timed-out"
    REFUSED = "refused"
    """The connection could not be opened."""
    RESET = "reset"
    """The connection broke before the reply was complete."""
    INTERRUPTED = "interrupted"
    """The request was given up while it was under way, because the run was stopped, or its engine known to have ended:
    says nothing about how that engine answers."""
