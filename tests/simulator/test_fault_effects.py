"""Each fault of a reply, by its effect: there where it was asked for, and not there without the switch.

One engine has them all, each at a request of its own; another has none and is asked the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from simulator_process import REPEAT, EngineProcess

from runner.simulator.fault_kinds import KINDS

SECONDS = 1.5  # until an answer that has not come counts as never coming


@dataclass
class Answer:
    """What came: pieces as the transport gave them, and how it broke off."""

    status: int | None = None
    headers: httpx.Headers = field(default_factory=httpx.Headers)
    pieces: list[bytes] = field(default_factory=list)
    broke: type[Exception] | None = None

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    @property
    def events(self) -> list[bytes]:
        return [part.removeprefix(b"data: ") for part in self.body.split(b"\n\n") if part]

    @property
    def whole_json(self) -> bool:
        parts = self.events if self.body.startswith(b"data:") else [self.body]
        try:
            return all(part == b"[DONE]" or isinstance(json.loads(part), dict) for part in parts)
        except ValueError:
            return False

    @property
    def done(self) -> bool:
        """A stream with its end marker, or a plain body that is whole."""
        return self.body.endswith(b"data: [DONE]\n\n") if self.body.startswith(b"data:") else self.whole_json


def ask(engine: EngineProcess, *, stream: bool) -> Answer:
    answer = Answer()
    body = {"messages": [{"role": "user", "content": REPEAT}], "temperature": 0, "stream": stream,
            "stream_options": {"include_usage": True} if stream else None}  # fmt: skip
    try:
        with engine.http.stream("POST", "/v1/chat/completions", json=body, timeout=SECONDS) as response:
            answer.status, answer.headers = response.status_code, response.headers
            for piece in response.iter_raw():
                answer.pieces.append(piece)
    except httpx.TransportError as error:
        answer.broke = type(error)
    return answer


def text(answer: Answer) -> str:
    if not answer.body.startswith(b"data:"):
        return str(json.loads(answer.body)["choices"][0]["message"]["content"])
    chunks = [json.loads(part) for part in answer.events if part != b"[DONE]"]
    return "".join(choice["delta"].get("content", "") for chunk in chunks for choice in chunk["choices"])


def usage(answer: Answer) -> int:
    parts = [json.loads(part) for part in answer.events if part != b"[DONE]"]
    return next(int(part["usage"]["completion_tokens"]) for part in parts if part.get("usage"))


def whole(answer: Answer) -> bool:
    return answer.status == 200 and answer.done and answer.whole_json and answer.broke is None


def error_of(answer: Answer) -> dict[str, Any] | None:
    events = [json.loads(part) for part in answer.events if part != b"[DONE]"] if answer.whole_json else []
    found = next((event["error"] for event in events if "error" in event), None)
    assert found is None or isinstance(found, dict)
    return found


def refused(status: int, kind: str) -> Callable[[Answer, Answer], bool]:
    def effect(found: Answer, usual: Answer) -> bool:
        error = error_of(found)
        return (
            found.status == status
            and error is not None
            and error["type"] == kind
            and "retry-after" not in found.headers
        )

    return effect


Effect = Callable[[Answer, Answer], bool]
EFFECTS: dict[str, tuple[dict[str, Any], bool, Effect]] = {
    f"{kind}{'' if label is None else '-' + label}-{'stream' if stream else 'plain'}": (
        {"kind": kind, **parameters}, stream, effect
    )
    for kind, label, parameters, streams, effect in [
        ("different-text", None, {"token": 20}, "sp",
         lambda a, b: whole(a) and text(a) != text(b) and text(a)[:9] == text(b)[:9]),
        ("in-band-error", None, {"after_tokens": 9}, "s",
         lambda a, b: a.status == 200 and a.done and (error_of(a) or {}).get("code") == 500),
        ("in-band-error", None, {"after_tokens": 9}, "p", refused(500, "InternalServerError")),
        ("truncated-stream", None, {"after_tokens": 9}, "s",
         lambda a, b: a.broke is None and a.whole_json and not a.done and 0 < len(a.body) < len(b.body)),
        ("truncated-stream", None, {"after_tokens": 9}, "p",
         lambda a, b: a.broke is httpx.RemoteProtocolError and int(a.headers["content-length"]) > len(a.body) > 0),
        ("truncated-chunk", "chunk", {"after_tokens": 9, "inside": "chunk"}, "sp",
         lambda a, b: a.broke is httpx.RemoteProtocolError and a.headers.get("transfer-encoding") == "chunked"
         and not a.whole_json and 0 < len(a.body) < len(b.body)),
        ("truncated-chunk", "json", {"after_tokens": 9, "inside": "json"}, "sp",
         lambda a, b: a.broke is None and a.status == 200 and not a.whole_json and 0 < len(a.body) < len(b.body)),
        ("malformed-json", None, {}, "sp", lambda a, b: a.status == 200 and a.broke is None and not a.whole_json),
        ("http-error", "429", {"status": 429}, "p", refused(429, "Too Many Requests")),
        ("http-error", "503", {"status": 503}, "sp", refused(503, "Service Unavailable")),
        ("wrong-model", None, {}, "sp",
         lambda a, b: whole(a) and json.loads(a.events[0])["model"] == "another-model" and text(a) == text(b)),
        ("empty", None, {}, "sp", lambda a, b: whole(a) and text(a) == "" and usage(a) == 0),
        ("stall", None, {}, "sp", lambda a, b: a.broke is httpx.ReadTimeout and a.body == b""),
    ]
    for stream in (letter == "s" for letter in streams)
}  # fmt: skip


@pytest.fixture(scope="module")
def faulty() -> Iterator[EngineProcess]:
    """Fault n of the table at request n, and no other request."""
    faults = [{**fault, "request": number} for number, (fault, _, _) in enumerate(EFFECTS.values(), start=1)]
    engine = EngineProcess(faults=faults)
    try:
        yield engine.ready()
    finally:
        engine.close()


@pytest.fixture(scope="module")
def effects(faulty: EngineProcess) -> dict[str, Answer]:
    """The answers to the table's requests, in their order."""
    return {name: ask(faulty, stream=stream) for name, (_, stream, _) in EFFECTS.items()}


@pytest.mark.parametrize("name", EFFECTS)
def test_a_fault_has_its_effect_and_only_with_the_switch(
    name: str, effects: dict[str, Answer], off: EngineProcess
) -> None:
    _, stream, effect = EFFECTS[name]
    usual = ask(off, stream=stream)
    assert whole(usual)
    assert effect(effects[name], usual), effects[name]
    assert not effect(usual, usual)


def test_what_comes_after_the_faults_is_as_usual(
    faulty: EngineProcess, effects: dict[str, Answer], off: EngineProcess
) -> None:
    assert len(effects) == len(EFFECTS)
    assert text(ask(faulty, stream=True)) == text(ask(off, stream=False))
    assert faulty.metric("num_requests_running") == faulty.metric("num_requests_waiting") == 0


def test_every_fault_of_a_reply_is_in_the_table() -> None:
    elsewhere = {"death-mid-stream", "counter-lies", "slow-drip"}  # tests of their own beside this file
    replies = {name for name, kind in KINDS.items() if kind.scope == "request"}
    assert {fault["kind"] for fault, _, _ in EFFECTS.values()} == replies - elsewhere
