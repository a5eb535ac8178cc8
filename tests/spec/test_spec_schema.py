"""The schema that editors use says what the runner says."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML
from spec_files import GOOD, run, write

from runner.resources import resource

SPECS = sorted(resource("specs").glob("*.y*ml"))
COMMITTED = resource("schemas", "experiment.schema.json")


def schema() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(COMMITTED.read_bytes())
    return found


def accepts(value: object) -> bool:
    return bool(Draft202012Validator(schema()).is_valid(value))


def tree(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


def test_the_committed_schema_is_what_the_model_says(capsys: pytest.CaptureFixture[str]) -> None:
    said = run(capsys, "schema")
    assert said.code == 0
    assert said.out.encode() == COMMITTED.read_bytes(), (
        "regenerate: python -m runner schema > schemas/" + COMMITTED.name
    )


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.name)
def test_every_spec_names_and_fits_it(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.splitlines()[0] == f"# yaml-language-server: $schema=../schemas/{COMMITTED.name}"
    assert list(Draft202012Validator(schema()).iter_errors(tree(text))) == []
    assert run(capsys, "validate", path).code == 0


def test_there_is_a_spec_to_try() -> None:
    assert "ngram-spec.yaml" in [path.name for path in SPECS]


SPOILT = [
    ((), {"replicats": 1}),
    (("engine",), {"verison": "0"}),
    (("conditions", "on"), {"arg": {}}),
    (("conditions", "on"), {"label": None, "args": None}),
    (("prompts", "one", "messages", 0), {"rol": "user"}),
    (("phases", "load"), {"request": 1}),
    (("phases", "load", "warm-up"), {"warm_up": 1}),
    (("invariants",), {"same-outputs": {}}),
    (("invariants",), {"same-output": None}),
    (("invariants", "speedup"), {"mim": 1}),
    (("limits",), {"max_failed": 1}),
    (("phases", "load"), {"requests": "8"}),
    (("phases", "load"), {"concurrency": []}),
    (("phases", "load"), {"concurrency": 4}),
    ((), {"replicates": 0}),
    ((), {"engine": {"version": 0.3}}),
    ((), {"name": "No Slug"}),
    ((), {"order": "alternate"}),
    (("conditions",), {"": {}}),
]


@pytest.mark.parametrize(("path", "change"), SPOILT, ids=str)
def test_schema_and_runner_refuse_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], path: tuple[Any, ...], change: dict[str, Any]
) -> None:
    spoilt = copy.deepcopy(tree(GOOD))
    assert accepts(spoilt)
    place = spoilt
    for key in path:
        place = place[key]
    place.update(change)
    assert not accepts(spoilt)
    assert run(capsys, "validate", write(tmp_path, json.dumps(spoilt))).code == 2


def test_schema_and_runner_accept_empty_conditions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    value = tree(GOOD)
    value["conditions"]["off"] = None
    assert accepts(value)
    assert run(capsys, "validate", write(tmp_path, json.dumps(value))).code == 0
