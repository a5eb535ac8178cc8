"""The table of faults: each kind, its parameters, what a client sees of it, and what the runner says to it.

``docs/faults.md`` is this table in print. The runner's exit codes stand here as numbers: nothing of the runner is
imported, and the experiments in ``tests/e2e`` hold the table to what it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Type = Literal["integer", "number", "text"]
Scope = Literal["request", "count", "start", "process", "nvidia-smi"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One key of a fault. `least` and `most` bound a number; one that is not required may have a default."""

    type: Type = "text"
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    required: bool = True
    default: str | int | float | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What `run` ends with: the exit code, and the verdict, check or words that name the reason."""

    exit: int
    words: str


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of fault. `scope` says what it applies to, and so which common keys it takes."""

    scope: Scope
    seen: str
    outcomes: tuple[Outcome, ...]
    parameters: Mapping[str, Parameter] = field(default_factory=dict)


SELECTION: Mapping[str, Parameter] = {
    "request": Parameter("integer", least=1, required=False, text="the n-th request alone"),
    "from": Parameter("integer", least=1, required=False, text="the n-th request and all later ones"),
    "every": Parameter("integer", least=1, required=False, text="of those, each whose number is a multiple"),
}
"""Keys of every fault of scope ``request``; ``request`` stands alone. Without any of them: every request."""

_AFTER_TOKENS = {"after_tokens": Parameter("integer", least=0, text="as soon as the reply has so many tokens")}
_AFTER_REQUESTS = {"after_requests": Parameter("integer", least=1, text="when the n-th request arrives")}

