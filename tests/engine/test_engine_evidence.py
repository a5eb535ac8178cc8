"""Is the condition in force? Over the recorded logs, and over logs that were tampered with (input 9)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from engine_recorded import FIXTURES, LOGS, read_json, text

from runner.engine import evidence as ev
from runner.engine.arguments import CommaSeparated, WrittenFloat, wanted
from runner.engine.drafting import certainly_drafts, speculation_counters
from runner.engine.evidence import ABSENT, InForce, judge
from runner.engine.exposition import Exposition, parse
from runner.engine.features import FEATURES, features
from runner.engine.log import ARGUMENTS_LINE, LogEvidence, Speculative, read_log
from runner.engine.printed import Repr
from runner.engine.request import disabled_options
from runner.engine.server_info import ServerInfo
from runner.engine.values import same

ON, OFF = "h200/q3b-on/startup.log", "h200/q3b-off/startup.log"


def log_of(name: str, *changes: tuple[str, str]) -> LogEvidence:
    body = text(name)
    for old, new in changes:
        assert old in body
        body = body.replace(old, new)
    return read_log(body.splitlines())


def scrape(name: str) -> Exposition:
    return parse(text(name))


def only(args: dict[str, Any], log: LogEvidence | None, exposition: Exposition | None = None) -> ev.ArgumentEvidence:
    found, *_ = judge(wanted(args), log, exposition)  # the rest: speculation that these arguments do not ask for
    return found


# ------------------------------------------------------------------------------------------------------
# Side features


def test_each_feature_of_each_recorded_arm() -> None:
    """Runner and async by the table of the h200 report and the b2048 README; the budget by the commands."""
    found = {name: {key: feature.value for key, feature in features(log_of(name)).items()} for name in LOGS}
    expected = {
        "h200/q3b-off/startup.log": ("enabled", "V2", 8192, ()),
        "h200/q3b-on/startup.log": ("disabled", "V1", 8192, ("min_p", "logit_bias")),
        "h200/q3b-on-b16384/startup.log": ("disabled", "V1", 16384, ("min_p", "logit_bias")),
        "h200/q3b-off-noasync/startup.log": ("disabled", "V2", 8192, ()),
        "h200/gemma-off/startup.log": ("enabled", "V2", 8192, ()),
        "h200/gemma-off-2/startup.log": ("enabled", "V2", 8192, ()),
        "h200/gemma-on/startup.log": ("disabled", "V1", 8192, ("min_p", "logit_bias")),
        "h200/config-stage-b2048-no-gpu.log": ("disabled", "V1", 2048, None),
        # the warning of the on arm is no difference: both schedule 2048 tokens
        "h200-b2048/off-a/startup.log": ("enabled", "V2", 2048, ()),
        "h200-b2048/on-a/startup.log": ("disabled", "V1", 2048, ("min_p", "logit_bias")),
        "h200-b2048/off-v1-async/startup.log": ("enabled", "V1", 2048, ()),
        "h200-b2048/off-v1-noasync/startup.log": ("disabled", "V1", 2048, ()),
        "cpu/0.26.0-cpu-tiny/off/server.log": ("disabled", "V1", 2048, ()),
        "cpu/0.26.0-cpu-tiny/on/server.log": ("disabled", "V1", 2048, ("min_p", "logit_bias")),
        "cpu/0.32.0-cpu-tiny/off/server.log": (None, "V1", 2048, ()),
        "cpu/0.32.0-cpu-tiny/on/server.log": ("disabled", "V1", 2048, ("min_p", "logit_bias")),
    }
    assert {name: tuple(values.values()) for name, values in found.items()} == expected
    assert all(list(values) == list(FEATURES) for values in found.values())


def test_features_without_a_log_are_absent() -> None:
    assert set(features(None)) == set(FEATURES)
    assert all(feature.value is None for feature in features(None).values())


def test_a_draft_models_budget_is_not_known_without_the_warning() -> None:
    log = log_of("h200/q3b-on/startup.log", ("method='ngram'", "method='draft_model'"))
    assert features(log)["max-num-batched-tokens"].value is None


def test_no_warning_in_a_log_without_its_end_is_absent_and_not_none() -> None:
    body = text(OFF).split("Application startup complete.")[0]
    assert features(read_log(body.splitlines()))["unsupported-sampling"].value is None
    headless = text(OFF).split("Initializing a V1")[1].split("\n", 1)[1]
    assert features(read_log(headless.splitlines()))["unsupported-sampling"].value is None


# ------------------------------------------------------------------------------------------------------
# Arguments


def commands() -> list[Path]:
    return sorted(FIXTURES.rglob("command.json"))


def args_of(command: list[str]) -> dict[str, Any]:
    """The options of a recorded command as a spec would have them."""
    args: dict[str, Any] = {}
    words = command[3:]
    while words:
        name = words.pop(0).removeprefix("--")
        if not words or words[0].startswith("--"):
            args[name] = True
        else:
            value = words.pop(0)
            args[name] = json.loads(value) if re.fullmatch(r"[\d.]+", value) else value
    return args


@pytest.mark.parametrize("path", commands(), ids=lambda path: path.parent.name)
def test_each_option_of_a_recorded_command_is_in_force(path: Path) -> None:
    command = json.loads(path.read_text())
    args = args_of(command.get("argv") or command["command"])
    log = read_log((path.parent / "startup.log").read_text().splitlines())
    assert "spec-tokens" in args or "spec-tokens" not in str(command)
    for found in judge(wanted(args), log, None):
        # vLLM does not print an option that equals its default: 8000 is the port's
        default = found.name == "port" and found.wanted == 8000
        assert found.verdict in ((InForce.UNKNOWN,) if default else (InForce.IN_FORCE, InForce.PARSED)), found
        shown = found.configured is not ABSENT
        assert (found.verdict is InForce.IN_FORCE) == (shown and not default), found


def test_every_option_that_is_changed_is_found() -> None:
    args = args_of(read_json("h200/q3b-on/command.json")["argv"])
    log = log_of(ON)
    for name, value in args.items():
        other = (not value) if isinstance(value, bool) else value + 1 if isinstance(value, int | float) else value + "x"
        assert only({name: other}, log).verdict == InForce.DIFFERS, name


def test_absence_among_the_non_default_args() -> None:
    log, prom = log_of(ON), scrape("h200/q3b-on/metrics/c1-kr-after.prom")
    assert only({"swap-space": 4}, log, prom).verdict == InForce.UNKNOWN
    assert only({"enable-prefix-caching": True}, log, prom).verdict == InForce.IN_FORCE  # configuration line
    assert only({"enable-prefix-caching": False}, log, prom).verdict == InForce.DIFFERS
    assert only({"block-size": 16}, log).verdict == InForce.UNKNOWN
    assert only({"block-size": 16}, log, prom).verdict == InForce.IN_FORCE  # cache_config_info
    found = only({"block-size": 32}, log, prom)
    assert (found.verdict, found.parsed, found.configured) == (InForce.DIFFERS, ABSENT, 16)
    assert only({"no-async-scheduling": True}, log).verdict == InForce.IN_FORCE
    assert only({"async-scheduling": True}, log).verdict == InForce.DIFFERS
    assert only({"max-num-batched-tokens": "8K"}, log).verdict == InForce.IN_FORCE
    assert only({"max-num-batched-tokens": "8k"}, log).verdict == InForce.DIFFERS
    assert only({"dtype": "bfloat16"}, log).verdict == InForce.IN_FORCE
    assert only({"dtype": "auto"}, log).verdict == InForce.UNKNOWN


def test_parsed_and_then_not_built_from_is_ignored() -> None:
    log = log_of(ON, ("max_seq_len=4096", "max_seq_len=2048"))
    found = only({"max-model-len": 4096}, log)
    assert (found.verdict, found.parsed, found.configured) == (InForce.IGNORED, 4096, 2048)


@pytest.mark.parametrize("name", ["model", "tokenizer"])
def test_a_name_that_the_engine_may_have_resolved_to_a_path_is_unknown(name: str) -> None:
    """Offline, the configuration line has the path of the snapshot."""
    parsed = {name: "org/model"}
    for printed, verdict in (("'/hub/snapshots/1'", InForce.UNKNOWN), ("'org/model'", InForce.IN_FORCE)):
        log = LogEvidence(non_default_args=parsed, engine_config={name: printed})
        [found] = judge(parsed, log, None)
        assert found.verdict is verdict, found


def test_a_value_that_the_engine_hides_is_unknown() -> None:
    log = LogEvidence(non_default_args={"api_key": "***"})
    assert only({"api-key": "secret"}, log).verdict == InForce.UNKNOWN


# ------------------------------------------------------------------------------------------------------
# Speculation

FLAT = {"spec-method": "ngram", "spec-tokens": 5}
WHOLE = {"speculative-config": {"method": "ngram", "num-speculative-tokens": 5}}


@pytest.mark.parametrize("args", [FLAT, WHOLE, {"speculative-config.method": "ngram"}])
def test_speculation_in_force(args: dict[str, Any]) -> None:
    assert {found.verdict for found in judge(wanted(args), log_of(ON), None)} == {InForce.IN_FORCE}


def test_speculation_by_json_is_read_from_the_json() -> None:
    log = log_of(
        ON,
        ("'spec_method': 'ngram', 'spec_tokens': 5", "'speculative_config': {'method': 'ngram', "
         "'num_speculative_tokens': 5, 'prompt_lookup_max': 4}"),
    )  # fmt: skip
    args = {"method": "ngram", "num_speculative_tokens": 5, "prompt-lookup-max": 4}
    # the configuration line prints method, model and tokens, and no other field
    for whole in (args, json.dumps(args)):
        found = only({"speculative-config": whole}, log)
        assert found.verdict == InForce.PARSED and found.reason.endswith("what became of prompt_lookup_max")
        assert found.configured == {"method": "ngram", "num_speculative_tokens": 5}
    dotted = only({"speculative-config.prompt_lookup_max": 4}, log)
    assert (dotted.verdict, dotted.parsed, dotted.configured) == (InForce.PARSED, 4, ABSENT)
    assert (dotted.quote, dotted.source) == (None, ARGUMENTS_LINE)
    shows = ServerInfo(speculative=Speculative("ngram", None, 5), drafting={"prompt_lookup_max": 4})
    for name, asked in (("speculative-config", args), ("speculative-config.prompt_lookup_max", 4)):
        told, *_ = judge(wanted({name: asked}), log, None, shows)
        assert told.verdict == InForce.IN_FORCE and "/server_info" in str(told.source)
    refuted = ServerInfo(speculative=Speculative("ngram", None, 5), drafting={"prompt_lookup_max": 3})
    assert judge(wanted({"speculative-config": args}), log, None, refuted)[0].verdict == InForce.DIFFERS
    assert only({"speculative-config": args | {"prompt-lookup-max": 3}}, log).verdict == InForce.DIFFERS
    assert only({"speculative-config": args | {"prompt-lookup-min": 3}}, log).verdict == InForce.MISSING
    assert only({"spec-tokens": 5}, log).verdict == InForce.IN_FORCE


def test_speculation_not_parsed_is_missing() -> None:
    for args in (FLAT, WHOLE):
        assert {found.verdict for found in judge(wanted(args), log_of(OFF), None)} == {InForce.MISSING}


def test_speculation_parsed_and_dropped_is_ignored() -> None:
    log = log_of(ON, ("SpeculativeConfig(method='ngram', model=None, num_spec_tokens=5)", "None"))
    for args in (FLAT, WHOLE):
        for found in judge(wanted(args), log, None):
            assert found.verdict == InForce.IGNORED
            assert found.configured is None
            assert found.quote == "speculative_config=None"


def test_speculation_parsed_and_no_configuration_line_is_unknown() -> None:
    body = "\n".join(line for line in text(ON).splitlines() if "with config:" not in line)
    assert only({"spec-tokens": 5}, read_log(body.splitlines())).verdict == InForce.UNKNOWN


def test_another_speculation_differs() -> None:
    """Input 9: eagle3 was asked; the arguments, or the configuration, show something else."""
    assert only({"spec-tokens": 4}, log_of(ON)).verdict == InForce.DIFFERS
    assert only({"spec-method": "eagle3"}, log_of(ON)).verdict == InForce.DIFFERS
    method = log_of(ON, ("SpeculativeConfig(method='ngram'", "SpeculativeConfig(method='draft_model'"))
    assert only({"spec-method": "ngram"}, method).verdict == InForce.DIFFERS
    tokens = log_of(ON, ("num_spec_tokens=5", "num_spec_tokens=3"))
    assert only({"spec-tokens": 5}, tokens).verdict == InForce.DIFFERS
    assert only({"speculative-config": {"num_speculative_tokens": 5}}, tokens).verdict == InForce.DIFFERS


def test_the_draft_model_counts_where_the_engine_prints_it() -> None:
    args = {"spec_method": "eagle3", "spec_model": "/d", "spec_tokens": 5}
    right = LogEvidence(non_default_args=args, speculative=Speculative("eagle3", "/d", 5))
    other = LogEvidence(non_default_args=args, speculative=Speculative("eagle3", "/e", 5))
    target = LogEvidence(
        non_default_args=args | {"spec_method": "ngram_gpu"},
        speculative=Speculative("ngram_gpu", "/target", 5),
    )
    assert only({"spec-model": "/d"}, right).verdict == InForce.IN_FORCE
    assert only({"spec-model": "/d"}, other).verdict == InForce.DIFFERS
    assert only({"spec-model": "/d"}, target).verdict == InForce.PARSED  # it prints the model that it verifies with
    mtp = LogEvidence(non_default_args={"spec_method": "qwen3_next_mtp"}, speculative=Speculative("mtp", "/t", 1))
    assert only({"spec-method": "qwen3_next_mtp"}, mtp).verdict == InForce.IN_FORCE


# ------------------------------------------------------------------------------------------------------
# Values


@pytest.mark.parametrize(
    ("asked", "found", "verdict"),
    [
        ("x", ["x"], True),
        (["x"], "x", True),
        (["a", "b"], ["a", "b"], True),
        (["a", "b"], ["b", "a"], False),
        (CommaSeparated(["a", "b"]), "a,b", True),
        ("4k", 4000, True),
        ("4K", 4096, True),
        ("4K", 4000, False),
        ("64M", 67108864, True),
        ("0.30", 0.3, True),
        (WrittenFloat("0.30"), 0.3, True),
        (0.3, 0.31, False),
        ("5", 5, True),
        (True, True, True),
        (True, "True", True),
        (True, 1, False),
        (1, True, False),
        (False, None, False),
        ("a", "A", False),
        ("k", "k", True),
        ("", "", True),
        ({"a-b": 1}, {"a_b": 1}, True),
        ({"a": 1}, '{"a": 1}', True),
        ('{"a": {"b-c": [1]}}', {"a": {"b_c": [1]}}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": 1}, Repr("Config(a=1)"), None),
        ({"a": 1, "b": 2}, {"a": 1, "b": Repr("B()")}, None),
        ({"a": 1, "b": 2}, {"a": 3, "b": Repr("B()")}, False),
        ({"a": 1}, "Config(a=1)", None),
        ("secret", "***", None),
    ],
)
def test_values_are_compared_and_not_their_spelling(asked: object, found: object, verdict: bool | None) -> None:
    assert same(asked, found) is verdict


# ------------------------------------------------------------------------------------------------------
# Did it draft?


def test_counters_that_moved() -> None:
    stem = "h200/q3b-on/metrics/c1-kr"
    before, after = scrape(f"{stem}-before.prom"), scrape(f"{stem}-after.prom")
    moved = speculation_counters(before, after)
    assert (moved.state, moved.drafts, moved.draft_tokens, moved.accepted_tokens) == ("moved", 90, 450, 340)
    assert speculation_counters(after, after).state == "flat"
    assert speculation_counters(after, before).state == "unknown"
    off = scrape("h200/q3b-off/metrics/c1-kr-after.prom")
    absent = speculation_counters(off, off)
    assert (absent.state, absent.drafts) == ("absent", None)


def test_certainly_drafts() -> None:
    sentence = "Kubernetes에서 GPU를 사용하려면 RuntimeClass와 Device Plugin이 필요하다. Then it ends here."
    assert len(sentence) >= 64
    assert certainly_drafts("ngram", [("hello", "short"), ("p", sentence + "\n" + sentence)]) is True
    assert certainly_drafts("ngram", [(f"repeat: {sentence}", sentence)]) is True
    assert certainly_drafts("ngram", [("p", sentence)]) is None
    assert certainly_drafts("ngram", [(sentence[:63], sentence[:63])]) is None
    half = len(sentence) // 2  # what spans the end of the prompt and the output is one text for no tokenizer
    assert certainly_drafts("ngram", [(sentence + sentence[:half], sentence[half:])]) is None
    assert certainly_drafts("ngram", [("-" * 200, "-" * 200)]) is None  # may be a few tokens
    assert certainly_drafts("eagle3", [("p", sentence)]) is True
    assert certainly_drafts("deepseek_mtp", [("p", sentence)]) is True
    assert certainly_drafts("eagle3", [("p", "yes")]) is None
    assert certainly_drafts("suffix", [("p", sentence * 2)]) is None
    assert certainly_drafts("ngram", []) is None


@pytest.mark.parametrize("arm", ["h200/q3b-on", "h200/gemma-on"])
def test_the_recorded_texts_must_draft(arm: str) -> None:
    lines = text(f"{arm}/responses/c1-kr.jsonl").splitlines()
    texts = [("", json.loads(line)["choices"][0]["message"]["content"]) for line in lines]
    assert certainly_drafts("ngram", texts) is True


def test_options_that_have_no_effect() -> None:
    body = {"model": "m", "min_p": 0.1, "logit_bias": {"5": 1}, "temperature": 0}
    assert disabled_options(body, ("min_p", "logit_bias")) == ["min_p", "logit_bias"]
    assert disabled_options(body, ()) == []
    assert disabled_options(body, ("logit_bias",)) == ["logit_bias"]
    for neutral in ({"min_p": 0, "logit_bias": {}}, {"min_p": 0.0, "logit_bias": None}, {}):
        assert disabled_options(neutral, ("min_p", "logit_bias")) == []


@pytest.mark.parametrize(
    ("name", "asked", "verdict"),
    [
        ("load_format", "auto", InForce.UNKNOWN),  # the engine's choice, and not among the parsed ones
        ("load_format", "dummy", InForce.UNKNOWN),
        ("tokenizer_mode", "slow", InForce.UNKNOWN),
        ("kv_cache_dtype", "fp8", InForce.UNKNOWN),
    ],
)
def test_an_unquoted_word_of_the_configuration_is_never_taken_for_another(
    name: str, asked: str, verdict: InForce
) -> None:
    [found] = judge({name: asked}, log_of(OFF), None)
    assert found.verdict is verdict, found


def test_an_unquoted_word_that_is_the_wanted_one_is_in_force() -> None:
    [found] = judge({"served_model_name": "qwen2.5-3b"}, log_of(OFF), None)
    assert found.verdict is InForce.IN_FORCE and "configuration line shows it" in found.reason
    changed = log_of(OFF, ("served_model_name=qwen2.5-3b", "served_model_name=other"))
    [found] = judge({"served_model_name": "qwen2.5-3b"}, changed, None)
    assert found.verdict is InForce.UNKNOWN, found


def test_parsed_and_shown_nowhere_is_less_than_in_force() -> None:
    [found] = judge({"max_num_seqs": 16}, log_of(OFF), None)
    assert found.verdict is InForce.PARSED
