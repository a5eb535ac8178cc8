"""One fault gives one message: file, line, column, key, and what would be right. Exit code 2."""

import itertools
import json
from pathlib import Path

import pytest
from spec_files import GOOD, run, spoil, write

Capsys = pytest.CaptureFixture[str]

# kind, old text, new text, where the message points in the new text, its key, words in it
FAULTS = [
    ("typo", "replicates: 1", "replicats: 1", "replicats", "replicats", 'did you mean "replicates"?'),
    ("typo", "    requests: 8", "    request: 8", "request", "phases.load.request", 'did you mean "requests"?'),
    ("typo", "counted: true", "count: true", "count", "phases.load.warm-up.count", 'did you mean "counted"?'),
    ("typo", "- role: user", "- rol: user", "rol", "prompts.one.messages[0].rol", 'did you mean "role"?'),
    ("required", "model: some/model", "modle: some/model", "modle", "modle", 'did you mean "model"?'),
    ("referred to", "conditions:\n", "condition:\n", "condition", "condition", 'did you mean "conditions"?'),
    ("referred to", "prompts:\n  one", "prompt:\n  one", "prompt", "prompt", 'did you mean "prompts"?'),
    ("referred to", "    file: two", "    fiel: two", "fiel", "prompts.two.fiel", 'did you mean "file"?'),
    (
        "underscore",
        "exclude-first: {on: 1}",
        "exclude_first: {on: 1}",
        None,
        "phases.alone.exclude_first",
        "exclude-first",
    ),
    ("case", "  max-failed: 0", "  Max-Failed: 0", "Max", "limits.Max-Failed", 'did you mean "max-failed"?'),
    ("type", "replicates: 1", "replicates: one", "one", "replicates", "must be a whole number"),
    ("type", "    requests: 8", '    requests: "8"', '"8"', "phases.load.requests", "write it without quotes"),
    ("type", "counted: true", "counted: yes", "yes", "phases.load.warm-up.counted", "write true"),
    ("type", "[2, 4]", "[2, x]", "x", "phases.load.concurrency[1]", "must be a whole number"),
    ("null", "replicates: 1", "replicates:", "replicates", "replicates", "must be a whole number, not nothing"),
    ("null", "    requests: 8", "    requests:", "requests", "phases.load.requests", "not nothing (null)"),
    ("null", "counted: true", "counted: ", "counted", "phases.load.warm-up.counted", "not nothing (null)"),
    ("null map", "request:\n  max_tokens: 8", "request:\n  # max_tokens: 8", None, "request", "write {}"),
    ("list for map", "  off: {}\n  on:\n", "  - off: {}\n  - on:\n", "- off", "conditions", 'leave out the "-"'),
    ("list for map", "off: {}", "off: []", "[]", "conditions.off", "must be a mapping"),
    (
        "list for map",
        "exclude-first: {on: 1}",
        "exclude-first: [on]",
        "[on]",
        "phases.alone.exclude-first",
        "a mapping",
    ),
    ("scalar for list", "concurrency: [1]", "concurrency: 1", "1", "phases.alone.concurrency", "write [1]"),
    ("version", '"0.26.0"', "0.30", None, "engine.version", 'quote it: "0.30"'),
    ("on as value", "counted: true", "counted: on", "on", "phases.load.warm-up.counted", "write true"),
    ("true as condition", "on:\n", "on: true\n  more:\n", "true", "conditions.on", "not true"),
    ("empty", "[1]", "[]", None, "phases.alone.concurrency", "must not be empty"),
    ("bound", "    requests: 8", "    requests: 0", "0", "phases.load.requests", "must be at least 1, not 0"),
    ("bound", "min: 1.0", "min: .inf", ".inf", "invariants.speedup.min", "finite"),
    ("bound", "replicates: 1", "replicates: 0xffffffffff", "0x", "replicates", "must be at most 1000"),
    ("missing file", "two.txt", "tow.txt", None, "prompts.two.file", 'did you mean "two.txt"?'),
    ("invariant", "same-output: {}", "same-outptu: {}", None, "invariants.same-outptu", 'did you mean "same-output"?'),
    ("invariant", "same-output: {}", "faster: {}", None, "invariants.faster", "valid here: "),
    ("invariant", "min: 1.0", "mim: 1.0", None, "invariants.speedup.mim", 'did you mean "min"?'),
    ("invariant", "same-output: {}", "same-output:", None, "invariants.same-output", '"same-output: {}" to ask'),
    ("duplicate", "replicates: 1", "name: again", None, "name", "stands twice; first in line 1"),
    ("duplicate", "enforce-eager: true", "max-num-seqs: 2", None, "args.max-num-seqs", "first in line 5"),
    ("duplicate", "  spec-tokens: 5", "  a: 1\n      a: 2", "a: 2", "conditions.on.args.a", "first in line 13"),
    ("duplicate", "counted: true", "requests: 2", None, "phases.load.warm-up.requests", "stands twice"),
    (
        "two spellings",
        "enforce-eager: true",
        "max_num_seqs: 2",
        None,
        "args.max_num_seqs",
        '"max_num_seqs" and "max-num-seqs"',
    ),
    (
        "two spellings",
        "  spec-tokens: 5",
        "  a-b: 1\n      no_a_b: true",
        "no_a_b",
        "conditions.on.args.no_a_b",
        "one option",
    ),
    ("target's", "enforce-eager: true", "port: 80", None, "args.port", "the target sets"),
    ("no option", "enforce-eager: true", "a b: 80", None, "args.a b", "no option's name"),
    ("no word", "enforce-eager: true", 'e: "a\\0b"', '"a', "args.e", "NUL"),
    ("no word", "enforce-eager: true", "e: .nan", ".nan", "args.e", "no number"),
    ("reference", "baseline: off", "baseline: of", "of", "baseline", 'did you mean "off"?'),
    ("reference", "{on: 1}", "{onn: 1}", "onn", "phases.alone.exclude-first.onn", 'did you mean "on"?'),
    ("reference", "[one, two]", "[one, tow]", "tow", "phases.load.prompts[1]", 'did you mean "two"?'),
    ("reference", "conditions: [on]", "conditions: [onn]", "onn", "invariants.speedup.conditions[0]", '"on"?'),
    (
        "side effect",
        "async-scheduling: d",
        "async_scheduling: d",
        None,
        "conditions.on.side-effects.async_scheduling",
        '"async-scheduling"?',
    ),
    (
        "feature",
        "      async-scheduling: disabled\n",
        "      async-scheduling: disabled\n    sets: {model-runer: V1}\n",
        "model-runer",
        "conditions.on.sets.model-runer",
        '"model-runner"?',
    ),
    (
        "both",
        "      async-scheduling: disabled\n",
        "      async-scheduling: disabled\n    sets: {async-scheduling: disabled}\n",
        "disabled}",
        "conditions.on.sets.async-scheduling",
        "it is one or the other",
    ),
    ("side effect", "disabled", "disable", None, "conditions.on.side-effects.async-scheduling", '"disabled"?'),
    ("label", "with drafts", "off", None, "conditions.on.label", '"off" is what tables call'),
    ("label", "with drafts", '" x"', None, "conditions.on.label", "one line of text"),
    ("request", "max_tokens: 8", "max-tokens: 8", None, "request.max-tokens", 'did you mean "max_tokens"?'),
    ("request", "max_tokens: 8", "stream: true", None, "request.stream", "phases.<name>.stream"),
    ("request", "max_tokens: 8", "stream_options: {}", None, "request.stream_options", "not every phase"),
    (
        "exclude",
        "[1]\n    requests: 4\n",
        "[3]\n    requests: 4\n",
        "requests: 4\n",
        "phases.alone.exclude-first",
        "concurrency 1",
    ),
    (
        "exclude",
        "exclude-first: {on: 1}",
        "exclude-first: {on: 4}",
        "4",
        "phases.alone.exclude-first.on",
        "none would be left",
    ),
    ("key", "off: {}\n  on:", "off: {}\n  1: {}\n  on:", "1", "conditions", 'quote it: "1"'),
    ("key", "off: {}\n  on:", 'off: {}\n  "": {}\n  on:', '""', "conditions.", "one line of text"),
    ("tag", "replicates: 1", "replicates: !count 1", "!count", "replicates", "unknown tag !count"),
    ("tag", "off: {}", "off: !!python/object {}", "!!", "conditions.off", "unknown tag !!python/object"),
    ("tag", "counted: true", "counted: !!bool maybe", "!!", "phases.load.warm-up.counted", "cannot be read as bool"),
    ("tag", "    requests: 8", '    requests: !!int ""', "!!", "phases.load.requests", "cannot be read as int"),
    ("huge", "max_tokens: 8", "max_tokens: 0x" + "f" * 6000, "0x", "request.max_tokens", "too large"),
    ("surrogate", "hello", '"\\ud800"', None, "prompts.one.messages[0].content", "surrogate"),
    ("template", "replicates: 1", "replicates: {{ n }}", "{{", "replicates", "{{ }} is not filled in"),
    ("merge", "off: {}", "off: {<<: 1}", "1", "conditions.off", '"<<" takes a mapping'),
    ("model", "some/model", "--some", None, "model", "neither a model id nor a path"),
]

