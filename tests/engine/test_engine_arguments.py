"""Arguments: each kind of value as words, and the two spellings of one option."""

from __future__ import annotations

import argparse
import copy
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.engine.arguments import (
    CommaSeparated,
    Repeated,
    WrittenFloat,
    canonical,
    destination,
    identity,
    overlay,
    render,
    wanted,
)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("enforce-eager", True, ["--enforce-eager"]),
        ("async_scheduling", False, ["--no-async-scheduling"]),
        ("no-async-scheduling", True, ["--no-async-scheduling"]),
        ("no-async-scheduling", False, ["--async-scheduling"]),
        ("port", None, []),
        ("max_num_seqs", 16, ["--max-num-seqs", "16"]),
        ("zero", 0, ["--zero", "0"]),
        ("gpu-memory-utilization", WrittenFloat("0.30"), ["--gpu-memory-utilization", "0.30"]),
        ("gpu-memory-utilization", 0.3, ["--gpu-memory-utilization", "0.3"]),
        ("max-num-batched-tokens", "4k", ["--max-num-batched-tokens", "4k"]),
        ("served-model-name", ["a", "b"], ["--served-model-name", "a", "b"]),
        ("middleware", Repeated(["a", "-b"]), ["--middleware", "a", "--middleware=-b"]),
        ("allowed", CommaSeparated(["a", 2]), ["--allowed", "a,2"]),
        ("max-model-len", -1, ["--max-model-len=-1"]),
        ("chat-template", "-x", ["--chat-template=-x"]),
        ("chat-template", "", ["--chat-template="]),
        ("chat-template", "two words {{ x }}", ["--chat-template", "two words {{ x }}"]),
        (
            "speculative-config",
            {"method": "ngram", "prompt_lookup_max": 4, "이름": None},
            ["--speculative-config", '{"method":"ngram","prompt_lookup_max":4,"이름":null}'],
        ),
        ("a-flag-that-nobody-has-heard-of", "v", ["--a-flag-that-nobody-has-heard-of", "v"]),
        ("--spec_tokens", 5, ["--spec-tokens", "5"]),
    ],
)
def test_each_kind_of_value_has_its_words(key: str, value: object, words: list[str]) -> None:
    assert render({key: value}) == words


def test_the_order_of_the_author_is_kept() -> None:
    assert render({"b": 1, "a": True, "c": "x"}) == ["--b", "1", "--a", "--c", "x"]


@pytest.mark.parametrize(
    "args",
    [
        {"max-num-seqs": 1, "max_num_seqs": 1},
        {"x": False, "no-x": True},
        {"x": float("nan")},
        {"x": float("inf")},
        {"x": []},
        {"x": Repeated()},
        {"x": object()},
        {"x": b"bytes"},
        {"x": {"a": float("nan")}},
        {"x": {"a": object()}},
        {"x": ["a", "-b"]},
        {"x": ["a", None]},
        {"x": [True]},
        {"x": CommaSeparated(["a,b"])},
        {"--": 1},
    ],
)
def test_what_has_no_spelling_is_refused_by_name(args: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(args)).lstrip("-") or "name"):
        render(args)


def test_names() -> None:
    assert canonical("--max_num_seqs") == canonical("max-num-seqs") == "max-num-seqs"
    assert destination("--max-num-seqs") == "max_num_seqs"
    assert identity("no_x") == identity("--x") == "x"


def test_an_overlay_replaces_by_identity_and_keeps_the_place() -> None:
    base = {"a": 1, "async-scheduling": True, "spec": {"k": 1, "l": 2}}
    over = {"no_async_scheduling": True, "z": 9, "spec": {"k": 3}}
    merged = overlay(base, over)
    assert list(merged.items()) == [("a", 1), ("no_async_scheduling", True), ("spec", {"k": 3}), ("z", 9)]
    assert base["async-scheduling"] is True
    with pytest.raises(ValueError, match="same option"):
        overlay({"a_b": 1, "a-b": 2}, {})


def test_wanted_is_what_argparse_would_hold() -> None:
    args = {"max-num-seqs": 4, "no-x": True, "no-y": False, "z": False, "gone": None, "no-text": "t"}
    assert wanted(args) == {"max_num_seqs": 4, "x": False, "y": True, "z": False, "no_text": "t"}


def test_a_written_float_survives_copies() -> None:
    value = WrittenFloat("0.30")
    assert value == 0.3
    for again in (copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert again.text == "0.30"
    with pytest.raises(ValueError, match="abc"):
        WrittenFloat("abc")


VALUES = st.one_of(
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=4), max_size=3),
)


@given(st.dictionaries(st.sampled_from(["a-b", "c", "long-one"]), VALUES))
def test_argparse_reads_back_what_was_rendered(args: dict[str, object]) -> None:
    parser = argparse.ArgumentParser()
    for key, value in args.items():
        if isinstance(value, bool):
            parser.add_argument(f"--{key}", action=argparse.BooleanOptionalAction)
        else:
            kind = json.loads if isinstance(value, dict) else type(value)
            parser.add_argument(f"--{key}", type=kind)
    assert vars(parser.parse_args(render(args))) == wanted(args)
