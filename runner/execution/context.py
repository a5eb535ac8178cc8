"""What every step of a run needs."""

import asyncio
import gzip
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner.access import OPEN, Access
from runner.engine.exposition import to_json
from runner.engine.reply import Reply
from runner.load.generator import InFlight, LoadGenerator
from runner.plan.model import Plan, body_id
from runner.record.clock import RunClock
from runner.record.directory import ARTIFACTS
from runner.record.events import BodySeen, Event, OutputSeen
from runner.sample.scrape import RawScrape, Scrape


class Stopped(Exception):
    """The run was told to stop before this step had anything to show."""


def output_of(reply: Reply) -> OutputSeen:
    """A reply's output, by what it says alone: equal outputs have one id."""
    ids = None if reply.token_ids is None else list(reply.token_ids)
    identity = hashlib.sha256(json.dumps([reply.text, reply.reasoning, ids]).encode()).hexdigest()[:12]
    return OutputSeen(output_id=identity, text=reply.text, reasoning=reply.reasoning, token_ids=ids)


@dataclass
class Context:
    """The run's plan, clock and directory, and where its events go.

    `in_flight` hears of every answered request while a round runs; it is for the terminal alone. `access` goes with
    every request to an engine, and is kept nowhere. `load` is entered while the plan is carried out.
    """

    plan: Plan
    directory: Path
    emit: Callable[[Event], None]
    stop: asyncio.Event
    clock: RunClock = field(default_factory=RunClock)
    in_flight: Callable[[InFlight], None] = lambda _: None
    access: Access = OPEN
    load: LoadGenerator = field(default_factory=LoadGenerator)
    _bodies: set[str] = field(default_factory=set)
    _outputs: set[str] = field(default_factory=set)

    def body_seen(self, prompt: str, body: dict[str, Any]) -> str:
        """The body's id; the body itself is journaled the first time."""
        identity = body_id(prompt, body)
        if identity not in self._bodies:
            self._bodies.add(identity)
            self.emit(BodySeen(body_id=identity, prompt=prompt, body=body))
        return identity

    def output_seen(self, reply: Reply | None) -> str | None:
        """The output's id; the output itself is journaled the first time. None when there was no answer."""
        if reply is None or not (reply.text or reply.reasoning or reply.token_ids):
            return None
        seen = output_of(reply)
        if seen.output_id not in self._outputs:
            self._outputs.add(seen.output_id)
            self.emit(seen)
        return seen.output_id

    def artifact(self, *parts: str) -> Path:
        """The path of an artifact, its folder made."""
        path = self.directory.joinpath(ARTIFACTS, *parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def keep_scrape(self, scrape: Scrape, *parts: str) -> tuple[str, dict[str, float] | None]:
        """Store a scrape's raw text; returns the artifact's name and the series for the journal."""
        path = self.artifact(*parts)
        path.write_text(scrape.text, encoding="utf-8", newline="")
        series = None if scrape.exposition is None else to_json(scrape.exposition)
        return path.relative_to(self.directory).as_posix(), series

    def keep_samples(self, samples: list[RawScrape], *parts: str) -> None:
        """Store the raw texts of a round's samples, compressed: they repeat each other almost entirely."""
        lines = "".join(
            json.dumps({"at_ns": raw.at_ns, "text": raw.text, "error": raw.error}) + "\n" for raw in samples
        )
        self.artifact(*parts).write_bytes(gzip.compress(lines.encode(), mtime=0))
