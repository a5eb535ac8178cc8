"""The block `load:`: how requests are sent, in a spec; by what engines let anybody in, in a site file."""

from __future__ import annotations

import os
import re
import ssl
from pathlib import Path

import pytest
from authority import AUTHORITY, AUTHORITY_SHA256, SIGNED, SIGNED_SHA256
from spec_files import GOOD, run, spoil, write

from runner.spec.authorities import certificates, fingerprint, read_authorities
from runner.spec.load import load_site, load_spec

Capsys = pytest.CaptureFixture[str]
PAGE = Path(__file__).parents[2] / "docs" / "load.md"
SECRET = "s3cr3t"


def site(folder: Path, text: str) -> Path:
    path = folder / "site.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def spec(folder: Path, block: str) -> Path:
    return write(folder, spoil("replicates: 1", f"replicates: 1\nload: {block}")[0])


# In a spec ----------------------------------------------------------------------------------------------


def test_a_spec_that_says_nothing_keeps_connections_and_leaves_the_processes_to_the_rule(tmp_path: Path) -> None:
    experiment = load_spec(write(tmp_path, GOOD)).experiment
    assert (experiment.load.connection, experiment.load.processes) == ("keep-alive", None)
    assert experiment.limits.round_seconds is None


def test_what_a_spec_says_is_kept(tmp_path: Path) -> None:
    load = load_spec(spec(tmp_path, "{processes: 3, connection: per-request}")).experiment.load
    assert (load.connection, load.processes) == ("per-request", 3)
    text = spoil("max-failed: 0", "max-failed: 0\n  round-seconds: 90")[0]
    assert load_spec(write(tmp_path, text)).experiment.limits.round_seconds == 90.0


FAULTS = [
    ("{processes: 0}", "0", "load.processes", "must be at least 1, not 0"),
    ("{processes: 1.5}", "1.5", "load.processes", "must be a whole number"),
    ("{processes: auto}", "auto", "load.processes", "must be a whole number"),
    ("{procesess: 1}", "procesess", "load.procesess", 'did you mean "processes"?'),
    ("{connection: keepalive}", "keepalive", "load.connection", 'did you mean "keep-alive"?'),
    ("{connection: per_request}", "per_request", "load.connection", 'did you mean "per-request"?'),
    ("{headers: {X: y}}", "headers", "load.headers", "unknown key"),
    ("{bearer-token: {env: T}}", "bearer-token", "load.bearer-token", "unknown key"),
    ("{ca-file: ca.pem}", "ca-file", "load.ca-file", "unknown key"),
    ("4", "4", "load", "must be a mapping"),
]


@pytest.mark.parametrize(("block", "at", "key", "words"), FAULTS)
def test_one_fault_of_a_spec_one_message(
    tmp_path: Path, capsys: Capsys, block: str, at: str, key: str, words: str
) -> None:
    text, line, column = spoil("replicates: 1", f"replicates: 1\nload: {block}", at if at != "4" else None)
    if at == "4":
        line, column = line + 1, len("load: ") + 1
    path = write(tmp_path, text)
    said = run(capsys, "validate", path)
    assert (said.code, len(said.err)) == (2, 1), said.err
    assert said.err[0].startswith(f"{path}:{line}:{column}: {key}: ") and words in said.err[0], said.err


@pytest.mark.parametrize("value", ["0", "-1", "soon", ".inf"])
def test_a_limit_of_a_round_is_a_time(tmp_path: Path, capsys: Capsys, value: str) -> None:
    text, line, column = spoil("max-failed: 0", f"max-failed: 0\n  round-seconds: {value}", value)
    if value == "0":
        line, column = line + 1, len("  round-seconds: ") + 1
    said = run(capsys, "validate", path := write(tmp_path, text))
    assert (said.code, len(said.err)) == (2, 1), said.err
    assert said.err[0].startswith(f"{path}:{line}:{column}: limits.round-seconds: must be "), said.err


# In a site file -----------------------------------------------------------------------------------------


