"""What a spec comes to: arms with their words and labels, rounds, launches and request bodies."""

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest
from spec_files import GOOD, spoil, write

from runner.plan.build import build_plan
from runner.plan.model import Plan, body_id, encode_body
from runner.plan.show import show_plan
from runner.spec.load import load_spec
from runner.spec.problem import SpecError

REST = """
prompts: {p: {messages: [{role: user, content: 안녕}]}}
phases: {all: {concurrency: [1], requests: 2}}
"""


def plan_of(folder: Path, text: str) -> Plan:
    return build_plan(load_spec(write(folder, text)), "embedded")


def plan(folder: Path, text: str, rest: str = REST) -> Plan:
    return plan_of(folder, "name: n\nmodel: m\n" + textwrap.dedent(text) + rest)


def argv(folder: Path, args: str) -> list[str]:
    return plan(folder, f"args: {{{args}}}\nconditions: {{c: }}\n").arms[0].argv


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("x: true", ["--x"]),
        ("x: false", ["--no-x"]),
        ("x: null", []),
        ("x:", []),
        ("no-x: true", ["--no-x"]),
        ("no_x: false", ["--x"]),
        ("max_num_seqs: 16", ["--max-num-seqs", "16"]),
        ("--max-num-seqs: 16", ["--max-num-seqs", "16"]),
        ("x: 0.30", ["--x", "0.30"]),
        ("x: 1e-3", ["--x", "1e-3"]),
        ("x: 1.0", ["--x", "1.0"]),
        ('x: "0.30"', ["--x", "0.30"]),
        ("x: 0.26.0", ["--x", "0.26.0"]),
        ("x: on", ["--x", "on"]),
        ("x: 2020-01-01", ["--x", "2020-01-01"]),
        ("x: 0x10", ["--x", "16"]),
        ("x: -1", ["--x=-1"]),
        ('x: ""', ["--x="]),
        ("x: [a, 1, 0.30]", ["--x", "a", "1", "0.30"]),
        ("x: !repeat [a, b]", ["--x", "a", "--x", "b"]),
        ("x: !comma [a, 2]", ["--x", "a,2"]),
        ("x: {a_b: [1, true, null], c: {d: 0.5}}", ["--x", '{"a_b":[1,true,null],"c":{"d":0.5}}']),
        ("nobody-has-heard-of-it: 한글", ["--nobody-has-heard-of-it", "한글"]),
    ],
)
def test_arguments_by_type(tmp_path: Path, args: str, words: list[str]) -> None:
    assert argv(tmp_path, args) == words


@pytest.mark.parametrize(
    ("base", "override", "words"),
    [
        ("max-num-seqs: 1", "max_num_seqs: 2", ["--max-num-seqs", "2"]),
        ("enforce-eager: true", "no_enforce_eager: true", ["--no-enforce-eager"]),
        ("x: {a: 1, b: 2}", "x: {a: 3}", ["--x", '{"a":3}']),
        ("x: [a, b]", "x: [c]", ["--x", "c"]),
        ("x: 1", "x: null", []),
        ("x: 1, y: 2", "z: 3, x: 4", ["--x", "4", "--y", "2", "--z", "3"]),
    ],
)
def test_an_override_replaces_wholly_in_any_spelling(
    tmp_path: Path, base: str, override: str, words: list[str]
) -> None:
    for text in (
        f"args: {{{base}}}\nconditions: {{c: {{args: {{{override}}}}}}}\n",
        f"args: {{{base}}}\nconditions: {{d: {{label: c, args: {{{override}}}}}}}\n",
    ):
        assert plan(tmp_path, text).arms[0].argv == words


