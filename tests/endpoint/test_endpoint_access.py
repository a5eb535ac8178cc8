"""Whole experiments on engines that ask for a key: every request brings it, and nothing that is kept has it."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import os
import queue
import re
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from authority import AUTHORITY, AUTHORITY_SHA256, signed
from endpoint_engines import ROOT, Finished, Server, allow, finish, serving, write
from loopback import LoopbackServer

KEY = "k3y-of-the-engine"
SECRET = "v4lue-of-a-header"
UNSEEN = ("configuration-in-force", "declared-differences", "request-options")
"""Nobody shows these of a server that was there."""


def brief(spec: dict[str, Any]) -> None:
    spec["conditions"] = {"off": {}}
    spec["request"]["max_tokens"] = 16
    spec["phases"]["load"] = {"concurrency": [2], "requests": 4, "warm-up": {"requests": 1}, "stream": True}


def start(folder: Path, *words: str, **env: str) -> subprocess.Popen[str]:
    kept = {name: value for name, value in os.environ.items() if not re.search("RUNNER_|KUBECONFIG|_proxy", name, re.I)}
    return subprocess.Popen(
        [sys.executable, "-m", "runner", "spec.yaml", *words],
        cwd=folder,
        env={**kept, "HOME": "/nonexistent", "PYTHONPATH": str(ROOT), **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def measured(folder: Path, urls: dict[str, str], site: dict[str, Any], **env: str) -> Finished:
    write(folder, urls, brief, allow(*UNSEEN))
    (folder / "there.yaml").write_text(json.dumps({"endpoint": {"urls": urls}, **site}), encoding="utf-8")
    return finish(folder, start(folder, "--target", "endpoint", "--site", "there.yaml", **env))


def kept(directory: Path) -> Iterator[tuple[Path, bytes]]:
    """Every file of a run's directory, unpacked."""
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            yield path, gzip.decompress(data) if path.suffix == ".gz" else data


def holding(ended: Finished, *secrets: str) -> list[str]:
    """Where one of the secrets stands: files of the run, or the terminal."""
    places = [(str(path), data) for path, data in kept(ended.directory)]
    assert {"journal.jsonl", "plan.json", "result.json", "report.md"} <= {Path(name).name for name, _ in places}
    places += [("stdout", ended.out.encode()), ("stderr", ended.err.encode())]
    return [name for name, data in places for secret in secrets if secret.encode() in data]


@contextlib.contextmanager
def overheard(url: str) -> Iterator[tuple[str, list[bytearray]]]:
    """Another URL of the same server, and what each connection to it was told."""
    there, heard = urlsplit(url), list[bytearray]()

    class Relay(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            told = bytearray()
            heard.append(told)
            with socket.create_connection((there.hostname, there.port)) as server:
                back = threading.Thread(target=_pass_on, args=(server, self.request, bytearray()))
                back.start()
                _pass_on(self.request, server, told)
                back.join()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Relay) as relay:
        serves = threading.Thread(target=relay.serve_forever, kwargs={"poll_interval": 0.02})
        serves.start()
        try:
            yield f"http://127.0.0.1:{relay.server_address[1]}", heard
        finally:
            relay.shutdown()
            serves.join()


def _pass_on(source: socket.socket, sink: socket.socket, told: bytearray) -> None:
    with contextlib.suppress(OSError):
        while part := source.recv(65536):
            told += part
            sink.sendall(part)
        sink.shutdown(socket.SHUT_WR)


def heads(heard: list[bytearray]) -> list[tuple[str, dict[str, str]]]:
    """The path and the headers of every request, whatever came before and after them on its connection."""
    found = []
    for told in heard:
        for path, head in re.findall(rb"(?:GET|POST) (\S+) HTTP/1\.1\r\n(.*?)\r\n\r\n", bytes(told), re.DOTALL):
            lines = [line.partition(": ") for line in head.decode("latin-1").split("\r\n")]
            found.append((path.decode(), {name.lower(): value for name, _, value in lines}))
    return found


def test_every_request_brings_headers_and_token_and_nothing_that_is_kept_has_them(tmp_path: Path) -> None:
    server = Server(tmp_path, "--api-key", "another", KEY, VLLM_SERVER_DEV_MODE="1")
    (tmp_path / "key").write_text(KEY + "\n")
    site = {"load": {"headers": {"X-Team": f"é {SECRET}"}, "bearer-token": {"file": "key"}}}
    with serving(server), overheard(server.url) as (url, heard):
        ended = measured(tmp_path, {"off": url}, site, ALL_PROXY="http://127.0.0.1:1", no_proxy="")
    assert ended.code == 0, ended.out + ended.err
    asked = heads(heard)
    paths = {path.partition("?")[0] for path, _ in asked}
    assert {"/version", "/v1/models", "/server_info", "/metrics", "/v1/chat/completions"} <= paths
    for path, headers in asked:
        assert headers["authorization"] == f"Bearer {KEY}", path
        assert headers["x-team"] == f"é {SECRET}", path
    assert holding(ended, KEY, SECRET) == []
    # What is told instead: names, and where the token came from.
    where = f"file {tmp_path / 'key'}"
    assert ended.record.started.client == {
        "connection": "keep-alive",
        "processes": "by the rule",
        "headers": ["X-Team"],
        "bearer-token": where,
        "proxies-ignored": ["ALL_PROXY"],
    }
    assert "note: no request to an engine goes through a proxy; ignored: ALL_PROXY" in ended.err.splitlines()
    [line] = [line for line in ended.report.splitlines() if re.search(r"^\W*client\b(?! host)", line)]
    assert "`X-Team`" in line and f"`{where}`" in line and "`ALL_PROXY`" in line


