"""What a server says of itself is asked for once, kept as it came, and absent with a reason where it does not tell."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest
from journals import make_plan
from loopback import LoopbackServer, Trickles

from runner.engine.served import ServedModel, Version
from runner.execution.context import Context
from runner.execution.said import Said, ask
from runner.plan.model import Launch
from runner.record.events import Event

RECORDED = Path(__file__).parents[1] / "recordings" / "h200-b2048" / "on-a"
WHOLE = {
    "/version": (RECORDED / "version.json").read_bytes(),
    "/v1/models": (RECORDED / "models.json").read_bytes(),
    "/server_info?config_format=json": (RECORDED / "server_info.json").read_bytes(),
}


SLOW = b"HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class Pages(LoopbackServer):
    """Answers some paths; the others are not found."""

    def __init__(self, pages: Mapping[str, bytes], below: str = "") -> None:
        super().__init__()
        self._pages = {below + path: body for path, body in pages.items()}
        self.asked: list[str] = []

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
        self.asked.append(path)
        found = self._pages.get(path)
        status = b"404 Not Found" if found is None else b"200 OK"
        body = found if found is not None else b'{"detail":"Not Found"}'
        writer.write(b"HTTP/1.1 %s\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s" % (status, len(body), body))
        await writer.drain()
        writer.close()
        await writer.wait_closed()


def context(folder: Path) -> Context:
    (folder / "run").mkdir(exist_ok=True)
    seen: list[Event] = []
    return Context(make_plan(folder), folder / "run", seen.append, asyncio.Event())


def said(folder: Path, pages: Mapping[str, bytes], below: str = "") -> tuple[Said, list[str]]:
    async def main() -> tuple[Said, list[str]]:
        async with Pages(pages, below) as server:
            found = await ask(context(folder), Launch(arm="on", replicate=1), server.endpoint + below)
            return found, server.asked

    return asyncio.run(main())


def artifacts(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "run").rglob("*.json")}


@pytest.mark.parametrize("below", ["", "/team/a"])
def test_every_answer_is_read_and_kept_as_it_came(tmp_path: Path, below: str) -> None:
    found, asked = said(tmp_path, WHOLE, below)
    assert found.version == Version("0.26.0")
    assert found.models == (ServedModel("qwen2.5-3b", "/models/qwen2.5-3b-shape", None, 4096),)
    assert found.info is not None and found.info.max_num_seqs == 16
    assert found.absent == {}
    assert sorted(asked) == sorted(below + path for path in WHOLE)
    assert artifacts(tmp_path) == {
        "version.json": WHOLE["/version"],
        "models.json": WHOLE["/v1/models"],
        "server_info.json": WHOLE["/server_info?config_format=json"],
    }


def test_what_is_not_there_is_absent_and_says_why(tmp_path: Path) -> None:
    found, _ = said(tmp_path, {})
    assert found == Said(absent=dict.fromkeys(("/version", "/v1/models", "/server_info"), "HTTP 404"))
    assert artifacts(tmp_path) == {}


def test_what_cannot_be_read_is_kept_and_absent(tmp_path: Path) -> None:
    pages = {"/version": b"<html>", "/v1/models": b"[]", "/server_info?config_format=json": b'{"vllm_config": "text"}'}
    found, _ = said(tmp_path, pages)
    assert (found.version, found.models, found.info) == (Version(), None, None)
    assert found.absent["/v1/models"] == "no list of models"
    assert "the text form" in found.absent["/server_info"]
    assert artifacts(tmp_path)["server_info.json"] == b'{"vllm_config": "text"}'


def test_nobody_there_is_absent_too(tmp_path: Path) -> None:
    async def main() -> Said:
        async with Pages({}) as server:
            endpoint = server.endpoint
        return await ask(context(tmp_path), Launch(arm="on", replicate=1), endpoint)

    found = asyncio.run(main())
    assert (found.version, found.models, found.info) == (Version(), None, None)
    assert set(found.absent) == {"/version", "/v1/models", "/server_info"}


def trickled(folder: Path, *, stop: bool) -> dict[str, str]:
    async def main() -> dict[str, str]:
        made = context(folder)
        async with Trickles(SLOW) as server:
            asking = asyncio.ensure_future(ask(made, Launch(arm="on", replicate=1), server.endpoint))
            await server.begun.wait()
            if stop:
                made.stop.set()
            return (await asking).absent

    return asyncio.run(main())


def test_the_limit_is_for_the_whole_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = ("/version", "/v1/models", "/server_info")
    monkeypatch.setattr("runner.execution.said._SECONDS", dict.fromkeys(paths, 0.3))
    assert trickled(tmp_path, stop=False) == dict.fromkeys(paths, "no whole answer within 0.3 s")


def test_a_stopped_run_does_not_wait_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.execution.said._LAST_SECONDS", 0.1)
    found = trickled(tmp_path, stop=True)
    assert found == dict.fromkeys(("/version", "/v1/models", "/server_info"), "the run was stopped before it came")