def test_a_condition_changes_all_four_maps(tmp_path: Path) -> None:
    found = plan(
        tmp_path,
        """
        env: {A: "1", B: "1"}
        request: {max_tokens: 8, seed: null}
        template-values: {gpu: L4, n: {x: 1}}
        conditions:
          base:
          other:
            env: {B: "2", C: "3"}
            request: {max_tokens: 9, top_p: 0.50}
            template-values: {n: 2}
        """,
    )
    base, other = found.arms
    assert base.env == {"A": "1", "B": "1"}
    assert other.env == {"A": "1", "B": "2", "C": "3"}
    assert base.template_values == {"gpu": "L4", "n": {"x": 1}}
    assert other.template_values == {"gpu": "L4", "n": 2}
    assert found.body(base, "p", stream=False) == {
        "model": "m",
        "max_tokens": 8,
        "seed": None,
        "messages": [{"role": "user", "content": "안녕"}],
        "stream": False,
    }
    assert found.body(other, "p", stream=False)["max_tokens"] == 9
    assert found.body(other, "p", stream=False)["top_p"] == 0.5


def test_a_streamed_body_asks_for_usage(tmp_path: Path) -> None:
    found = plan(tmp_path, "conditions: {c: }\n")
    body = found.body(found.arms[0], "p", stream=True)
    assert body["stream"] is True
    assert body["stream_options"]["include_usage"] is True
    plain = found.body(found.arms[0], "p", stream=False)
    assert "stream_options" not in plain
    assert body_id("p", body) != body_id("p", plain)
    assert body_id("p", body) != body_id("q", body)
    assert "안녕".encode() in encode_body(body)
    assert json.loads(encode_body(body)) == body


def test_the_served_name_may_differ_from_the_model(tmp_path: Path) -> None:
    found = plan(tmp_path, "request: {model: served}\nconditions: {c: }\n")
    assert found.body(found.arms[0], "p", stream=False)["model"] == "served"
    assert found.model == "m"


def labels(found: Plan) -> list[str]:
    return [arm.label for arm in found.arms]


def ids(found: Plan) -> list[str]:
    return [arm.id for arm in found.arms]


def test_a_matrix_of_a_condition_multiplies_it(tmp_path: Path) -> None:
    found = plan(
        tmp_path,
        """
        args: {spec-tokens: 1}
        conditions:
          off:
          on: {args: {method: ngram}, matrix: {spec_tokens: [3, 5], fixed: [true]}}
        """,
    )
    assert labels(found) == ["off", "on, spec-tokens=3", "on, spec-tokens=5"]  # only what varies
    assert ids(found) == ["off", "on-spec-tokens-3", "on-spec-tokens-5"]
    assert [arm.condition for arm in found.arms] == ["off", "on", "on"]
    assert found.arms[2].argv == ["--spec-tokens", "5", "--method", "ngram", "--fixed"]
    assert found.baseline == "off"


def test_a_matrix_at_the_top_makes_conditions(tmp_path: Path) -> None:
    found = plan(tmp_path, "args: {a: 0}\nmatrix: {a: [1, 0.30], b: [null, x, {k: 1}]}\n")
    assert labels(found) == [
        "a=1, b=default",
        "a=1, b=x",
        'a=1, b={"k": 1}',
        "a=0.30, b=default",
        "a=0.30, b=x",
        'a=0.30, b={"k": 1}',
    ]
    assert [arm.argv for arm in found.arms][:2] == [["--a", "1"], ["--a", "1", "--b", "x"]]
    assert found.arms[3].argv == ["--a", "0.30"]
    assert found.baseline == found.arms[0].id
    both = plan(tmp_path, "conditions: {base: }\nmatrix: {a: [1, 2]}\n")
    assert labels(both) == ["base", "a=1", "a=2"]


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        (["a b", "a-b", "A-B", "a/b"], ["a-b", "a-b-2", "a-b-3", "a-b-4"]),
        (["on", "On", "ON"], ["on", "on-2", "on-3"]),
        (["on", "on-2", "On"], ["on", "on-2", "on-3"]),
        (["켜짐", "꺼짐"], ["켜짐", "꺼짐"]),
        (["+", "..", "../x"], ["condition", "condition-2", "x"]),
        (["x" * 300, "x" * 301], ["x" * 60, "x" * 60 + "-2"]),
    ],
)
def test_ids_are_unique_and_names_of_files(tmp_path: Path, conditions: list[str], expected: list[str]) -> None:
    found = plan(tmp_path, "conditions:\n" + "".join(f'  "{name}":\n' for name in conditions))
    assert ids(found) == expected
    assert labels(found) == conditions
    for name in ids(found):
        (tmp_path / name).mkdir()