KINDS: Mapping[str, Kind] = {
    # -- the start -----------------------------------------------------------------------------------------
    "slow-start": Kind(
        "start",
        "Connections are refused for so much longer.",
        (Outcome(0, "a longer start within `startup-seconds`"), Outcome(3, "no completion within … s of the start")),
        {"seconds": Parameter("number", least=0, text="added to the start, in real seconds")},
    ),
    "crash-at-start": Kind(
        "start",
        "The process ends before it listens, its last lines in vLLM's words: exit code 2 for `bad-flag` (argparse), "
        "1 for the others.",
        (Outcome(3, "the engine ended with exit code … while starting, and the engine's own words"),),
        {"with": Parameter(choices=("cuda-oom", "bad-model", "bad-flag", "bad-config"), text="what it dies of")},
    ),
    # -- the configuration ---------------------------------------------------------------------------------
    "flag-ignored": Kind(
        "process",
        "The engine does not use a flag that it was given. `neither`: as if it had not been given; `parsed-only`: the "
        "args line shows it; `flat-counters` (speculation only): all says that it is on, and nothing is ever drafted.",
        (
            Outcome(4, "not in force, wanted beside found (speculation)"),
            Outcome(1, "`declared-differences` or `queue-only-above` (another flag)"),
        ),
        {
            "flag": Parameter(text="its name, or `speculative` for all flags of speculation"),
            "form": Parameter(choices=("neither", "parsed-only", "flat-counters"), text="how it is ignored"),
        },
    ),
    # -- replies -------------------------------------------------------------------------------------------
    "different-text": Kind(
        "request",
        "From one output token on another text, as greedy as the usual one.",
        (Outcome(1, "`same-output`"),),
        {"token": Parameter("integer", least=0, text="the first token that differs, from 0")},
    ),
    "death-mid-stream": Kind(
        "request",
        "The whole process dies (exit code 1, no log line); the reply breaks off, streamed or not.",
        (Outcome(5, "the engine ended with exit code 1; `truncated` or `reset`, then `refused`"),),
        _AFTER_TOKENS,
    ),
    "in-band-error": Kind(
        "request",
        "Streamed: an error event under HTTP 200, then [DONE]. Plain: HTTP 500, InternalServerError.",
        (Outcome(5, "`in-band-error`; plain: `http-error`"),),
        _AFTER_TOKENS,
    ),
    "truncated-stream": Kind(
        "request",
        "Streamed: an orderly end without finish reason, usage and [DONE]. Plain: a body shorter than its content "
        "length.",
        (Outcome(5, "`truncated`"),),
        _AFTER_TOKENS,
    ),
    "truncated-chunk": Kind(
        "request",
        "`chunk`: the connection closes inside a chunk of the chunked transfer coding. `json`: the transfer ends in "
        "order, in the middle of an event's JSON (plain: of the body's). A plain reply is cut in its middle.",
        (Outcome(5, "`truncated`; a plain reply cut inside its JSON: `malformed`"),),
        {**_AFTER_TOKENS, "inside": Parameter(choices=("chunk", "json"), text="what is cut in two")},
    ),
    "slow-drip": Kind(
        "request",
        "The reply's bytes come in small pieces with a pause between; events and characters are split at any byte.",
        (Outcome(0, "`ok`, with the time that it took"), Outcome(5, "`timed-out`, where it takes longer than allowed")),
        {
            "bytes": Parameter("integer", least=1, text="size of a piece"),
            "seconds": Parameter("number", least=0, text="the pause between two pieces, in real seconds"),
        },
    ),
    "malformed-json": Kind(
        "request", "The body (or each event) is no JSON, under HTTP 200.", (Outcome(5, "`malformed`"),)
    ),
    "http-error": Kind(
        "request",
        "This status and an error body; nothing is generated. 503 has the words with which 0.33.0 refuses for a full "
        "queue (0.26.0 has no such refusal); no release sends 429 itself, its body is vLLM's form. vLLM sends no "
        "Retry-After.",
        (Outcome(5, "`http-error`"),),
        {"status": Parameter("integer", least=400, most=599, text="the HTTP status")},
    ),
    "wrong-model": Kind(
        "request",
        "The reply names another model.",
        (Outcome(5, "`wrong-model`"),),
        {"model": Parameter(required=False, default="another-model", text="the name")},
    ),
    "empty": Kind("request", "No text and zero completion tokens in the reply.", (Outcome(5, "`empty`"),)),
    "stall": Kind(
        "request",
        "This one request never reaches the engine and is never answered; a stream stays open. All others go on.",
        (Outcome(5, "`timed-out`"),),
    ),
    # -- the engine ----------------------------------------------------------------------------------------
    "stall-while-waiting": Kind(
        "count",
        "The engine schedules nothing: requests queue (waiting > 0, running as before), /health and /metrics answer, "
        "no token comes. A step under way ends first.",
        (Outcome(5, "`timed-out`"), Outcome(0, "a slow round, where it goes on within `request-timeout-seconds`")),
        {
            **_AFTER_REQUESTS,
            "seconds": Parameter("number", least=0, required=False, text="how long, in real seconds; else for ever"),
        },
    ),
    "hang": Kind(
        "count",
        "/health and /metrics answer, but no step runs any more; the gauges keep their last values.",
        (Outcome(5, "`timed-out`"),),
        _AFTER_REQUESTS,
    ),
    "foreign-traffic": Kind(
        "count",
        "The engine gets chat requests of its own, which show in every counter.",
        (Outcome(1, "`request-count`: more finished than sent, contaminated"),),
        {
            **_AFTER_REQUESTS,
            "requests": Parameter("integer", least=1, text="how many"),
            "prompt": Parameter(required=False, text="their text"),
        },
    ),
    # -- the metrics ---------------------------------------------------------------------------------------
    "restart": Kind(
        "count",
        "All series fall back to 0 and the process's start time changes, as if it had been restarted unseen.",
        (Outcome(1, "`one-engine-process`"),),
        _AFTER_REQUESTS,
    ),
    "missing-series": Kind(
        "process",
        "The metric is not exposed.",
        (Outcome(6, "the check that needs it is inconclusive"),),
        {"name": Parameter(text="the metric's name, of a counter with or without `_total`")},
    ),
    "counter-lies": Kind(
        "request",
        "A series gains `by` too many: for each finished request of those selected (`request`: once), or at each "
        "scrape after the first of them. Of several label sets the one with the highest value lies. A histogram's "
        "`_count` takes its last bucket along.",
        (Outcome(1, "`request-count` or `one-engine-process`"), Outcome(6, "figures that contradict each other")),
        {
            "name": Parameter(text="a counter's or gauge's name; of a histogram its `_sum` or `_count`"),
            "by": Parameter("number", required=False, default=1, text="the lie"),
            "per": Parameter(choices=("request", "scrape"), required=False, default="request", text="how often"),
        },
    ),
    "slow-drain": Kind(
        "process",
        "All engine metrics lag behind.",
        (Outcome(0, "waited for within `idle-seconds`"), Outcome(6, "not seen idle, `request-count` unknown")),
        {"seconds": Parameter("number", least=0, text="by so much, in real seconds")},
    ),
    # -- the process ---------------------------------------------------------------------------------------
    "ignore-sigterm": Kind(
        "process",
        "SIGTERM has no effect.",
        (Outcome(0, "the engine is killed after the grace, and the journal says so"),),
    ),
    # -- the device ----------------------------------------------------------------------------------------
    "nvidia-smi": Kind(
        "nvidia-smi",
        "`python -m runner.simulator nvidia-smi` goes wrong at one sample. `exit`: NVML's words and exit code 255; "
        "`device-lost`: the device's handle is gone, exit code 15; `hang`: no line any more; `blocked`: the fields "
        "say so in brackets from here on, utilisation a stale 0; `not-available` and `unknown-error`: every measured "
        "field of this sample is `[N/A]` or `[Unknown Error]`; `torn`: half a line, and it is killed.",
        (),
        {
            "at_sample": Parameter("integer", least=1, text="the n-th line of figures, from 1"),
            "how": Parameter(
                choices=("exit", "device-lost", "hang", "blocked", "not-available", "unknown-error", "torn"),
                text="what happens",
            ),
        },
    ),
}


def keys_of(kind: Kind) -> dict[str, Parameter]:
    """All parameters of a kind, the common ones of its scope included."""
    return {**kind.parameters, **(SELECTION if kind.scope == "request" else {})}
