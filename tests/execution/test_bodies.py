"""What is journaled as sent is what went over the wire: seen by a relay between the runner and a real engine."""

import asyncio
import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from journals import make_plan

from runner.execution.context import Context
from runner.execution.run import execute
from runner.plan.model import Arm
from runner.record import events
from runner.spec.site import EmbeddedSite
from runner.target.base import RunningEngine, nothing_changed
from runner.target.embedded import EmbeddedTarget


@dataclass
class Relay:
    """A plain TCP relay that keeps what the client sent, one buffer a connection."""

    engine: RunningEngine
    seen: list[bytearray]
    server: asyncio.Server | None = None
    endpoint: str = ""

    async def start(self) -> None:
        self.server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.endpoint = f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        kept = bytearray()
        self.seen.append(kept)
        try:
            there = await asyncio.open_connection("127.0.0.1", int(self.engine.endpoint.rpartition(":")[2]))
        except OSError:
            writer.close()
            return
        await asyncio.gather(self._pump(reader, there[1], kept), self._pump(there[0], writer, None))

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, kept: bytearray | None) -> None:
        with contextlib.suppress(OSError):
            while chunk := await source.read(65536):
                if kept is not None:
                    kept += chunk
                sink.write(chunk)
                await sink.drain()
        with contextlib.suppress(OSError):
            sink.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    async def stop(self) -> str:
        how = await self.engine.stop()
        assert self.server is not None
        self.server.close()
        return how


@dataclass
class RelayedTarget:
    """The embedded target, each engine behind a relay."""

    inner: EmbeddedTarget
    seen: list[bytearray] = field(default_factory=list)
    name: str = "relayed"
    simulated: bool = True

    def settings(self) -> dict[str, Any]:
        return {}

    def stay(self, _: Any) -> Any:
        return nothing_changed()

    async def launch(self, model: str, arm: Arm, log: Path) -> Any:
        relay = Relay(await self.inner.launch(model, arm, log), self.seen)
        await relay.start()
        return relay


def bodies(raw: bytes) -> Iterator[dict[str, Any]]:
    """The JSON bodies of the POST requests in what one connection sent."""
    while raw:
        head, _, rest = raw.partition(b"\r\n\r\n")
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        length = int(lengths[0].partition(b":")[2]) if lengths else 0
        if head.startswith(b"POST"):
            yield json.loads(rest[:length])
        raw = rest[length:]


@pytest.mark.parametrize("stream", [False, True])
def test_every_body_on_the_wire_is_the_journaled_one_field_by_field(tmp_path: Path, stream: bool) -> None:
    def small(spec: dict[str, Any]) -> None:
        spec["phases"] = {"load": {"concurrency": [2], "requests": 4, "stream": stream, "warm-up": {"requests": 1}}}
        spec["request"].update({"max_tokens": 8, "seed": 7, "top_p": 1.0, "stop": None})
        spec["conditions"]["on"]["request"] = {"top_p": 0.5}

    journal: list[events.Event] = []
    target = RelayedTarget(EmbeddedTarget(EmbeddedSite.model_validate({"time-scale": 0.02})))

    async def main() -> None:
        context = Context(make_plan(tmp_path, small), tmp_path, journal.append, asyncio.Event())
        await execute(context, target)

    asyncio.run(main())
    sent = [body for raw in target.seen for body in bodies(bytes(raw))]
    known = {event.body_id: event.body for event in journal if isinstance(event, events.BodySeen)}
    recorded = [known[event.body_id] for event in journal if isinstance(event, events.RequestDone)]
    # A probe that came too early was answered by nobody: it is on no wire, or refused, and in no journal.
    assert [body for body in sent if body not in recorded] == []
    assert sorted(map(json.dumps, recorded)) == sorted(map(json.dumps, sent))
    measured = [body for body in sent if body.get("seed") == 7]
    assert len(measured) == 2 * (1 + 1 + 4)  # per condition: the proof, the warm-up, the measured ones
    assert {body["top_p"] for body in measured} == {1.0, 0.5}
    assert all(body["stop"] is None and body["stream"] is stream for body in measured)
