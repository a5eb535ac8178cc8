"""Whether a Pod can be reached from here, told before its engine is Ready."""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from runner.target.base import TargetError
from runner.target.kubernetes import target


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "_REACH_SECONDS", 0.3)
    monkeypatch.setattr(target, "_REACH_AGAIN", 0.05)


def closed_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def reached(port: int, *, listening: bool) -> None:
    asyncio.run(target._reached(f"http://127.0.0.1:{port}", "pod-ip", listening=listening))


def test_a_refusal_is_an_answer_of_a_pod_that_does_not_listen_yet() -> None:
    reached(closed_port(), listening=False)
    with pytest.raises(TargetError, match="the engine is Ready and cannot be reached from here") as told:
        reached(closed_port(), listening=True)
    assert "{transport: node-port}" in str(told.value) and "{transport: port-forward}" in str(told.value)


class Answering(BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.mark.parametrize(("status", "engine"), [(200, True), (503, True), (404, False), (502, False)])
def test_a_proxy_that_takes_every_connection_is_not_the_engine(
    monkeypatch: pytest.MonkeyPatch, status: int, engine: bool
) -> None:
    monkeypatch.setattr(target, "_REACH_SECONDS", 4.0)
    handler = type("Handler", (Answering,), {"status": status})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            reached(server.server_port, listening=False)
            if engine:
                reached(server.server_port, listening=True)
                return
            with pytest.raises(TargetError, match=f"answers /health with HTTP {status}"):
                reached(server.server_port, listening=True)
        finally:
            server.shutdown()


@pytest.mark.parametrize("listening", [True, False])
def test_no_way_there_is_told_whether_the_engine_is_ready_or_not(
    monkeypatch: pytest.MonkeyPatch, listening: bool
) -> None:
    async def no_route(*_: Any) -> None:
        raise OSError(errno.EHOSTUNREACH, "No route to host")

    monkeypatch.setattr(asyncio, "open_connection", no_route)
    with pytest.raises(TargetError, match="No route to host"):
        reached(1, listening=listening)


def test_silence_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(*_: Any) -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(asyncio, "open_connection", silent)
    with pytest.raises(TargetError, match=r"no connection within 0\.3 s"):
        reached(1, listening=False)


def test_a_way_that_is_laid_a_moment_later_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = 0

    async def later(*_: Any) -> None:
        nonlocal tries
        tries += 1
        raise OSError(errno.EHOSTUNREACH, "No route to host") if tries < 3 else ConnectionRefusedError

    monkeypatch.setattr(asyncio, "open_connection", later)
    reached(1, listening=False)
    assert tries == 3
