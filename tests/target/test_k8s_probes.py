"""What an engine that was there answers, and why it does not."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from k8s_objects import pod

from runner.access import Access
from runner.target.base import NoGpus, RemoteGpus, Transport
from runner.target.kubernetes import engine as engine_module
from runner.target.kubernetes.engine import KubernetesEngine
from runner.target.kubernetes.port_forward import PortForward
from runner.target.kubernetes.probes import probe

MODELS = json.dumps({"data": [{"id": "qwen"}]}).encode()


@contextlib.contextmanager
def answering(status: int, body: bytes = b"{}", wanted: Mapping[str, str] | None = None) -> Iterator[str]:
    """`wanted` are headers without which the answer is HTTP 401."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = all(self.headers.get(name) == value for name, value in (wanted or {}).items())
            self.send_response(status if asked else 401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@pytest.mark.parametrize("status", [401, 403])
def test_a_baseline_that_asks_for_a_key_is_said_to(status: int) -> None:
    with answering(status, b'{"error": "Unauthorized"}') as url:
        unmet = probe(url).unmet
    assert unmet is not None and unmet.startswith(f"/v1/models is answered with HTTP {status}: it asks for an API key")
    assert "lists no model" not in unmet


def test_a_key_that_was_named_is_sent_and_one_that_is_not_taken_is_said_to_be() -> None:
    named = Access.made({"X-Team": "a"}, "k3y")
    with answering(200, MODELS, {"authorization": "Bearer k3y", "x-team": "a"}) as url:
        assert probe(url, access=named).model == "qwen"
        unmet = probe(url, access=Access.made({"X-Team": "a"}, "0ther")).unmet
        assert (
            unmet is not None and "does not take the token that the site file names" in unmet and "0ther" not in unmet
        )
        unmet = probe(url, access=Access.made({"X-Team": "a"}, None)).unmet
        assert unmet is not None and "load: {bearer-token: {env: NAME}}" in unmet


def test_another_status_is_told_as_it_is() -> None:
    with answering(502, MODELS) as url:
        assert probe(url).unmet == "/v1/models is answered with HTTP 502"
    with answering(200, b'{"data": []}') as url:
        assert probe(url).unmet == "/v1/models lists no model"


def test_why_the_way_there_failed_is_told_with_what_is_unmet() -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{one.getsockname()[1]}"
    unmet = probe(url, lambda: "could not reach port 8000 of Pod ns/engine").unmet
    assert unmet is not None and unmet.endswith(" (could not reach port 8000 of Pod ns/engine)")
    assert "(" not in str(probe(url).unmet).replace("[Errno", "")


class NoCluster:
    namespace = "ns"


def test_a_connection_that_fails_is_closed_only_when_its_reason_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: PortForward) -> Any:
        raise OSError("not allowed to reach port 8000")

    gone, go = PortForward._gone, threading.Event()

    def late(forward: PortForward, connection: Any) -> None:
        go.wait(10)
        gone(forward, connection)

    monkeypatch.setattr(PortForward, "_dial", refuse)
    monkeypatch.setattr(PortForward, "_gone", late)
    cluster: Any = NoCluster()
    forward = PortForward(cluster, "engine", 8000)
    try:
        unmet = probe(forward.url, lambda: forward.problem).unmet
        assert unmet is not None and "(not allowed to reach port 8000)" in unmet
    finally:
        go.set()
        forward.close()


class Part:
    """A log, or a forward, of which only the problem is asked."""

    def __init__(self) -> None:
        self.problem: str | None = None

    def close(self) -> None:
        pass


class Pods(NoCluster):
    def __init__(self, one: dict[str, Any]) -> None:
        self.one = one

    def get(self, _kind: str, _name: str) -> dict[str, Any]:
        return self.one


def engine(one: dict[str, Any], log: Any = None, forward: Any = None, warned: Any = None) -> KubernetesEngine:
    cluster: Any = Pods(one)
    kept: Any = log or Part()
    more = {} if warned is None else {"warned": warned}
    return KubernetesEngine(
        cluster,
        one,
        "c",
        endpoint="http://h:1",
        transport=Transport("pod-ip"),
        facts={},
        log=kept,
        forward=forward,
        gpu_command=["nvidia-smi"],
        **more,
    )


def test_what_the_log_and_the_way_suffer_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "_BETWEEN_LOOKS", 0.0)
    told: list[tuple[str, str]] = []
    log, forward = Part(), Part()
    one = engine(pod("engine"), log, forward, lambda about, text: told.append((about, text)))
    asyncio.run(one.look())
    assert told == []
    log.problem = "not allowed to read the log"
    asyncio.run(one.look())
    asyncio.run(one.look())
    assert told == [("log of Pod engine", "not allowed to read the log")]
    forward.problem = "the connection broke off"
    asyncio.run(one.stop())
    assert told[1:] == [("port-forward of Pod engine", "the connection broke off")]


@pytest.mark.parametrize(
    "resources",
    [
        {"limits": {"nvidia.com/gpu": 1}},
        {"limits": {"nvidia.com/mig-1g.5gb": "1"}},
        {"requests": {"amd.com/gpu": "1"}},
        {"claims": [{"name": "gpu"}]},
    ],
)
def test_a_container_that_is_given_a_gpu_or_a_part_of_one(resources: dict[str, Any]) -> None:
    one = pod("engine", containers=[{"name": "c", "resources": resources}], runtimeClassName="nvidia")
    gpus = engine(one).gpus
    assert isinstance(gpus, RemoteGpus) and gpus.doubt is None


@pytest.mark.parametrize("name", ["nvidia", "crun-gpu"])
def test_gpus_that_are_seen_unasked_are_in_doubt(name: str) -> None:
    limits = {"cpu": "1", "rdma/hca": "1"}
    beside = {"name": "other", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    one = pod("engine", containers=[{"name": "c", "resources": {"limits": limits}}, beside], runtimeClassName=name)
    gpus = engine(one).gpus
    assert isinstance(gpus, RemoteGpus) and gpus.doubt is not None
    assert f"asks for no GPU, and sees those of its node by runtime class {name}" in gpus.doubt


def test_no_gpu_is_none() -> None:
    assert engine(pod("engine")).gpus == NoGpus("the container asks for no GPU")