def test_a_site_file_that_says_nothing_sends_nothing_of_its_own(tmp_path: Path) -> None:
    for text in ("", "target: embedded\n"):
        load = load_site(site(tmp_path, text)).load
        assert (load.processes, load.headers, load.bearer_token, load.ca_file) == (None, {}, None, None)


def test_headers_are_kept_as_they_are_written(tmp_path: Path) -> None:
    text = "load: {processes: 2, headers: {X-Team: infra, x_1!: 'a \tb', Accept: é, X-Empty: ''}}\n"
    load = load_site(site(tmp_path, text)).load
    assert load.headers == {"X-Team": "infra", "x_1!": "a \tb", "Accept": "é", "X-Empty": ""}
    assert load.processes == 2


@pytest.mark.parametrize(
    ("written", "kept"),
    [("key", "{folder}/key"), ("../key", "{parent}/key"), ("/etc/key", "/etc/key"), ("~/key", "{home}/key")],
)
def test_a_tokens_file_starts_from_the_folder_of_the_site_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, kept: str
) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "place").mkdir()
    place = Path("place")
    site(place, f"load: {{bearer-token: {{file: '{written}'}}}}\n")
    token = load_site(place / "site.yaml").load.bearer_token
    assert token is not None
    wanted = kept.format(folder=tmp_path / "place", parent=tmp_path, home="/home/somebody")
    assert (token.file, token.env, token.where) == (wanted, None, f"file {wanted}")


def test_a_variable_is_a_place_too(tmp_path: Path) -> None:
    token = load_site(site(tmp_path, "load: {bearer-token: {env: VLLM_API_KEY}}\n")).load.bearer_token
    assert token is not None
    assert (token.env, token.file, token.where) == ("VLLM_API_KEY", None, "environment variable VLLM_API_KEY")


HEADERS = [
    ("authorization: x", "authorization", "bearer-token: {env: NAME}"),
    ("AUTHORIZATION: x", "AUTHORIZATION", "bearer-token: {env: NAME}"),
    ("Host: x", "Host", "the runner sets"),
    ("Content-Length: '1'", "Content-Length", "the runner sets"),
    ("content-type: x", "content-type", "the runner sets"),
    ("transfer-encoding: x", "transfer-encoding", "the runner sets"),
    ("Connection: close", "Connection", "the runner sets"),
    ("Accept-Encoding: gzip", "Accept-Encoding", "the runner sets"),
    ("Expect: 100-continue", "Expect", "how a connection is used"),
    ("Upgrade: h2c", "Upgrade", "how a connection is used"),
    ("X Team: a", "X Team", "cannot be a header's name"),
    ("'X:': a", "X:", "cannot be a header's name"),
    ("팀: a", "팀", "cannot be a header's name"),
    ("'': a", "", "cannot be a header's name"),
    ('"a\\r\\nb": a', "", "cannot be a header's name"),
]


@pytest.mark.parametrize(("entry", "name", "words"), HEADERS)
def test_a_header_that_cannot_be_sent_is_one_problem_at_its_name(
    tmp_path: Path, capsys: Capsys, entry: str, name: str, words: str
) -> None:
    place = site(tmp_path, f"load:\n  headers:\n    X-First: a\n    {entry}\n")
    said = run(capsys, "plan", write(tmp_path, GOOD), "--site", place)
    assert (said.code, said.out, len(said.err)) == (2, "", 1), said.err
    assert said.err[0].startswith(f"{place}:4:5: load.headers.{name}"), said.err
    assert words in said.err[0]


@pytest.mark.parametrize(
    "value",
    [f'"{SECRET}\\r\\nX: y"', f'"{SECRET}\\n"', f"'{SECRET} '", f'"{SECRET}\\0"', f"{SECRET}한", "[s3cr3t]", "12345"],
)
def test_a_value_that_no_header_can_hold_is_said_at_its_place_and_never_repeated(
    tmp_path: Path, capsys: Capsys, value: str
) -> None:
    place = site(tmp_path, f"load:\n  headers:\n    X-Key: {value}\n")
    said = run(capsys, "plan", write(tmp_path, GOOD), "--site", place)
    assert (said.code, said.out, len(said.err)) == (2, "", 1), said.err
    assert said.err[0].startswith(f"{place}:3:12: load.headers.X-Key: ")
    assert "one line of latin-1" in said.err[0] or "must be text; quote it" in said.err[0]
    assert SECRET not in said.err[0] and "12345" not in said.err[0]