# YAML's own errors come alone, and have no key
SYNTAX = [
    ("tab", "name: good\n", "name: good\n\treplicats: 1\n", "\t", "a tab in the indentation"),
    ("tab", "  enforce-eager", "\tenforce-eager", None, "a tab in the indentation"),
    ("tab", "      spec-tokens", "\t\tspec-tokens", None, "a tab in the indentation"),
    ("tab", "      spec-tokens", "    \tspec-tokens", "\t", "a tab in the indentation"),
    ("tab", "        content", "      \tcontent", "\t", "a tab in the indentation"),
    ("tab", "seqs: 16", "seqs:\t16", "\t", "a tab between the words"),
    ("tab", "replicates: 1\n", "replicates: 1\t\n", "\t", "a tab between the words"),
    ("quote", '"0.26.0"', '"0.26.0', None, "never closed"),
    ("bracket", "[2, 4]\n    requests: 8", "[2, 4\n    requests: 8", ": 8", "opened in line 32"),
    ("colon", "replicates: 1", "replicates 1", None, 'needs ": " after it'),
    ("colon", "replicates: 1", "replicates:1", None, 'needs ": " after it'),
    ("colon", "content: hello", "content: hello: you", ": you", "quote text that holds"),
    ("indent", "  enforce-eager", " enforce-eager", "enforce", "begins in line 1; check the indentation"),
    ("sign", "some/model", "@some", None, "must be quoted"),
    ("alias", "off: {}", "off: *nothing", "*", "undefined alias"),
    ("documents", "replicates: 1", "---\nreplicates: 1", None, "second document"),
    ("recursive", "off: {}", "off: &a {args: {x: [*a]}}", "&a", "an alias that contains itself"),
    ("recursive", "off: {}", "off: &a {<<: *a}", "&a", "an alias that contains itself"),
    ("control", "some/model", "some\x00model", "\x00", "U+0000"),
]