def test_two_arms_with_one_label_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match='two conditions come out as "on, x=1"'):
        plan(tmp_path, 'conditions: {"on, x=1": , on: {matrix: {x: [1, 2]}}}\n')


@pytest.mark.parametrize("text", ["matrix: {a: [1, true, 1]}", 'matrix: {a: [1, "1"]}', "matrix: {a: [0.3, 0.3]}"])
def test_a_factor_has_each_value_once(tmp_path: Path, text: str) -> None:
    with pytest.raises(SpecError, match="stands twice"):
        plan(tmp_path, text + "\n")
    assert len(plan(tmp_path, "matrix: {a: [0, false, 1, true]}\n").arms) == 4


def test_a_product_that_nobody_could_measure_is_refused_at_once(tmp_path: Path) -> None:
    factors = ", ".join(f"f{n}: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]" for n in range(12))
    with pytest.raises(SpecError, match=r":3:1: matrix: the factors multiply to 1000000000000 conditions"):
        plan(tmp_path, f"matrix: {{{factors}}}\n".replace("\n", "") + "\n")


def test_the_baseline_is_named_or_the_first(tmp_path: Path) -> None:
    assert plan(tmp_path, "conditions: {b: , a: }\n").baseline == "b"
    named = plan(tmp_path, "conditions: {b: , a: }\nbaseline: a\n")
    assert named.baseline == "a"
    assert [arm.id for arm in named.others] == ["b"]
    for text, words in [
        ("conditions: {b: {matrix: {x: [1]}}, a: }", "takes no matrix"),
        ("conditions: {b: {matrix: {x: [1]}}, a: }\nbaseline: b", "takes no matrix"),
        ("matrix: {x: [1, 2]}\nbaseline: x", "is not a condition"),
        ("matrix: {}", "at least one condition"),
        ("conditions: {a: {args: {x: 1}, matrix: {X: [1], x: [2]}}, b: }\nbaseline: b", "factor of this condition"),
    ]:
        with pytest.raises(SpecError, match=words):
            plan(tmp_path, text + "\n")


def test_order_alternates_with_replicates(tmp_path: Path) -> None:
    def launches(order: str) -> list[str]:
        found = plan(tmp_path, f"conditions: {{a: , b: }}\nreplicates: 3\norder: {order}\n")
        return [f"{step.arm}{step.replicate}" for step in found.launches]

    assert launches("as-written") == ["a1", "b1", "a2", "b2", "a3", "b3"]
    assert launches("alternated") == ["a1", "b1", "b2", "a2", "a3", "b3"]


def test_exclude_first_is_per_condition(tmp_path: Path) -> None:
    found = plan(
        tmp_path,
        "conditions: {off: , on: {matrix: {x: [1, 2]}}}\n",
        REST.replace("requests: 2}", "requests: 2, exclude-first: {on: 1}}"),
    )
    assert found.phases[0].excluded == {"off": 0, "on-x-1": 1, "on-x-2": 1}


