"""docs/kubernetes.md says what the block, the lint and the templates really are."""

import re
from pathlib import Path

from kubernetes_plans import planned

from runner.spec.kubernetes import LINT_RULES, KubernetesSite
from runner.target.kubernetes.render import context_of
from runner.target.kubernetes.settings import DEFAULTS

PAGE = (Path(__file__).parents[2] / "docs" / "kubernetes.md").read_text(encoding="utf-8")


def first_cells(heading: str) -> list[str]:
    table = PAGE.split(f"| {heading} |", 1)[1].split("\n\n", 1)[0]
    return [name for line in table.splitlines()[2:] for name in re.findall(r"`([^`]+)`", line.split("|")[1])]


def test_every_key_of_the_block_is_on_the_page() -> None:
    keys = {field.alias or name for name, field in KubernetesSite.model_fields.items()}
    assert sorted(first_cells("Key")) == sorted(keys)


def test_the_defaults_on_the_page_are_the_defaults() -> None:
    rows = {
        line.split("|")[1].strip().strip("`"): line.split("|")[2].strip()
        for line in PAGE.splitlines()
        if line.startswith("| ")
    }
    for name, value in DEFAULTS.items():
        shown = f"[{', '.join(value)}]" if isinstance(value, list) else value
        assert rows[name.replace("_", "-")] == f"`{shown}`", name


def test_every_rule_of_the_lint_is_on_the_page() -> None:
    assert sorted(first_cells("Rule")) == sorted(LINT_RULES)


def test_every_variable_of_a_template_is_on_the_page(tmp_path: Path) -> None:
    plan, settings = planned(tmp_path)
    context = context_of(settings, plan, plan.arms[0], selector=None, launch=None, run="", container="c")
    assert sorted(first_cells("Variable")) == sorted(context)


def test_each_test_that_the_page_names_is_there() -> None:
    named = re.findall(r"`(tests/[\w/]+(?:\.py)?)(?:::(\w+))?`", PAGE)
    assert len(named) > 30
    for path, test in named:
        place = Path(__file__).parents[2] / path
        assert place.exists(), path
        assert not test or f"def {test}(" in place.read_text(encoding="utf-8"), f"{path}::{test}"
