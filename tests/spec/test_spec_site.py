"""The site file's block for servers that run already: every address checked, each mistake at its place."""

import re
from pathlib import Path

import pytest
from spec_files import GOOD, run, write

from runner.spec.load import load_site
from runner.target.choose import TARGETS

Capsys = pytest.CaptureFixture[str]


def site(folder: Path, text: str) -> Path:
    path = folder / "site.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("http://gpu-1:8000/", "http://gpu-1:8000"),
        ("https://models.example/team/a/", "https://models.example/team/a"),
        ("http://[::1]:8000", "http://[::1]:8000"),
        ("https://models.example", "https://models.example"),
    ],
)
def test_an_address_is_kept_without_a_slash_at_its_end(tmp_path: Path, written: str, kept: str) -> None:
    found = load_site(site(tmp_path, f"endpoint: {{urls: {{off: '{written}'}}}}\n"))
    assert found.endpoint.urls == {"off": kept}


def test_off_and_on_are_words_here_too_and_a_condition_may_have_any_name(tmp_path: Path) -> None:
    text = "endpoint:\n  urls:\n    off: http://a:1\n    on: http://b:2\n    on-spec-tokens-1: http://c:3\n    켜짐: http://d:4\n"
    assert list(load_site(site(tmp_path, text)).endpoint.urls) == ["off", "on", "on-spec-tokens-1", "켜짐"]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("gpu-1:8000", "must be an address such as http://HOST:8000"),
        ("ftp://gpu-1", "must be an address such as http://HOST:8000"),
        ("http://", "must be an address such as http://HOST:8000"),
        ("http://:8000", "must be an address such as http://HOST:8000"),
        ("http://gpu 1:8000", "must be an address such as http://HOST:8000"),
        ("http://gpu-1:eighty", "is no address: "),
        ("http://gpu-1:80000", "is no address: "),
        ("http://[::1", "is no address: "),
        ("http://gpu-1:0", "names port 0"),
        ("http://me:secret@gpu-1:8000", "must not hold a user or a password"),
        ("http://me@gpu-1:8000", "must not hold a user or a password"),
        ("http://gpu-1:8000?key=1", "no ? and no #"),
        ("http://gpu-1:8000/?", "no ? and no #"),
        ("http://gpu-1:8000#a", "no ? and no #"),
        ("http://gpu-1:8000/v1", "must not end with /v1"),
        ("http://gpu-1:8000/team/v1/", "must not end with /v1"),
    ],
)
def test_what_is_no_servers_address_is_said_at_its_place(tmp_path: Path, capsys: Capsys, url: str, words: str) -> None:
    place = site(tmp_path, f"endpoint:\n  urls:\n    off: '{url}'\n")
    said = run(capsys, "plan", write(tmp_path, GOOD), "--site", place)
    assert (said.code, said.out, len(said.err)) == (2, "", 1), said.err
    assert said.err[0].startswith(f"{place}:3:10: endpoint.urls.off: ")
    assert words in said.err[0]
    assert "value error" not in said.err[0].lower()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("endpoint:\n  url: {}\n", '2:3: endpoint.url: unknown key "url"; did you mean "urls"?'),
        ("endpoint:\n  urls: [http://a]\n", "2:9: endpoint.urls: must be a mapping"),
        ("endpoint:\n  urls: {off: 8000}\n", "2:15: endpoint.urls.off: must be text"),
        ("endpoint:\n  urls: {off: http://a, off: http://b}\n", '2:25: endpoint.urls.off: the key "off" stands twice'),
        ("endpoint:\n  urls: {'': http://a}\n", "2:10: endpoint.urls."),
    ],
)
def test_another_mistake_of_the_block(tmp_path: Path, capsys: Capsys, text: str, words: str) -> None:
    place = site(tmp_path, text)
    said = run(capsys, "plan", write(tmp_path, GOOD), "--site", place)
    assert (said.code, len(said.err)) == (2, 1), said.err
    assert said.err[0].startswith(f"{place}:{words}")


def test_the_page_of_targets_has_every_target_and_blocks_that_can_be_loaded(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "targets.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `([a-z]+)` \|", page, re.MULTILINE))
    assert named == {*TARGETS, "kubernetes"}
    blocks = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert [load_site(site(tmp_path, block)).target for block in blocks] == ["embedded", "process", "endpoint"]
    assert set(load_site(site(tmp_path, blocks[2])).endpoint.urls) == {"off", "on", "on-spec-tokens-3"}