def test_prompts_inline_and_from_files_beside_the_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "specs"
    (folder / "prompts").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)  # files are looked up from the spec, not from here
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    (folder / "prompts" / "list.json").write_text(json.dumps(messages))
    (folder / "prompts" / "body.json").write_text("\ufeff" + json.dumps({"messages": messages, "seed": 1}), "utf-8")
    (folder / "prompts" / "plain.txt").write_text("\ufeffone\r\n두번째\n\n", "utf-8", newline="")
    found = plan(
        folder,
        "conditions: {c: }\n",
        """
prompts:
  list: {file: prompts/list.json}
  body: {file: prompts/body.json}
  plain: {file: prompts/plain.txt, character: two lines}
  here: {messages: [{role: user, content: x}]}
phases:
  all: {concurrency: [1], requests: 2}
  some: {concurrency: [2], requests: 2, prompts: [here, plain]}
""",
    )
    assert found.prompts["list"].messages == found.prompts["body"].messages == messages
    assert found.prompts["plain"].messages == [{"role": "user", "content": "one\n두번째\n"}]
    assert found.prompts["plain"].character == "two lines"
    assert found.phases[0].prompts == ["list", "body", "plain", "here"]
    assert found.phases[1].prompts == ["here", "plain"]


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        spoil("max_tokens: 8", "max_tokens: 8\n  temperature: 0.30\n  nested: {a: [1, 0.10, null, {b: true}]}")[0],
        spoil("spec-tokens: 5", "a: !repeat [1, 0.50]\n      b: !comma [x, y]\n      c: {d: [0.30, {e: null}]}")[0],
        spoil("off: {}", "off: {template-values: {a: 0.30, b: [1, {c: 2020-01-01}]}, env: {A: 한글}}")[0],
        spoil("min: 1.0", "min: 2")[0],
    ],
)
def test_a_plan_survives_json(tmp_path: Path, text: str) -> None:
    found = plan_of(tmp_path, text)
    again = Plan.model_validate_json(found.model_dump_json(by_alias=True))
    assert again == found
    assert again.model_dump_json(by_alias=True) == found.model_dump_json(by_alias=True)
    assert [again.body(arm, "one", stream=True) for arm in again.arms] == [
        found.body(arm, "one", stream=True) for arm in found.arms
    ]


@pytest.mark.parametrize("value", [".nan", ".inf", "-.inf", "[{a: .nan}]"])
def test_what_json_cannot_say_is_refused(tmp_path: Path, value: str) -> None:
    for key in ("request", "template-values"):
        with pytest.raises(SpecError, match=f"{key}.x: the value cannot be written as JSON"):
            plan(tmp_path, f"conditions: {{c: }}\n{key}: {{x: {value}}}\n")


def test_side_effects_have_a_vocabulary(tmp_path: Path) -> None:
    def effects(text: str) -> dict[str, Any]:
        return plan(tmp_path, f"conditions: {{c: {{side-effects: {{{text}}}}}}}\n").arms[0].side_effects

    assert effects("async-scheduling: disabled, model-runner: V1, unsupported-sampling: [min_p]") == {
        "async-scheduling": "disabled",
        "model-runner": "V1",
        "unsupported-sampling": ["min_p"],
    }
    assert effects("max-num-batched-tokens: 2048") == {"max-num-batched-tokens": 2048}
    for text, words in [
        ("async: disabled", "unknown side effect"),
        ("async-scheduling: off", "must be one of enabled, disabled"),
        ("async-scheduling: false", "must be one of enabled, disabled, not false"),
        ("model-runner: v1", 'did you mean "V1"'),
        ("max-num-batched-tokens: many", "must be a whole number"),
        ("max-num-batched-tokens: true", "must be a whole number, not true"),
        ("unsupported-sampling: min_p", "must be a list"),
    ]:
        with pytest.raises(SpecError, match=words):
            effects(text)


def test_the_plan_in_words(tmp_path: Path) -> None:
    words = show_plan(plan_of(tmp_path, GOOD))
    assert "vllm serve some/model --max-num-seqs 16 --enforce-eager --nobody-ever-heard-of-it 0.30" in words
    assert "with drafts: vllm serve" in words
    assert "async-scheduling: disabled" in words
    # 2 launches of: alone 4, load 2 levels of (8 + 1)
    assert "requests in all: 44" in words
