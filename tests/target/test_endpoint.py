"""The target of servers that run already: what makes a plan impossible, how a server is reached, what is left alone."""

from __future__ import annotations

import asyncio
import copy
import json
import ssl
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from authority import AUTHORITY, signed
from loopback import LoopbackServer, Trickles, free_port

from runner.access import Access
from runner.plan.build import build_plan
from runner.plan.model import Plan
from runner.spec.authorities import read_authorities
from runner.spec.load import load_spec
from runner.spec.site import EndpointSite
from runner.target.base import NoGpus, TargetError
from runner.target.endpoint import EndpointEngine, EndpointTarget
from runner.tls import trusted

SPEC: dict[str, Any] = {
    "name": "s",
    "model": "org/model",
    "conditions": {"off": {}, "on": {"args": {"spec-method": "ngram", "spec-tokens": 5}}},
    "prompts": {"p": {"messages": [{"role": "user", "content": "x"}]}},
    "phases": {"load": {"concurrency": [1], "requests": 1}},
}


def plan(folder: Path, **changed: Any) -> Plan:
    path = folder / "spec.yaml"
    path.write_text(json.dumps({**copy.deepcopy(SPEC), **changed}), encoding="utf-8")
    return build_plan(load_spec(path), "endpoint")


def target(**urls: str) -> EndpointTarget:
    return EndpointTarget(
        EndpointSite.model_validate({"urls": {name.replace("_", "-"): u for name, u in urls.items()}})
    )


# What makes a plan impossible -------------------------------------------------------------------------


def test_a_url_for_each_condition_is_no_problem(tmp_path: Path) -> None:
    assert target(off="http://a:1", on="http://b:1").problems(plan(tmp_path)) == []


def test_a_condition_without_a_url_and_a_url_without_a_condition_are_named_with_what_was_meant(tmp_path: Path) -> None:
    assert target(off="http://a:1", onn="http://b:1").problems(plan(tmp_path)) == [
        'no URL for the condition "on"; did you mean "onn"?',
        '"onn" has a URL and is no condition of this spec; did you mean "on"?',
    ]
    assert target().problems(plan(tmp_path)) == [
        'no URL for the condition "off"; name one: endpoint: {urls: {off: http://HOST:PORT}} in the site file',
        'no URL for the condition "on"; name one: endpoint: {urls: {on: http://HOST:PORT}} in the site file',
    ]


def test_conditions_that_a_matrix_makes_have_a_url_by_their_ids(tmp_path: Path) -> None:
    conditions = {"off": {}, "on": {"args": {"spec-method": "ngram"}, "matrix": {"spec-tokens": [1, 5]}}}
    made = plan(tmp_path, conditions=conditions)
    assert [arm.id for arm in made.arms] == ["off", "on-spec-tokens-1", "on-spec-tokens-5"]
    ids = {"on_spec_tokens_1": "http://b:1", "on_spec_tokens_5": "http://c:1"}
    assert target(off="http://a:1", **ids).problems(made) == []
    assert target(off="http://a:1", on="http://b:1", on_spec_tokens_5="http://c:1").problems(made) == [
        'no URL for the condition "on-spec-tokens-1"; name one: endpoint: {urls: {on-spec-tokens-1: http://HOST:PORT}} '
        "in the site file",
        '"on" has a URL and is no condition of this spec; its matrix makes on-spec-tokens-1, on-spec-tokens-5; '
        "each has a URL of its own",
    ]
    single = plan(tmp_path, conditions={"off": {}, "on": {"matrix": {"spec-tokens": [1]}}})
    for name in ("on", "on_spec_tokens_1"):
        assert target(off="http://a:1", **{name: "http://b:1"}).problems(single) == []


def test_a_name_in_capitals_is_found_by_the_name_and_by_the_id(tmp_path: Path) -> None:
    made = plan(tmp_path, conditions={"Base case": {}})
    assert made.arms[0].id == "base-case"
    for name in ("Base case", "base_case"):
        assert target(**{name: "http://a:1"}).problems(made) == []


def test_fresh_processes_cannot_be_had(tmp_path: Path) -> None:
    urls = target(off="http://a:1", on="http://b:1")
    [problem] = urls.problems(plan(tmp_path, replicates=2))
    assert problem.startswith("replicates: 2 asks for fresh engine processes")


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        ("http://a:8000", "http://a:8000", True),
        ("http://a:8000", "http://a:8000/", True),
        ("http://A:8000", "http://a:8000", True),
        ("http://a", "http://a:80", True),
        ("https://a", "https://a:443", True),
        ("http://localhost:8000", "http://127.0.0.1:8000", True),
        ("http://localhost:8000", "http://[::1]:8000", True),
        ("http://127.0.0.1:8000", "http://127.1.2.3:8000", True),
        ("http://0.0.0.0:8000", "http://localhost:8000", True),
        ("http://a:8000/x", "http://a:8000/x/", True),
        ("http://a:443", "https://a", True),
        ("http://a:8000", "http://a:8001", False),
        ("http://a:8000", "http://b:8000", False),
        ("http://a:8000/x", "http://a:8000/y", False),
        ("http://a", "https://a", False),
    ],
)
def test_one_server_cannot_be_two_conditions_however_its_address_is_written(
    tmp_path: Path, one: str, other: str, shared: bool
) -> None:
    problems = target(off=one, on=other).problems(plan(tmp_path))
    assert len(problems) == shared, problems
    if shared:
        assert '"off" and "on" start their engines differently and are both served by' in problems[0]


