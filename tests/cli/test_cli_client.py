"""By what engines let the runner in, and what is said of it: a token read before anything starts, shown nowhere."""

from __future__ import annotations

import asyncio
import json
import ssl
from pathlib import Path
from typing import Any

import httpx
import pytest
from authority import AUTHORITY, AUTHORITY_SHA256, SIGNED, SIGNED_SHA256
from spec_files import GOOD, run, spoil, write

from runner.access import OPEN, Access, blocking_client, http_client
from runner.cli.client import NoAccess, described, ignored_proxies, read_access
from runner.plan.model import PlannedLoad
from runner.spec.authorities import read_authorities
from runner.spec.client import LoadSite
from runner.spec.load import load_site
from runner.spec.site import Site
from runner.tls import trusted

Capsys = pytest.CaptureFixture[str]
SECRET = "s3cr3t"
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("RUNNER_TARGET", "THE_TOKEN", *PROXIES):
        monkeypatch.delenv(name, raising=False)
    write(tmp_path, GOOD)


def token(**where: str) -> LoadSite:
    return LoadSite.model_validate({"bearer-token": where})


# What is sent -------------------------------------------------------------------------------------------


def test_headers_and_token_go_with_every_request_and_nothing_shows_their_values() -> None:
    access = read_access(LoadSite.model_validate({"headers": {"X-Team": "é " + SECRET}}), {})
    assert access.headers == (("X-Team", "é " + SECRET),) and not access.has_token
    access = Access.made({"X-Team": "é"}, SECRET)
    assert access.has_token and not OPEN.has_token
    for shown in (repr(access), str(access), f"{[access]}", f"{(access, 1)!r}"):
        assert "X-Team" in shown and "Authorization" in shown and SECRET not in shown and "é" not in shown
    request = blocking_client(access).build_request("GET", "http://h/")
    assert (b"Authorization", b"Bearer s3cr3t") in request.headers.raw and (b"X-Team", b"\xe9") in request.headers.raw
    other = http_client(access, timeout=7).build_request("GET", "http://h/")
    assert other.headers.raw == request.headers.raw and other.extensions["timeout"]["read"] == 7
    assert "authorization" not in http_client(OPEN).build_request("GET", "http://h/").headers


def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.setenv(name, "http://127.0.0.1:1")

    async def asked() -> None:
        async with http_client(OPEN) as client:
            await client.get("http://127.0.0.2:2")

    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", asked_of)
    with pytest.raises(httpx.ConnectError, match=r"asked of http://127\.0\.0\.2:2; no proxy"):
        asyncio.run(asked())


async def asked_of(transport: httpx.AsyncHTTPTransport, request: httpx.Request) -> httpx.Response:
    proxied = "a proxy" if "Proxy" in type(transport._pool).__name__ else "no proxy"
    raise httpx.ConnectError(f"asked of {request.url}; {proxied}")


@pytest.mark.parametrize("written", [SECRET, f"{SECRET}\n", f"  {SECRET}\r\n", f"\ufeff{SECRET}"])
def test_a_token_is_read_without_the_space_at_its_ends(tmp_path: Path, written: str) -> None:
    (tmp_path / "key").write_bytes(written.encode())
    wanted = (("Authorization", f"Bearer {SECRET}"),)
    assert read_access(token(file=str(tmp_path / "key")), {}).headers == wanted
    assert read_access(token(env="THE_TOKEN"), {"THE_TOKEN": written.lstrip("\ufeff")}).headers == wanted


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "the environment variable THE_TOKEN is not set"),
        ("", "is empty"),
        (" \n", "is empty"),
        (f"{SECRET}\n{SECRET}", "holds several lines"),
        (f"{SECRET}\r{SECRET}", "holds several lines"),
        (f"{SECRET}\x00", "holds signs that no header can hold"),
        (f"{SECRET}한", "holds signs that no header can hold"),
    ],
)
def test_a_variable_without_a_token_is_a_refusal(value: str | None, words: str) -> None:
    with pytest.raises(NoAccess, match=words) as raised:
        read_access(token(env="THE_TOKEN"), {} if value is None else {"THE_TOKEN": value})
    assert SECRET not in str(raised.value) and "THE_TOKEN" in str(raised.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"s3cr3t\ns3cr3t\n", "holds several lines"),
        (b"s3cr3t\xff", "is not UTF-8"),
        (b"s3cr3t" * 20_000, "larger than"),
    ],
)
def test_a_file_without_a_token_is_a_refusal(tmp_path: Path, content: bytes | None, words: str) -> None:
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(NoAccess, match=words) as raised:
        read_access(token(file=str(path)), {})
    assert SECRET not in str(raised.value) and str(path) in str(raised.value)
    with pytest.raises(NoAccess, match="cannot be read: Is a directory"):
        read_access(token(file=str(tmp_path)), {})