def test_one_header_in_two_spellings(tmp_path: Path, capsys: Capsys) -> None:
    place = site(tmp_path, "load:\n  headers:\n    X-Team: a\n    x-team: b\n")
    said = run(capsys, "plan", write(tmp_path, GOOD), "--site", place)
    assert (said.code, len(said.err)) == (2, 1), said.err
    assert said.err[0] == f'{place}:4:5: load.headers.x-team: "x-team" and "X-Team" are one header; give it once'


TOKENS = [
    ("{}", "2:3", 'give "env" (a variable) or "file" (a path)'),
    ("{env: T, file: t}", "2:3", 'give "env" (a variable) or "file" (a path), not both'),
    (SECRET, "2:17", "must say where the token is, and not be it: {env: NAME} or {file: PATH}"),
    (f"[{SECRET}]", "2:17", "must say where the token is, and not be it"),
    ("12345", "2:17", "must say where the token is, and not be it"),
    (f"{{env: sk-{SECRET}}}", "2:23", "must be the name of an environment variable"),
    ("{env: 12345}", "2:23", "must be the name of an environment variable"),
    ("{env: ''}", "2:23", "must be the name of an environment variable"),
    (f"{{value: {SECRET}}}", "2:18", 'unknown key "value"'),
    ("{file: ~nobody-here/t}", "2:24", "nobody's home directory"),
    ("{file: ''}", "2:24", "must not be empty"),
]


@pytest.mark.parametrize(("token", "at", "words"), TOKENS)
def test_a_token_is_named_and_does_not_stand_in_the_file(
    tmp_path: Path, capsys: Capsys, token: str, at: str, words: str
) -> None:
    place = site(tmp_path, f"load:\n  bearer-token: {token}\n")
    said = run(capsys, "plan", write(tmp_path, GOOD), "--site", place)
    assert (said.code, said.out, len(said.err)) == (2, "", 1), said.err
    assert said.err[0].startswith(f"{place}:{at}: load.bearer-token"), said.err
    assert words in said.err[0]
    assert SECRET not in said.err[0] and "12345" not in said.err[0]


@pytest.mark.parametrize("written", ["ca.pem", "../ca.pem", "{folder}/place/ca.pem", "~/ca.pem"])
def test_an_authoritys_file_starts_from_the_folder_of_the_site_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    place = Path("place")
    for folder in (place, tmp_path / "home"):
        folder.mkdir()
    wanted = {"../ca.pem": tmp_path, "~/ca.pem": tmp_path / "home"}.get(written, tmp_path / "place") / "ca.pem"
    wanted.write_bytes(AUTHORITY.read_bytes())
    site(place, f"load: {{ca-file: '{written.format(folder=tmp_path)}'}}\n")
    assert load_site(place / "site.yaml").load.ca_file == str(wanted)


