"""The command line's first words: which command, which target, which site file."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from spec_files import GOOD, run, write

import runner
from runner.cli.dispatch import COMMANDS
from runner.plan.model import Plan

Capsys = pytest.CaptureFixture[str]
NOPE = "nowhere"


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RUNNER_TARGET", raising=False)
    write(tmp_path, GOOD)


def module(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "runner", *argv], capture_output=True, text=True, timeout=60, check=False
    )


def test_the_module_and_the_script_are_one_command(tmp_path: Path) -> None:
    script = Path(sys.executable).parent / "run"
    for words in (["--version"], ["validate", "spec.yaml"], ["validate", "missing.yaml"], ["plann"], []):
        one = module(*words)
        other = subprocess.run([script, *words], capture_output=True, text=True, timeout=60, check=False)
        assert (one.returncode, one.stdout, one.stderr) == (other.returncode, other.stdout, other.stderr)
        assert "Traceback" not in one.stderr
    assert module("--version").stdout == runner.__version__ + "\n"


@pytest.mark.parametrize("argv", [["--help"], ["-h"], ["help"]])
def test_help_names_every_command(capsys: Capsys, argv: list[str]) -> None:
    said = run(capsys, *argv)
    assert said.code == 0
    assert all(f"\n  {name} " in said.out for name in COMMANDS)


def test_nothing_said_is_no_success(capsys: Capsys) -> None:
    said = run(capsys)
    assert said.code == 2
    assert "usage: run SPEC" in said.out


@pytest.mark.parametrize("command", [*COMMANDS, "spec.yaml"])
def test_every_command_has_help(capsys: Capsys, command: str) -> None:
    said = run(capsys, command, "--help")
    assert (said.code, said.err) == (0, [])
    assert said.out.startswith("usage: run")


HEAVY = ("kubernetes", "numpy", "httpx", "starlette", "uvicorn", "jinja2", "tabulate")


@pytest.mark.parametrize(
    ("argv", "free_of"),
    [
        (["--help"], (*HEAVY, "pydantic", "ruamel.yaml")),
        (["plann"], (*HEAVY, "pydantic", "ruamel.yaml")),
        (["validate", "spec.yaml"], HEAVY),
        (["schema"], HEAVY),
        (["read", "spec.yaml"], (*HEAVY, "pydantic", "ruamel.yaml")),
        (["plan", "spec.yaml"], ("kubernetes", "numpy", "jinja2", "tabulate")),
    ],
)
def test_a_command_loads_what_it_needs(argv: list[str], free_of: tuple[str, ...]) -> None:
    code = f"import sys; from runner.cli import main; main({argv!r}); print(*sys.modules, file=sys.stderr)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    loaded = said.stderr.split()
    assert "runner.cli" in loaded
    assert [name for name in free_of if name in loaded] == []


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("plann", 'did you mean "run plan"?'),
        ("Validate", 'did you mean "run validate"?'),
        ("reprot", 'did you mean "run report"?'),
        ("shema", 'did you mean "run schema"?'),
        ("xyzzy", f"commands: {', '.join(COMMANDS)}."),
        ("specs/none", "A spec is named by its path"),
        ("x" * 5000, "neither a command nor a file"),
    ],
)
def test_a_first_word_that_means_nothing(capsys: Capsys, word: str, meant: str) -> None:
    said = run(capsys, word, "spec.yaml")
    assert (said.code, said.out, len(said.err)) == (2, "", 1)
    assert f'"{word}" is neither a command nor a file' in said.err[0]
    assert meant in said.err[0]


def test_a_command_wins_over_a_file_of_its_name(tmp_path: Path, capsys: Capsys) -> None:
    (tmp_path / "schema").write_text("- not a spec\n")
    assert run(capsys, "schema").out.startswith("{")
    assert run(capsys, "./schema").err == ["schema:1:1: the file must be a mapping of keys to values"]


def test_an_existing_path_is_a_spec_whatever_its_name(tmp_path: Path, capsys: Capsys) -> None:
    (tmp_path / "plann").write_text("- 1\n")
    assert run(capsys, "plann").err == ["plann:1:1: the file must be a mapping of keys to values"]
    for name in ("none.yaml", "none.yml"):
        said = run(capsys, name)
        assert said.code == 2
        assert said.err[0].startswith(f"{name}:1:1: cannot be read: No such file or directory")


@pytest.mark.parametrize("argv", [["plan"], ["validate"], ["plan", "spec.yaml", "--tarket", "x"], ["--oops"]])
def test_wrong_options_are_usage(capsys: Capsys, argv: list[str]) -> None:
    said = run(capsys, *argv)
    assert said.code == 2
    assert said.err[0].startswith("usage: ")


def site(folder: Path, text: str, name: str = "site.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def named_by(capsys: Capsys, *argv: str) -> str:
    said = run(capsys, "plan", "spec.yaml", *argv)
    assert (said.code, said.err) == (0, [])
    assert "target: embedded\n" in said.out
    return said.out.splitlines()[-1].removeprefix("target named by: ")


def test_who_names_the_target(tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    # each weaker voice names a target that does not exist: whoever listened to it would fail
    assert named_by(capsys) == "default"
    site(tmp_path, "target: embedded\n")
    assert named_by(capsys) == "the site file"
    site(tmp_path, f"target: {NOPE}\n")
    monkeypatch.setenv("RUNNER_TARGET", "embedded")
    assert named_by(capsys) == "$RUNNER_TARGET"
    monkeypatch.setenv("RUNNER_TARGET", NOPE)
    assert named_by(capsys, "--target", "embedded") == "--target"


def test_an_unknown_target_is_never_replaced(tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(origin: str, *argv: str) -> None:
        for command in (["plan", "spec.yaml"], ["spec.yaml"]):
            said = run(capsys, *command, *argv)
            assert (said.code, said.out, len(said.err)) == (2, "", 1)
            assert f'{origin} names the target "{NOPE}"' in said.err[0]
            assert "embedded" in said.err[0]
        assert not (tmp_path / "runs").exists()

    monkeypatch.setenv("RUNNER_TARGET", "embedded")
    refused("--target", "--target", NOPE)
    monkeypatch.setenv("RUNNER_TARGET", NOPE)
    site(tmp_path, "target: embedded\n")
    refused("$RUNNER_TARGET")
    monkeypatch.delenv("RUNNER_TARGET")
    site(tmp_path, f"target: {NOPE}\n")
    refused("the site file")


def test_an_empty_target_is_a_mistake_of_a_script(capsys: Capsys) -> None:
    for argv in (["plan", "spec.yaml", "--target", ""], ["spec.yaml", "--target="]):
        said = run(capsys, *argv)
        assert said.code == 2
        assert "--target: it is empty" in said.err[-1]


def test_a_site_file_is_taken_from_here_or_from_where_it_is_said(tmp_path: Path, capsys: Capsys) -> None:
    site(tmp_path, f"target: {NOPE}\n")
    site(tmp_path, "target: embedded\n", "other.yaml")
    assert named_by(capsys, "--site", "other.yaml") == "the site file"
    site(tmp_path, "")
    assert named_by(capsys) == "default"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tarket: embedded\n", '1:1: tarket: unknown key "tarket"; did you mean "target"?'),
        ("# x\nembedded:\n  time-scale: fast\n", "3:15: embedded.time-scale: must be a number, not text"),
        ("embedded: {time-scale: 0}\n", "1:24: embedded.time-scale: must be more than 0"),
        ("embedded:\n\ttime-scale: 1\n", "2:1: a tab in the indentation"),
        ("target: a\ntarget: embedded\n", "2:1: target: the key"),
        ("- a\n", "1:1: the file must be a mapping"),
    ],
)
def test_a_bad_site_file_is_an_error_at_its_line(tmp_path: Path, capsys: Capsys, text: str, message: str) -> None:
    site(tmp_path, text)
    site(tmp_path, text, "other.yaml")
    for name, argv in (("site.yaml", []), ("other.yaml", ["--site", "other.yaml"])):
        said = run(capsys, "spec.yaml", *argv)
        assert (said.code, said.out, len(said.err)) == (2, "", 1), said.err
        assert said.err[0].startswith(f"{name}:{message}")


def test_a_missing_site_file_is_an_error(capsys: Capsys) -> None:
    said = run(capsys, "plan", "spec.yaml", "--site", "none.yaml")
    assert (said.code, said.out) == (2, "")
    assert said.err == ["none.yaml:1:1: cannot be read: No such file or directory"]


def test_everything_wrong_is_said_together(tmp_path: Path, capsys: Capsys) -> None:
    write(tmp_path, GOOD.replace("replicates", "replicats"))
    site(tmp_path, "tarket: x\n")
    said = run(capsys, "spec.yaml", "--target", NOPE)
    assert said.code == 2
    assert [line.split(":")[0] for line in said.err] == ["site.yaml", "run", "spec.yaml"]
    assert not (tmp_path / "runs").exists()


def test_the_plan_as_json_is_the_plan(capsys: Capsys) -> None:
    said = run(capsys, "plan", "spec.yaml", "--json")
    assert said.code == 0
    found = Plan.model_validate_json(said.out)
    assert found.target == "embedded"
    assert json.loads(found.model_dump_json(by_alias=True)) == json.loads(said.out)


def test_a_plan_starts_nothing_and_writes_nothing(tmp_path: Path, capsys: Capsys) -> None:
    before = sorted(tmp_path.rglob("*"))
    assert run(capsys, "plan", "spec.yaml").code == 0
    assert run(capsys, "validate", "spec.yaml").code == 0
    assert sorted(tmp_path.rglob("*")) == before
