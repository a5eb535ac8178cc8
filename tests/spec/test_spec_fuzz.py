"""Whatever a file holds, the answer is a plan that survives JSON, or words at a place: never a traceback."""

import copy
import io
import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML
from spec_files import GOOD, write

from runner.plan.build import build_plan
from runner.plan.model import Plan, encode_body
from runner.plan.show import show_plan
from runner.spec.load import load_site, load_spec
from runner.spec.problem import SpecError

FEW = settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def judge(folder: Path, text: str | bytes) -> bool:
    path = write(folder, text)
    try:
        plan = build_plan(load_spec(path), "embedded")
    except SpecError as error:
        assert error.problems
        for line in str(error).splitlines():
            assert line.startswith(f"{path}:"), line
        lines = path.read_bytes().count(b"\n") + path.read_bytes().count(b"\r") + 1
        assert all(1 <= problem.position.line <= lines + text_breaks(path) for problem in error.problems)
        return False
    assert Plan.model_validate_json(plan.model_dump_json(by_alias=True)) == plan
    show_plan(plan).encode()
    for arm in plan.arms:
        for prompt in plan.prompts:
            encode_body(plan.body(arm, prompt, stream=True))
        assert not any("\0" in word for word in [plan.model, *arm.argv, *arm.env.values()])
    return True


def text_breaks(path: Path) -> int:
    return sum(path.read_text("utf-8", "replace").count(sign) for sign in "\x85\u2028\u2029")


PIECES = st.one_of(
    st.sampled_from(
        [*"-:?[]{},&*#|>!%@`'\"\n\r\t ~<=", "\n  ", "\n    ", ": ", "- ", "<<: ", "&a ", "*a", "!!int ", "!!set "]
    ),
    st.sampled_from(
        ["!repeat ", "!comma ", "0.30", "0x1F", ".nan", "1e999", "9" * 30, "null", "true", "on", "---\n", "...\n"]
    ),
    st.sampled_from(["\x85", "\u2028", "\ufeff", "\x00", "\\ud800", "2020-01-01", "{{ x }}", "%YAML 1.1\n"]),
    st.text(alphabet=string.printable + "한ß\U0001f600", max_size=6),
)


@FEW
@given(st.lists(PIECES, max_size=40).map("".join))
def test_yaml_ish_text(tmp_path: Path, text: str) -> None:
    judge(tmp_path, text)


@FEW
@given(st.integers(0, len(GOOD)), st.integers(0, 12), PIECES)
def test_the_good_spec_with_something_in_it(tmp_path: Path, start: int, length: int, piece: str) -> None:
    judge(tmp_path, GOOD[:start] + piece + GOOD[start + length :])


@FEW
@given(st.binary(max_size=60), st.integers(0, len(GOOD)))
def test_bytes(tmp_path: Path, data: bytes, cut: int) -> None:
    judge(tmp_path, data)
    judge(tmp_path, GOOD.encode()[:cut] + data + GOOD.encode()[cut:])


def nodes(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, child in children for found in nodes(child, (*path, key)))]


TREE = YAML(typ="safe", pure=True).load(GOOD)
NODES = nodes(TREE)[1:]
OTHERS = [
    None,
    True,
    False,
    0,
    -1,
    1.5,
    10**30,
    "",
    "x",
    "on",
    [],
    ["x"],
    [None],
    [[1]],
    {},
    {"x": 1},
    {"": None},
    {"a b": []},
]


def dump(tree: Any) -> str:
    yaml, out = YAML(typ="safe", pure=True), io.StringIO()
    yaml.default_flow_style = False
    yaml.dump(tree, out)
    return out.getvalue()


def parent_of(tree: Any, path: tuple[Any, ...]) -> Any:
    for key in path[:-1]:
        tree = tree[key]
    return tree


@pytest.mark.parametrize("path", NODES, ids=lambda path: ".".join(map(str, path)))
def test_every_node_deleted_renamed_and_retyped(tmp_path: Path, path: tuple[Any, ...]) -> None:
    for number, other in enumerate(["delete", "rename", *OTHERS]):
        tree = copy.deepcopy(TREE)
        parent = parent_of(tree, path)
        if number == 0:
            del parent[path[-1]]
        elif number == 1 and isinstance(parent, dict):
            parent[f"{path[-1]}x"] = parent.pop(path[-1])
        elif number > 1:
            parent[path[-1]] = other
        judge(tmp_path, dump(tree))


def test_every_line_doubled_and_left_out(tmp_path: Path) -> None:
    lines = GOOD.splitlines(keepends=True)
    for index in range(len(lines)):
        for new in (lines[index] * 2, "", "\t" + lines[index], " " + lines[index], lines[index].replace(":", "")):
            judge(tmp_path, "".join([*lines[:index], new, *lines[index + 1 :]]))


def test_the_good_spec_is_good(tmp_path: Path) -> None:
    assert judge(tmp_path, GOOD)
    assert judge(tmp_path, dump(TREE))


@FEW
@given(st.one_of(st.lists(PIECES, max_size=20).map("".join), st.binary(max_size=40)))
def test_site_files(tmp_path: Path, text: str | bytes) -> None:
    path = write(tmp_path, text, "site.yaml")
    try:
        load_site(path)
    except SpecError as error:
        assert str(error).startswith(f"{path}:")