@pytest.mark.parametrize(("kind", "old", "new", "at", "key", "words"), FAULTS)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_one_fault_one_message(
    tmp_path: Path, capsys: Capsys, kind: str, old: str, new: str, at: str | None, key: str, words: str, newline: str
) -> None:
    text, line, column = spoil(old, new, at)
    if at is not None and at.endswith("\n"):  # its next line is the culprit
        line += 1
    path = write(tmp_path, text.replace("\n", newline))
    said = run(capsys, "validate", path)
    assert said.code == 2
    assert len(said.err) == 1, said.err
    assert said.err[0].startswith(f"{path}:{line}:{column}: {key}: "), said.err[0]
    assert words in said.err[0]
    assert said.out == ""


@pytest.mark.parametrize(("kind", "old", "new", "at", "words"), SYNTAX)
def test_what_is_no_yaml_comes_alone(
    tmp_path: Path, capsys: Capsys, kind: str, old: str, new: str, at: str | None, words: str
) -> None:
    text, line, column = spoil(old, new, at)
    path = write(tmp_path, text + "an-unknown-key: 1\n")
    said = run(capsys, "validate", path)
    assert (said.code, len(said.err)) == (2, 1), said.err
    found = said.err[0].removeprefix(f"{path}:").split(":", 2)
    assert (int(found[0]), int(found[1])) == (line, column), said.err[0]
    assert words in said.err[0]