def test_a_ca_file_that_is_gone_once_the_site_file_is_read_is_a_refusal(
    tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(path: Path) -> Site:
        site = load_site(path)
        (tmp_path / "company.pem").unlink()
        return site

    (tmp_path / "company.pem").write_bytes(AUTHORITY.read_bytes())
    (tmp_path / "site.yaml").write_text("load: {ca-file: company.pem}\n")
    monkeypatch.setattr("runner.cli.inputs.load_site", load)
    said = run(capsys, "plan", "spec.yaml")
    assert (said.code, said.out, len(said.err)) == (2, "", 1)
    assert said.err[0].startswith(f"run: load.ca-file of the site file: there is no file {tmp_path / 'company.pem'}; ")


@pytest.mark.parametrize("command", [["plan"], []])
def test_without_its_token_nothing_is_started(
    tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    (tmp_path / "site.yaml").write_text("load: {bearer-token: {env: THE_TOKEN}}\n")
    monkeypatch.setattr("runner.cli.run_spec._carry_out", lambda *_: pytest.fail("it was started"))
    said = run(capsys, *command, "spec.yaml")
    assert said.code == 2
    assert said.err == [
        "run: load.bearer-token of the site file: the environment variable THE_TOKEN is not set; set it for the run, "
        "or name a file: {file: PATH}"
    ]
    assert not (tmp_path / "runs").exists()


# What is said -------------------------------------------------------------------------------------------


def test_the_record_gets_names_and_never_values() -> None:
    environ = {"https_proxy": "http://p:1", "ALL_PROXY": "", "NO_PROXY": "x", "HTTP_PROXY": "http://me:pw@p:1"}
    assert ignored_proxies(environ) == ["HTTP_PROXY", "https_proxy"]
    told = described(PlannedLoad(), LoadSite(), {})
    assert told == {"connection": "keep-alive", "processes": "by the rule", "headers": [], "proxies-ignored": []}
    site = LoadSite.model_validate({"headers": {"X-Team": SECRET}, "bearer-token": {"env": "T"}})
    assert described(PlannedLoad(connection="per-request", processes=3), site, environ) == {
        "connection": "per-request",
        "processes": 3,
        "headers": ["X-Team"],
        "bearer-token": "environment variable T",
        "proxies-ignored": ["HTTP_PROXY", "https_proxy"],
    }


def test_the_record_gets_a_ca_files_name_and_the_fingerprints_of_what_it_adds(tmp_path: Path) -> None:
    """Those of the shipped certificates that stand in it are believed anyway."""
    shipped = ssl.DER_cert_to_PEM_cert(trusted("").get_ca_certs(binary_form=True)[0])
    path = tmp_path / "company.pem"
    path.write_text(SIGNED.read_text() + shipped + AUTHORITY.read_text())
    site = LoadSite.model_validate({"ca-file": str(path)})
    told = described(PlannedLoad(), site, {}, read_authorities(path))
    assert (told["ca-file"], told["ca-sha256"]) == ("company.pem", [SIGNED_SHA256, AUTHORITY_SHA256])
    path.write_text(shipped)
    assert described(PlannedLoad(), site, {}, read_authorities(path))["ca-sha256"] == []


def test_the_plan_shows_the_block_and_never_a_value(
    tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_TOKEN", SECRET)
    monkeypatch.setenv("ALL_PROXY", "http://p:1")
    write(tmp_path, spoil("replicates: 1", "replicates: 1\nload: {connection: per-request, processes: 2}")[0])
    (tmp_path / "company.pem").write_bytes(AUTHORITY.read_bytes())
    block = f"load: {{headers: {{X-A: {SECRET}, X-B: b}}, bearer-token: {{env: THE_TOKEN}}, ca-file: company.pem}}\n"
    (tmp_path / "site.yaml").write_text(block)
    said = run(capsys, "plan", "spec.yaml")
    assert said.code == 0 and SECRET not in said.out
    section = said.out.partition("\nload:\n")[2].partition("\ntarget ")[0].splitlines()
    assert section == [
        "  connection: per-request",
        "  processes: 2",
        "  headers: X-A, X-B",
        "  bearer-token: environment variable THE_TOKEN",
        "  ca-file: company.pem",
        f"  ca-sha256: {AUTHORITY_SHA256}",
        "  proxies-ignored: ALL_PROXY",
    ]
    (tmp_path / "site.yaml").write_text("")
    monkeypatch.delenv("ALL_PROXY")
    section = run(capsys, "plan", "spec.yaml").out.partition("\nload:\n")[2].splitlines()
    assert section[2:4] == ["  headers: –", "  proxies-ignored: –"]


def test_the_site_files_processes_win(tmp_path: Path, capsys: Capsys) -> None:
    def planned() -> Any:
        return json.loads(run(capsys, "plan", "--json", "spec.yaml").out)["load"]

    write(tmp_path, spoil("replicates: 1", "replicates: 1\nload: {connection: per-request, processes: 2}")[0])
    assert planned() == {"connection": "per-request", "processes": 2}
    (tmp_path / "site.yaml").write_text("load: {processes: 5}\n")
    assert planned() == {"connection": "per-request", "processes": 5}
    write(tmp_path, GOOD)
    assert planned() == {"connection": "keep-alive", "processes": 5}
    (tmp_path / "site.yaml").write_text("load: {}\n")
    assert planned() == {"connection": "keep-alive", "processes": None}


def test_a_variable_that_engines_inherit_is_hidden_where_it_holds_the_token_whatever_its_name(
    tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_LET_ME_IN", SECRET)
    process = "process: {executable: /bin/sh}\n"
    (tmp_path / "site.yaml").write_text(process)
    assert f'"VLLM_LET_ME_IN": "{SECRET}"' in run(capsys, "plan", "spec.yaml", "--target", "process").out
    (tmp_path / "site.yaml").write_text(process + "load: {bearer-token: {env: VLLM_LET_ME_IN}}\n")
    said = run(capsys, "plan", "spec.yaml", "--target", "process")
    assert said.code == 0 and SECRET not in said.out and '"VLLM_LET_ME_IN": "(hidden)"' in said.out