BROKEN = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
TWO_IN_ONE = ssl.DER_cert_to_PEM_cert(b"".join(certificates(read_authorities(AUTHORITY)) * 2)).encode()
WAY_OUT = "; name a PEM file with the authority's certificate, or leave ca-file out to believe the shipped ones alone"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("ca.pem", None, 'there is no file {folder}/ca.pem; did you mean "cb.pem"?'),
        ("there", None, "{folder}/there cannot be read: Is a directory"),
        ("ca.pem", b"", "{folder}/ca.pem holds no certificate in PEM ("),
        ("ca.pem", SIGNED.read_bytes().partition(b"-----BEGIN C")[0], "{folder}/ca.pem holds no certificate in PEM ("),
        ("ca.pem", b"\x30\x82\xff\x00", "{folder}/ca.pem holds no certificate in PEM ("),
        ("ca.pem", BROKEN, "{folder}/ca.pem: certificate 1 in it is broken"),
        ("ca.pem", AUTHORITY.read_bytes() + BROKEN, "{folder}/ca.pem: certificate 2 in it is broken"),
        ("ca.pem", AUTHORITY.read_bytes()[:300], "{folder}/ca.pem: certificate 1 in it is broken"),
        ("ca.pem", TWO_IN_ONE, "{folder}/ca.pem: certificate 1 in it is broken"),
        ("pipe", None, "{folder}/pipe is no file"),
        ("ca.pem", b"#" * 1_000_001, "{folder}/ca.pem is larger than 1000000 bytes"),
    ],
)
def test_a_file_that_vouches_for_nobody_is_one_problem_at_its_line_with_the_way_out(
    tmp_path: Path, capsys: Capsys, name: str, content: bytes | None, words: str
) -> None:
    (tmp_path / "there").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "cb.pem").touch()
    if content is not None:
        (tmp_path / name).write_bytes(content)
    place = site(tmp_path, f"load:\n  processes: 2\n  ca-file: {name}\n")
    for command in (["plan"], []):
        said = run(capsys, *command, write(tmp_path, GOOD), "--site", place)
        assert (said.code, said.out, len(said.err)) == (2, "", 1), said.err
        assert said.err[0].startswith(f"{place}:3:12: load.ca-file: {words.format(folder=tmp_path)}"), said.err
        assert said.err[0].endswith(WAY_OUT)


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("''", "must not be empty"),
        ("4", "must be text"),
        ("~nobody-here/ca", "~nobody-here is nobody's home directory"),
    ],
)
def test_what_names_no_file_is_one_problem(tmp_path: Path, capsys: Capsys, written: str, words: str) -> None:
    place = site(tmp_path, f"load:\n  ca-file: {written}\n")
    said = run(capsys, "plan", write(tmp_path, GOOD), "--site", place)
    assert (said.code, len(said.err)) == (2, 1), said.err
    assert said.err[0].startswith(f"{place}:2:12: load.ca-file: ") and words in said.err[0], said.err


def test_a_file_gives_its_certificates_once_each_and_nothing_else(tmp_path: Path) -> None:
    one = AUTHORITY.read_text()
    path = tmp_path / "ca.pem"
    path.write_bytes("한\n".encode() + (SIGNED.read_text() + one).replace("\n", "\r\n").encode() + one.encode())
    read = read_authorities(path)
    assert "KEY" not in read and len(certificates(read)) == 2
    assert [*map(fingerprint, certificates(read))] == [SIGNED_SHA256, AUTHORITY_SHA256]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("load: {connection: per-request}\n", '1:8: load.connection: unknown key "connection"'),
        ("load: {processes: 0}\n", "1:19: load.processes: must be at least 1"),
        ("load: {headers: [a]}\n", "1:17: load.headers: must be a mapping"),
        ("load: {header: {}}\n", '1:8: load.header: unknown key "header"; did you mean "headers"?'),
    ],
)
def test_another_mistake_of_the_site_files_block(tmp_path: Path, capsys: Capsys, text: str, words: str) -> None:
    place = site(tmp_path, text)
    said = run(capsys, "plan", write(tmp_path, GOOD), "--site", place)
    assert (said.code, len(said.err)) == (2, 1), said.err
    assert said.err[0].startswith(f"{place}:{words}"), said.err


def test_the_blocks_on_the_page_can_be_loaded(tmp_path: Path) -> None:
    of_spec, of_site = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    text = spoil("limits:\n  max-failed: 0\n", of_spec)[0]
    experiment = load_spec(write(tmp_path, text)).experiment
    assert experiment.load.processes and experiment.limits.round_seconds
    (tmp_path / "company.pem").write_bytes(AUTHORITY.read_bytes())
    place = load_site(site(tmp_path, of_site)).load
    assert place.headers and place.bearer_token is not None and place.processes and place.ca_file