def test_all_faults_of_a_file_at_once_in_its_order(tmp_path: Path, capsys: Capsys) -> None:
    text = GOOD
    for old, new in [
        ('"0.26.0"', "0.30"),
        ("enforce-eager: true", "max_num_seqs: 2"),
        ("spec-tokens: 5", "spec-tokens: 5\n      spec-tokens: 6"),
        ("baseline: off", "baseline: of"),
        ("role: user", "role: usr"),
        ("two.txt", "no.txt"),
        ("counted: true", "counted: 1"),
        ("same-output: {}", "same-outputs: {}"),
    ]:
        text = spoil(old, new, good=text)[0]
    path = write(tmp_path, text)
    said = run(capsys, "validate", path)
    assert said.code == 2
    assert [line.split(": ")[1] for line in said.err] == [
        "engine.version",
        "args.max_num_seqs",
        "conditions.on.args.spec-tokens",
        "baseline",
        "prompts.one.messages[0].role",
        "prompts.two.file",
        "phases.load.warm-up.counted",
        "invariants.same-outputs",
    ]
    lines = [int(line.removeprefix(f"{path}:").split(":")[0]) for line in said.err]
    assert lines == sorted(lines)
    # the command that runs says the same, and starts nothing
    again = run(capsys, path)
    assert (again.code, again.err, again.out) == (2, said.err, "")


def multiplied(first: str, of_ten: str) -> str:
    """Nine anchors, each of ten aliases of the one before."""
    names = "abcdefghi"
    others = (f"{y}: &{y} {of_ten.format(','.join([f'*{x}'] * 10))}\n" for x, y in itertools.pairwise(names))
    return f"a: &a {first}\n" + "".join(others)


@pytest.mark.parametrize(
    ("content", "place", "words"),
    [
        ("", "1:1", "the file is empty"),
        ("# a comment\n", "1:1", "the file is empty"),
        ("---\n", "1:1", "the file is empty"),
        ("- a\n- b\n", "1:1", "must be a mapping"),
        ("hello", "1:1", "must be a mapping"),
        (b"\x00\x01\x02", "1:1", "is this a text file?"),
        (b"\x7fELF\x80\xff", "1:5", "is not UTF-8"),
        (b"name: a\ntitle: caf\xe9\n", "2:11", "byte 0xe9 is not UTF-8; save the file as UTF-8"),
        (GOOD.encode("utf-16"), "1:1", "is not UTF-8"),
        (b"a: 1\n" * 300_000, "1:1", "larger than"),
        ("a: " + "[" * 3000 + "]" * 3000, "1:1", "nested too deeply"),
        ("".join(" " * i + "a:\n" for i in range(60)), "52:52", "nested more than 50 levels"),
        ("steps:\n- name: gcr.io/x\n  args: [build]\nimages: [x]\n", "1:1", "none of its keys (steps, images)"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {}\n", "1:1", "another kind of file"),
        (multiplied("[x,x,x,x,x,x,x,x,x,x]", "[{}]"), "1:", "aliases of aliases"),
        (multiplied("{}", "{{<<: [{}]}}"), "", "aliases of aliases"),
    ],
)
def test_no_spec_at_all(tmp_path: Path, capsys: Capsys, content: str | bytes, place: str, words: str) -> None:
    path = write(tmp_path, content)
    said = run(capsys, "validate", path)
    assert (said.code, len(said.err)) == (2, 1), said.err
    assert said.err[0].startswith(f"{path}:{place}")
    assert words in said.err[0]


@pytest.mark.parametrize("command", [["validate"], ["plan"], []])
def test_a_file_that_cannot_be_opened(tmp_path: Path, capsys: Capsys, command: list[str]) -> None:
    write(tmp_path, GOOD)
    said = run(capsys, *command, tmp_path / "spce.yaml")
    assert said.code == 2
    assert said.err == [
        f'{tmp_path}/spce.yaml:1:1: cannot be read: No such file or directory; did you mean "spec.yaml"?'
    ]
    said = run(capsys, *command, tmp_path)
    assert (said.code, said.err) == (2, [f"{tmp_path}:1:1: cannot be read: Is a directory"])


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), OSError(5, "Input/output error")])
def test_a_file_that_may_not_be_read(
    tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    path = write(tmp_path, GOOD)

    def refuse(*_: object, **__: object) -> None:
        raise error  # root reads everything: chmod would show nothing

    monkeypatch.setattr(Path, "open", refuse)
    said = run(capsys, "validate", path)
    assert (said.code, said.err) == (2, [f"{path}:1:1: cannot be read: {error.strerror}"])


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("p.txt", b"", "is empty"),
        ("p.txt", b" \n", "is empty"),
        ("p.txt", b"\xff", "is not UTF-8"),
        ("p.json", b"{", "is not JSON"),
        ("p.json", b"[]", "holds no message"),
        ("p.json", b'{"a": 1}', "not a list of messages"),
        ("p.json", b'[{"role": "user", "contents": "x"}]', "0.content"),
        ("p.json", b"[" * 100_000, "nested too deeply"),
        ("p.json", b'[{"role": "user", "content": "\\ud800"}]', "surrogate"),
        ("a\\0b", None, "cannot be read"),
        ("x" * 300, None, "cannot be read"),
        (".", None, "cannot be read"),
    ],
)
def test_prompt_files_that_cannot_be_used(
    tmp_path: Path, capsys: Capsys, name: str, content: bytes | None, words: str
) -> None:
    text, line, column = spoil("two.txt", f'"{name}"')
    path = write(tmp_path, text)
    if content is not None:
        (tmp_path / name).write_bytes(content)
    said = run(capsys, "validate", path)
    assert (said.code, len(said.err)) == (2, 1), said.err
    assert said.err[0].startswith(f"{path}:{line}:{column}: prompts.two.file: ")
    assert words in said.err[0]


