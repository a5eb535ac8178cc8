"""The embedded engine's command line against what vLLM's own parser made of the same words.

The cases in fixtures/vllm-serve-cases-VERSION.json were recorded by schemas/vllm-serve/record_cases.py.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from simulator_process import EngineProcess

import runner
from runner.simulator import arguments, flags, simulated
from runner.simulator.release import RELEASES

FIXTURES = Path(__file__).parent / "fixtures"
RECORDED = {
    version: json.loads((FIXTURES / f"vllm-serve-cases-{version}.json").read_text("utf-8")) for version in RELEASES
}
RECORDINGS = Path(__file__).parents[1] / "recordings"
SCHEMAS = Path(runner.__file__).parents[1] / "schemas" / "vllm-serve"
OWN_WORDS = "the exit code and the flag are vLLM's; the sentence comes from code of a class, which is not imitated"
# Command lines whose outcome differs, by the versions they differ in.
LATER = ("0.32.0", "0.33.0")
EXCEPTIONS: dict[tuple[str, ...], tuple[tuple[str, ...], str]] = {
    ("m", "-ac.backend", "nothing"): (tuple(RELEASES), OWN_WORDS),
    ("m", "--lora-modules", "a=b=c"): (LATER, "cut at the first sign of two, once not at all; LoRA is refused anyway"),
    ("m", "--chat-template", "text"): (LATER, "the same sentence, raised as an error class of vLLM's own"),
    ("m", "--chat_template=text"): (LATER, "the same"),
    ("m", "--config", "float.yaml"): (tuple(RELEASES), "1e3 is a number for one reader of YAML, a word for the other"),
}
UNSTABLE = (
    (re.compile(r" at 0x[0-9a-f]+"), " at 0x0"),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "00000000-0000-0000-0000-000000000000"),
    (re.compile(r"vllm/transformers_utils"), "VLLM/transformers_utils"),
    # What depends on the releases of Python and of pydantic that run this test.
    (re.compile(r"pydantic\.dev/\d+\.\d+/"), "pydantic.dev/X/"),
    (re.compile(r"\(choose from .*\)"), lambda found: found[0].replace("'", "")),
)


def stable(text: str) -> str:
    for pattern, replacement in UNSTABLE:
        text = pattern.sub(replacement, text)
    return text


def outcome(words: list[str], version: str) -> dict[str, Any]:
    """What the embedded parser makes of a command line, in the form of the recording."""
    out, err = io.StringIO(), io.StringIO()
    said: list[str] = []
    result: dict[str, Any] = {}
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            given = arguments.parse(["serve", *words], version, said.append)
        result["non_default"] = str(given.non_default)
    except SystemExit as ended:
        result["exit"] = ended.code
        if ended.code:
            usage, program, message = re.split(r"(?m)^(vllm(?: serve)?): error: ", err.getvalue(), maxsplit=1)
            result["error"] = f"{program}: error: {message}".rstrip("\n")
            assert usage == flags.of(version).usage[program.split()[-1]]
            result["usage"] = program.split()[-1]
        else:
            result["printed"] = out.getvalue()
    except (ValueError, TypeError, AssertionError, IndexError, OSError) as error:
        result["raised"] = f"{type(error).__name__}: {error}"
    if said:
        result["warned"] = said
    return result


def comparable(result: dict[str, Any]) -> dict[str, Any]:
    return {key: stable(value) if isinstance(value, str) else value for key, value in result.items() if key != "argv"}


@pytest.mark.filterwarnings("ignore::ruamel.yaml.error.MantissaNoDotYAML1_1Warning")
@pytest.mark.parametrize("version", RELEASES)
def test_every_recorded_command_line_has_the_recorded_outcome(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = RECORDED[version]
    monkeypatch.chdir(tmp_path)
    for name, text in recorded["files"].items():
        Path(name).write_text(text, "utf-8")
    different = {}
    for case in recorded["cases"]:
        mine, theirs = comparable(outcome(case["argv"], version)), comparable(case)
        if mine != theirs:
            different[tuple(case["argv"])] = (mine, theirs)
    expected = {words for words, (versions, _) in EXCEPTIONS.items() if version in versions}
    assert {words: pair for words, pair in different.items() if words not in expected} == {}
    assert expected <= different.keys(), "an exception that is none"
    for words in expected:  # even these end in the same way
        mine, theirs = different[words]
        assert mine.get("exit") == theirs.get("exit")


@pytest.mark.parametrize("version", RELEASES)
def test_the_recording_tries_every_flag_and_covers_both_ends(version: str) -> None:
    cases = RECORDED[version]["cases"]
    assert RECORDED[version]["version"] == version == json.loads((SCHEMAS / f"{version}.json").read_text())["version"]
    # What argparse took may still be refused by a later check of vLLM's; that is in the recording as `raised`.
    taken = {word.split("=")[0] for case in cases if "exit" not in case for word in case["argv"]}
    refused = {word.split("=")[0] for case in cases if case.get("exit") == 2 for word in case["argv"]}
    for entry in flags.of(version).actions:
        names = set(entry.get("registered", entry["options"]))
        if names:
            spelt = names | {"--" + name[2:].replace("-", "_") for name in names}
            assert spelt & taken, names
            assert spelt & refused or entry.get("nargs") == "?", names  # which takes any word and none
    assert len(cases) > 1000


def words_of(shown: dict[str, Any]) -> list[str]:
    """A command line that leads to these non-default arguments."""
    words = [shown["model_tag"]]
    for name, value in shown.items():
        flag = name.replace("_", "-")
        if name in ("model_tag", "model"):
            continue
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            words += [f"--{flag}", *map(str, value if isinstance(value, list) else [value])]
    return words


def shown_in(log: str) -> dict[str, Any]:
    found = re.search(r"non-default args: (\{.*\})", log)
    assert found
    parsed = ast.literal_eval(found[1])
    assert isinstance(parsed, dict)
    return parsed


def test_the_arguments_that_real_engines_logged_are_parsed_to_the_same() -> None:
    seen = 0
    for path in sorted(RECORDINGS.rglob("*.log")):
        log = path.read_text("utf-8", "replace")
        if "non-default args" not in log:
            continue
        seen += 1
        shown = shown_in(log)
        version = "0.32.0" if "0.32.0" in str(path) else "0.26.0"
        mine = arguments.parse(["serve", *words_of(shown)], version, print).non_default
        assert list(mine.items()) == list(shown.items()), path
    assert seen > 12


def leaves(tree: dict[str, Any], found: dict[str, list[Any]]) -> dict[str, list[Any]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            leaves(value, found)
        else:
            found.setdefault(key, []).append(value)
    return found


@pytest.mark.parametrize("path", sorted(RECORDINGS.rglob("server_info.json")), ids=lambda path: path.parent.name)
def test_defaults_are_those_of_an_engine_on_a_gpu(path: Path) -> None:
    """None and `auto` are settled later, by the model and the machine; every other default stays what it is."""
    effective = leaves(json.loads(path.read_text("utf-8")), {})
    given = shown_in((path.parent / "startup.log").read_text("utf-8"))
    compared = {
        name: (sorted(value) if isinstance(value, set) else value, effective[name])
        for name, value in flags.of("0.26.0").defaults().items()
        if name in effective and name not in given and value is not None and value != "auto"
    }
    assert len(compared) > 70
    assert {name: pair for name, pair in compared.items() if pair[0] not in pair[1]} == {}


def only_in_data(version: str) -> str:
    """A switch of this release that no line of the package names, in any spelling."""
    code = "\n".join(path.read_text("utf-8") for path in Path(runner.__file__).parent.rglob("*.py"))
    found = [
        entry["dest"]
        for entry in flags.of(version).actions
        if entry["action"] == "switch"
        and entry["default"] is False
        and entry["dest"] not in code
        and entry["dest"].replace("_", "-") not in code
    ]
    assert len(found) > 10
    return str(found[0])


@pytest.mark.parametrize("version", RELEASES)
def test_a_flag_that_only_the_data_knows_is_shown_and_the_engine_serves(
    start: Callable[..., EngineProcess], version: str
) -> None:
    name = only_in_data(version)
    host = ["cpu", "--max-model-len", "2048"] if version == "0.32.0" else ["article"]
    flag = "--" + name.replace("_", "-")
    engine = start(flag, *host[1:], SIMULATOR_VERSION=version, SIMULATOR_PROFILE=host[0]).ready()
    shown = ast.literal_eval(engine.wait_for(r"non-default args: (\{.*\})").group(1))
    assert shown[name] is True
    assert list(shown) == [name for name in flags.of(version).defaults() if name in shown]
    assert engine.chat(max_tokens=4).status_code == 200


@pytest.mark.parametrize("version", RELEASES)
def test_an_unknown_flag_ends_the_process_as_it_ends_vllm(start: Callable[..., EngineProcess], version: str) -> None:
    [case] = [case for case in RECORDED[version]["cases"] if case["argv"] == ["m", "--foo", "bar"]]
    engine = start("--foo", "bar", SIMULATOR_VERSION=version)
    assert engine.process.wait(20) == case["exit"] == 2
    engine.wait_for(re.escape(case["error"]) + "$")


@pytest.mark.parametrize(
    ("flag", "inside", "outside"),
    [
        ("--max-num-partial-prefills=1", "0.26.0", "0.33.0"),
        ("--max-num-queued-reqs=None", "0.33.0", "0.26.0"),
        ("--disable-prefix-caching", "0.33.0", "0.32.0"),
    ],
)
def test_a_flag_of_one_release_is_unknown_in_another(
    flag: str, inside: str, outside: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments.parse(["serve", "m", flag], inside, print)
    with pytest.raises(SystemExit):
        arguments.parse(["serve", "m", flag], outside, print)
    assert capsys.readouterr().err.endswith(f"vllm: error: unrecognized arguments: {flag}\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-tp", "2"), "--tensor-parallel-size"),
        (("--enable-lora",), "--enable-lora"),
        (("--api-server-count", "2"), "--api-server-count"),
        (("--scheduling-policy", "priority"), "--scheduling-policy"),
        (("--no-scheduler-reserve-full-isl",), "--scheduler-reserve-full-isl"),
    ],
)
def test_what_would_make_a_figure_a_lie_is_refused(
    start: Callable[..., EngineProcess], words: tuple[str, ...], said: str
) -> None:
    engine = start(*words)
    assert engine.process.wait(20) == 1
    engine.wait_for(rf"(?m)^The embedded engine does not simulate {said} ")
    assert "Starting vLLM server" not in engine.text


def test_values_that_mean_the_default_are_not_refused() -> None:
    given = arguments.parse(["serve", "m", "-tp", "1", "-asc", "1", "--no-enable-lora", "--seed", "3"], "0.26.0", print)
    simulated.refuse(given)
    assert given.non_default["api_server_count"] == 1


def test_a_flag_without_a_price_is_taken_with_a_remark(start: Callable[..., EngineProcess]) -> None:
    engine = start("--dtype", "half").ready()
    engine.wait_for("(?m)^embedded engine: --dtype is taken, but no simulated time depends on it$")
    assert "no simulated time depends on it" not in start().ready().text


def test_the_lists_name_flags_that_exist_and_each_only_once() -> None:
    known = {entry["dest"] for version in RELEASES for entry in flags.of(version).actions}
    lists = [set(simulated.SIMULATED), set(simulated.REFUSED), set(simulated.WITHOUT_A_PRICE)]
    assert set().union(*lists) <= known
    assert sum(map(len, lists)) == len(set().union(*lists))
    code = "\n".join(
        path.read_text("utf-8")
        for path in (Path(runner.__file__).parent / "simulator").glob("*.py")
        if path.name != "simulated.py"
    )
    named = simulated.SIMULATED - {"model_tag", "config", "spec_model"}
    assert {name for name in named if f'"{name}"' not in code} == set()


def test_an_ignored_flag_falls_back_to_the_release_s_default() -> None:
    given = arguments.parse(["serve", "m", "--max-num-seqs", "8", "--middleware", "a"], "0.33.0", print)
    ignored = given.without(["max_num_seqs", "middleware"], shown=True)
    assert (ignored.values["max_num_seqs"], ignored.values["middleware"]) == (None, [])
    assert ignored.non_default["max_num_seqs"] == 8
    assert "max_num_seqs" not in given.without(["max_num_seqs"], shown=False).non_default


def test_secrets_are_hidden_where_the_release_hides_them() -> None:
    shown = {
        version: arguments.parse(["serve", "m", "--api-key", "k"], version, print) for version in ("0.26.0", "0.33.0")
    }
    assert shown["0.26.0"].non_default["api_key"] == ["k"]
    assert shown["0.33.0"].non_default["api_key"] == "***"
    assert shown["0.33.0"].values["api_key"] == ["k"]
