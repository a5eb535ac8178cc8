"""The house's own rules: style, types, directions, and names that belong to one room."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.engine.features import FEATURES

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


@pytest.mark.parametrize(
    "words",
    [
        [str(BIN / "ruff"), "check", "."],
        [str(BIN / "ruff"), "format", "--check", "."],
        [sys.executable, "-m", "mypy"],
        [str(BIN / "lint-imports")],
    ],
    ids=["ruff-check", "ruff-format", "mypy-strict", "import-linter"],
)
def test_the_tools_find_nothing(words: list[str]) -> None:
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def literals(path: Path) -> Iterator[tuple[int, str]]:
    """String constants of a module that are not docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documentation = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.lineno, node.value


def known_flags() -> set[str]:
    """Every flag that the embedded engine knows, in both spellings, but for words that mean other things too."""
    files = sorted((ROOT / "schemas" / "vllm-serve").glob("*.json"))
    words = {entry["dest"] for file in files for entry in json.loads(file.read_text(encoding="utf-8"))["actions"]}
    names = {word.replace("_", "-") for word in words if "_" in word} - set(FEATURES)
    assert {"max-num-seqs", "spec-tokens", "enforce-eager"} <= names
    return names | {name.replace("-", "_") for name in names}


def test_no_flag_of_vllm_is_named_outside_the_engine_rooms() -> None:
    flags = known_flags()
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in sorted((ROOT / "runner").rglob("*.py"))
        if path.relative_to(ROOT / "runner").parts[0] not in ("engine", "simulator")
        for line, text in literals(path)
        if text.lstrip("-") in flags
    ]
    assert found == []


def test_the_readme_names_the_two_commands_and_ci_calls_the_second() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert ".venv/bin/run specs/ngram-spec.yaml" in readme
    assert "\n.venv/bin/python -m pytest\n" in readme
    assert "\n.venv/bin/python -m pytest" in ci


def test_the_exit_codes_in_the_readme_are_the_ones_of_the_code() -> None:
    from runner.exit_code import ExitCode

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert {int(code) for code in re.findall(r"^\| *(\d+) \|", readme, re.M)} == {int(code) for code in ExitCode}


def test_nothing_but_its_target_knows_the_embedded_engine() -> None:
    """No branch on which engine it was: its name is in the registry of targets; the flag is written by targets, or
    stated by the server itself, and read by record and report."""
    named, asked = [], []
    for path in sorted((ROOT / "runner").rglob("*.py")):
        place = path.relative_to(ROOT / "runner")
        if place.parts[0] == "simulator" or place == Path("target", "embedded.py"):
            continue
        named += [
            f"{place}:{line}: {text}"
            for line, text in literals(path)
            if text.lower() in ("embedded", "simulator") or "SIMULATOR_" in text or "runner.simulator" in text
        ]
        asked += [
            f"{place}:{node.lineno}"
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Attribute) and node.attr == "simulated" and isinstance(node.ctx, ast.Load)
        ]
    assert [one.partition(":")[0] for one in named] == ["target/choose.py"] * 2
    rooms = {one.partition(":")[0] for one in asked}
    assert {room for room in rooms if not room.startswith(("record/", "report/"))} <= WRITERS, asked


WRITERS = {"cli/run_spec.py", "execution/readiness.py"}
"""Where the target's flag, and what a server says of itself, go into an event."""


def test_every_client_shares_the_certificates_and_is_made_where_the_access_is_added() -> None:
    """One that reads them for itself holds up the event loop in which load is sent; one that is made elsewhere comes
    without the token that its engine asks for."""
    made, own = set(), []
    for path in sorted((ROOT / "runner").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name("httpx"), attr="AsyncClient" | "Client")):
                    made.add(str(path.relative_to(ROOT / "runner")))
                    verify = [ast.unparse(word.value) for word in node.keywords if word.arg == "verify"]
                    own += [f"{path.relative_to(ROOT)}:{node.lineno}"] * (verify != ["trusted(access.authorities)"])
                case ast.Attribute(value=ast.Name("httpx"), attr="get" | "post" | "request" | "stream" as name):
                    own.append(f"{path.relative_to(ROOT)}:{node.lineno}: {name}")
    assert own == []
    assert made == {"access.py"}


def test_a_process_of_the_load_generator_is_light() -> None:
    """It starts in a tenth of a second, and holds nothing that could do something of its own while a round runs."""
    heavy = "{'httpx', 'pydantic', 'kubernetes', 'jinja2', 'ruamel'}"
    code = f"import sys, runner.load.worker; found = {heavy} & set(sys.modules); sys.exit(', '.join(found) or 0)"
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_the_certificates_are_read_once_and_believed() -> None:
    import ssl

    from runner.tls import trusted

    assert trusted("") is trusted("")
    assert trusted("").verify_mode is ssl.CERT_REQUIRED and trusted("").check_hostname


def test_load_record_checks_and_report_know_nothing_of_a_cluster() -> None:
    rooms = ("analysis", "checks", "execution", "load", "plan", "record", "report", "sample")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for room in rooms
        for path in sorted((ROOT / "runner" / room).rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(r"kubernetes|kubectl|k8s|deployment|replica ?set", line, re.I)
    ]
    assert found == []