@pytest.mark.parametrize(
    ("changed", "shared"),
    [
        ({"request": {"temperature": 1}}, 0),
        ({"env": {"A": "1"}}, 1),
        ({"args": {"x": 1}}, 1),
        ({"template-values": {"a": 1}}, 1),
        ({}, 0),
    ],
)
def test_conditions_that_differ_in_their_requests_alone_may_share_a_server(
    tmp_path: Path, changed: dict[str, Any], shared: int
) -> None:
    made = plan(tmp_path, conditions={"one": {}, "two": changed})
    assert len(target(one="http://a:1", two="http://a:1").problems(made)) == shared


# Reaching a server, and leaving it alone --------------------------------------------------------------


class Says(LoopbackServer):
    """Answers every request with the same bytes; `asked` are the first lines."""

    def __init__(self, answer: bytes) -> None:
        super().__init__()
        self.asked: list[bytes] = []
        self._answer = answer

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append((await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0])
        writer.write(self._answer)
        await writer.drain()
        writer.close()
        await writer.wait_closed()


def launch(made: Plan, answer: bytes, path: str = "") -> tuple[EndpointEngine, list[bytes], str]:
    async def main() -> tuple[EndpointEngine, list[bytes], str]:
        async with Says(answer) as server:
            urls = target(off=server.endpoint + path, on="http://b:1")
            engine = await urls.launch(made.model, made.arm("off"), Path("unused"))
            assert await engine.stop() == "left running: it was there before"
            assert await engine.stop() == "left running: it was there before"
            return engine, server.asked, server.endpoint

    return asyncio.run(main())


@pytest.mark.parametrize("status", [b"200 OK", b"404 Not Found", b"503 Loading"])
def test_a_server_that_answers_anything_is_reached_and_left_alone(tmp_path: Path, status: bytes) -> None:
    answer = b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\n\r\n"
    engine, asked, endpoint = launch(plan(tmp_path), answer, "/team/a/")
    assert asked == [b"GET /team/a/version HTTP/1.1"]  # nothing was sent to stop it
    assert engine.endpoint == engine.identity == f"{endpoint}/team/a"
    assert (engine.command, engine.env, engine.exit_code(), engine.log(), engine.stranger()) == (
        [],
        {},
        None,
        None,
        None,
    )
    assert isinstance(engine.gpus, NoGpus) and engine.gpus.reason
    assert not (tmp_path / "unused").exists()


def test_a_server_that_is_not_there_is_an_error_that_names_its_url(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    made = plan(tmp_path)
    with pytest.raises(TargetError, match=f"no server answers at {url}: "):
        asyncio.run(target(off=url, on="http://b:1").launch("m", made.arm("off"), tmp_path / "log"))
    with pytest.raises(TargetError, match=r"no server answers at http://a\.\.b"):
        asyncio.run(target(off="http://a..b", on="http://b:1").launch("m", made.arm("off"), tmp_path / "log"))


def test_what_does_not_speak_http_is_no_server(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="no server answers at http://127"):
        launch(plan(tmp_path), b"SSH-2.0-OpenSSH\r\n")


def shipped() -> str:
    """An authority that is believed anyway, and signed nothing here."""
    return ssl.DER_cert_to_PEM_cert(trusted("").get_ca_certs(binary_form=True)[0])


@pytest.mark.parametrize(
    ("name", "authorities", "words"),
    [
        (
            "localhost",
            lambda: "",
            r"issuer certificate; where an authority of your own signed it, name that in the site file, "
            r"load: \{ca-file: PATH\}$",
        ),
        (
            "localhost",
            shipped,
            "issuer certificate; neither the shipped certificates nor those of load: ca-file in the site file vouch",
        ),
        pytest.param(
            "127.0.0.2",
            lambda: read_authorities(AUTHORITY),
            r"certificate is not valid for '127\.0\.0\.2'$",
            marks=pytest.mark.skipif(sys.platform != "linux", reason="a machine's own address elsewhere is 127.0.0.1"),
        ),
    ],
)
def test_a_certificate_that_is_not_believed_is_said_with_the_way_out_where_that_is_one(
    tmp_path: Path, name: str, authorities: Callable[[], str], words: str
) -> None:
    made = plan(tmp_path)
    access = Access(authorities=authorities())

    async def main() -> None:
        async with LoopbackServer("0.0.0.0", signed()) as server:
            urls = EndpointSite(urls={"off": f"https://{name}:{server.port}"})
            await EndpointTarget(urls, access).launch("m", made.arm("off"), tmp_path / "log")

    with pytest.raises(TargetError, match=f"the certificate of https://{name}:[0-9]+ is not believed: .*{words}"):
        asyncio.run(main())


def test_the_limit_is_for_the_whole_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.target.endpoint._REACH_SECONDS", 0.3)
    made = plan(tmp_path)

    async def main() -> None:
        async with Trickles(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n") as server:
            await target(off=server.endpoint, on="http://b:1").launch("m", made.arm("off"), tmp_path / "log")

    with pytest.raises(TargetError, match=r"no server answers at http://127.*: no whole answer within 0\.3 s"):
        asyncio.run(main())


def test_a_condition_without_a_url_is_never_served_by_anothers(tmp_path: Path) -> None:
    made = plan(tmp_path)
    with pytest.raises(TargetError, match='no URL for the condition "on"'):
        asyncio.run(target(off="http://a:1").launch("m", made.arm("on"), tmp_path / "log"))


def test_the_record_gets_the_urls_and_nothing_claims_to_be_simulated() -> None:
    urls = target(off="http://a:1/")
    assert urls.settings() == {"urls": {"off": "http://a:1"}}
    assert (urls.name, urls.simulated) == ("endpoint", False)