def test_several_files_and_one_verdict(tmp_path: Path, capsys: Capsys) -> None:
    good, bad = write(tmp_path, GOOD), write(tmp_path, "- 1\n", "bad.yaml")
    said = run(capsys, "validate", bad, good)
    assert said.code == 2
    assert said.out == f"{good}: valid; conditions: off, with drafts\n"
    assert len(said.err) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("off: {}", "off:"),
        ("off: {}", "off: ~"),
        ('"0.26.0"', "0.26.0"),
        ("replicates: 1\n", "replicates: 1 # \ttabs in comments\n"),
        ("content: hello", "content: |\n          a\tb\n          \tc"),
        ("off: {}", "off: &a {label: x}\n  third: {<<: *a, label: z}"),
        ("off: {}", "off: &a {args: {x: 1}, label: o}\n  third: {label: z, <<: [*a, *a]}"),
        ("some/model", "<<"),
        ("max_tokens: 8", "top_p: 0x10"),
        ("off: {}", "off: {}\n  켜짐: {}\n  a b: {}\n  a-b: {}"),
        ("name: good", "name: &n good"),
        ("name: good", "title: &n good\nname: &n good"),
    ],
)
def test_what_is_meant_to_be_valid(tmp_path: Path, capsys: Capsys, old: str, new: str) -> None:
    for text in (spoil(old, new)[0], "\ufeff" + spoil(old, new)[0]):
        said = run(capsys, "validate", write(tmp_path, text))
        assert (said.code, said.err) == (0, [])


def test_off_and_on_stay_words(tmp_path: Path, capsys: Capsys) -> None:
    said = run(capsys, "plan", "--json", write(tmp_path, GOOD))
    assert said.code == 0, said.err
    plan = json.loads(said.out)
    assert [arm["condition"] for arm in plan["arms"]] == ["off", "on"]
    assert plan["phases"][0]["excluded"] == {"off": 0, "on": 1}


def test_a_message_is_one_printable_line(tmp_path: Path, capsys: Capsys) -> None:
    text = spoil("name: good", '"a\\e[31m\\n\\u2028\\x9b": 1\nname: "\\e\\u2028\\n"')[0]
    said = run(capsys, "validate", write(tmp_path, text))
    assert (said.code, len(said.err)) == (2, 2), said.err
    assert all(line.isprintable() for line in said.err)


def test_a_merged_value_is_reported_where_it_was_written_once(tmp_path: Path, capsys: Capsys) -> None:
    text, line, column = spoil("off: {}", "off: &a {argz: 1}\n  b: {<<: *a}\n  c: {label: C, <<: *a}", "argz")
    said = run(capsys, "validate", write(tmp_path, text))
    assert (said.code, len(said.err)) == (2, 1), said.err
    assert f":{line}:{column}: conditions.off.argz" in said.err[0]
    # the override, not what it overrides, before and after the merge key
    for own in ("{label: 1, <<: *a}", "{<<: *a, label: 1}"):
        text, line, column = spoil("off: {}", "off: &a {label: O}\n  b: " + own, "1")
        said = run(capsys, "validate", write(tmp_path, text))
        assert len(said.err) == 1, said.err
        assert f":{line}:{column}: conditions.b.label" in said.err[0]


def test_a_byte_order_mark_moves_no_column(tmp_path: Path, capsys: Capsys) -> None:
    said = run(capsys, "validate", write(tmp_path, "\ufeffnmae: x\n"))
    assert any(line.startswith(f"{tmp_path}/spec.yaml:1:1: nmae: ") for line in said.err)