@pytest.mark.parametrize("load", [{}, {"load": {"bearer-token": {"env": "THE_KEY"}}}], ids=["none", "another"])
def test_a_server_that_does_not_know_the_token_refuses_the_first_request(tmp_path: Path, load: dict[str, Any]) -> None:
    server = Server(tmp_path, VLLM_API_KEY=KEY)
    with serving(server):
        ended = measured(tmp_path, {"off": server.url}, load, THE_KEY="not-the-k3y")
    assert ended.code == 3, ended.out + ended.err
    assert "off: the engine refuses a one-token request: http-error: HTTP 401" in ended.out
    assert holding(ended, "not-the-k3y", KEY) == []
    assert "proxies" not in ended.err and ended.record.started.client["proxies-ignored"] == []


def test_an_engine_that_is_started_here_with_a_key_is_measured(tmp_path: Path) -> None:
    """The variable is the engine's by inheritance, and the runner's by the site file."""
    write(tmp_path, {}, brief)
    site = {"embedded": {"time-scale": 0.02}, "load": {"bearer-token": {"env": "VLLM_API_KEY"}}}
    (tmp_path / "site.yaml").write_text(json.dumps(site), encoding="utf-8")
    ended = finish(tmp_path, start(tmp_path, VLLM_API_KEY=KEY))
    assert ended.code == 0, ended.out + ended.err
    assert holding(ended, KEY) == []
    assert ended.record.started.client["bearer-token"] == "environment variable VLLM_API_KEY"
    (tmp_path / "site.yaml").write_text("embedded: {time-scale: 0.02}\n")
    refused = finish(tmp_path, start(tmp_path, VLLM_API_KEY=KEY))
    assert refused.code == 3 and "HTTP 401" in refused.out, refused.out + refused.err


# Over https -------------------------------------------------------------------------------------------


class Front(LoopbackServer):
    """An ingress: ends TLS, and passes on to a server over plain http."""

    def __init__(self, url: str) -> None:
        super().__init__(tls=signed())
        there = urlsplit(url)
        self._there = there.hostname, there.port

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                while part := await source.read(65536):
                    sink.write(part)
                    await sink.drain()
            sink.close()

        from_there, to_there = await asyncio.open_connection(*self._there)
        await asyncio.gather(pass_on(reader, to_there), pass_on(from_there, writer))


@contextlib.contextmanager
def fronted(url: str) -> Iterator[str]:
    """The same server's https URL."""
    begun: queue.Queue[tuple[str, Callable[[], object]]] = queue.Queue()

    async def serve() -> None:
        async with Front(url) as front:
            stop, loop = asyncio.Event(), asyncio.get_running_loop()
            begun.put((f"https://localhost:{front.port}", lambda: loop.call_soon_threadsafe(stop.set)))
            await stop.wait()

    serves = threading.Thread(target=asyncio.run, args=(serve(),))
    serves.start()
    there, stop = begun.get(timeout=30)
    try:
        yield there
    finally:
        stop()
        serves.join()


def test_an_engine_behind_an_authority_of_its_own_is_measured_where_the_site_file_names_that(tmp_path: Path) -> None:
    server = Server(tmp_path, VLLM_SERVER_DEV_MODE="1")
    with serving(server), fronted(server.url) as url:
        refused = measured(tmp_path, {"off": url}, {}, SSL_CERT_FILE=str(AUTHORITY))
        assert refused.code == 3, refused.out + refused.err
        way_out = "where an authority of your own signed it, name that in the site file, load: {ca-file: PATH}"
        said = f"the certificate of {url} is not believed: unable to get local issuer certificate; {way_out}"
        assert refused.out.count(said) == 1, refused.out
        (tmp_path / "company.pem").write_bytes(AUTHORITY.read_bytes())
        ended = measured(tmp_path, {"off": url}, {"load": {"ca-file": "company.pem"}})
    assert ended.code == 0, ended.out + ended.err
    for check in ("one-engine-process", "request-count"):
        assert ended.judgement(check) == "pass"  # what the metrics say was read too
    client = ended.record.started.client
    assert (client["ca-file"], client["ca-sha256"]) == ("company.pem", [AUTHORITY_SHA256])
    assert f"certificates of `company.pem` trusted too; their SHA-256 `{AUTHORITY_SHA256}`" in ended.report
    assert "ca-file" not in refused.record.started.client
