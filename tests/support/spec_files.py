"""A good spec to spoil, and what the command line says of it."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from runner.cli import main

GOOD = """\
name: good
model: some/model
engine: {name: vllm, version: "0.26.0"}
args:
  max-num-seqs: 16
  enforce-eager: true
  nobody-ever-heard-of-it: 0.30
conditions:
  off: {}
  on:
    label: with drafts
    args:
      spec-tokens: 5
    side-effects:
      async-scheduling: disabled
baseline: off
prompts:
  one:
    messages:
      - role: user
        content: hello
  two:
    file: two.txt
request:
  max_tokens: 8
phases:
  alone:
    concurrency: [1]
    requests: 4
    exclude-first: {on: 1}
  load:
    concurrency: [2, 4]
    requests: 8
    warm-up: {requests: 1, counted: true}
    prompts: [one, two]
replicates: 1
limits:
  max-failed: 0
invariants:
  same-output: {}
  speedup:
    min: 1.0
    conditions: [on]
"""


@dataclass
class Said:
    """What a command said: its exit code, stdout, and stderr by line."""

    code: int
    out: str
    err: list[str]


def spoil(old: str, new: str, at: str | None = None, good: str = GOOD) -> tuple[str, int, int]:
    """GOOD with `new` for the only `old`, and line and column of `at` (default: all of `new`) in there."""
    assert good.count(old) == 1, f"{old!r} stands {good.count(old)} times in the good spec"
    start = good.index(old)
    text = good.replace(old, new)
    place = start + new.index(new if at is None else at)
    return text, text.count("\n", 0, place) + 1, place - (text.rfind("\n", 0, place) + 1) + 1


def write(folder: Path, text: str | bytes, name: str = "spec.yaml") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    (folder / "two.txt").write_text("second\n", encoding="utf-8")
    return path


def run(capsys: pytest.CaptureFixture[str], *argv: object) -> Said:
    """`run ARGV` in this process."""
    try:
        code = main([str(word) for word in argv])
    except SystemExit as stop:  # argparse
        code = stop.code if isinstance(stop.code, int) else 1
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return Said(code, captured.out, captured.err.splitlines())
