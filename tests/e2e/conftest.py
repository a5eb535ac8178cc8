"""Whole experiments through the command line, against the embedded engine in its own process."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from finished_run import Finished

SENTENCE = "The quick brown fox jumps over the lazy dog near the old stone bridge by the river bank."
SPEC: dict[str, Any] = {
    "name": "small",
    "engine": {"version": "0.26.0"},
    "model": "org/model",
    "args": {"served-model-name": "m", "max-model-len": 4096, "enforce-eager": True, "max-num-seqs": 4},
    "conditions": {
        "off": {},
        "on": {
            "args": {"spec-method": "ngram", "spec-tokens": 5},
            "side-effects": {
                "async-scheduling": "disabled",
                "model-runner": "V1",
                "unsupported-sampling": ["min_p", "logit_bias"],
            },
        },
    },
    "prompts": {"repeat": {"messages": [{"role": "user", "content": f"Repeat this sentence three times: {SENTENCE}"}]}},
    "request": {"model": "m", "max_tokens": 256, "temperature": 0},
    "phases": {
        "load": {
            "concurrency": [2, 8],
            "requests": 24,
            "rounds": 2,
            "warm-up": {"requests": 1, "counted": True},
        }
    },
    "invariants": {"same-output": {}, "same-token-count": {}, "acceptance-constant": {}},
}

Edit = Callable[[dict[str, Any]], Any]


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "runner", *words]


def environment() -> dict[str, str]:
    """Ours, without anything that names a target or a cluster."""
    kept = {name: value for name, value in os.environ.items() if name not in ("RUNNER_TARGET", "KUBECONFIG")}
    return {**kept, "HOME": "/nonexistent"}


def write_experiment(folder: Path, *edits: Edit, scale: float = 0.05) -> Path:
    value = copy.deepcopy(SPEC)
    for edit in edits:
        edit(value)
    (folder / "site.yaml").write_text(f"embedded: {{time-scale: {scale}}}\n", encoding="utf-8")
    path = folder / "spec.yaml"
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    return path


def run(folder: Path, *words: str) -> Finished:
    ended = subprocess.run(
        command(*words), cwd=folder, env=environment(), capture_output=True, text=True, timeout=240, check=False
    )
    assert left_behind(folder) == []
    return Finished(ended.returncode, ended.stdout, ended.stderr, folder)


def left_behind(folder: Path) -> list[str]:
    """Processes at work in `folder`, by their command lines: an engine has its runner's directory."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if place.readlink() == folder.resolve():
                found.append((place.parent / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def run_experiment(folder: Path, *edits: Edit, scale: float = 0.05) -> Finished:
    return run(folder, write_experiment(folder, *edits, scale=scale).name)


def fault(*faults: dict[str, Any]) -> Edit:
    """Faults of the embedded engine under `on` alone."""

    def edit(spec: dict[str, Any]) -> None:
        spec["conditions"]["on"]["env"] = {"SIMULATOR_FAULTS": json.dumps(faults)}

    return edit


def brief(spec: dict[str, Any]) -> None:
    """A round of 1 + 8 requests at each concurrency, for what does not take more: an engine's requests 3 to 11 are at
    C=2, and 12 to 20 at C=8."""
    spec["phases"]["load"].update({"requests": 8, "rounds": 1})


def streamed(spec: dict[str, Any]) -> None:
    for phase in spec["phases"].values():
        phase["stream"] = True


def processes_below(pid: int) -> list[int]:
    """The processes that one started, at any depth, from /proc: an engine is below its guard."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found, reached = [], [pid]
    while reached:
        parent = reached.pop()
        below = [child for child, above in parents.items() if above == parent]
        found += below
        reached += below
    return found


def gone(pids: list[int], seconds: float = 10.0) -> bool:
    """Whether all of them end in time; a zombie has ended."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not any(_alive(pid) for pid in pids):
            return True
        time.sleep(0.05)
    return False


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def start(folder: Path, spec: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(spec.name),
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_event(folder: Path, name: str, *, count: int = 1, seconds: float = 60.0) -> Path:
    """Wait until the journal of the only run in `folder` holds `count` events of a kind; returns its directory."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for journal in folder.glob("runs/*/journal.jsonl"):
            if journal.read_text(encoding="utf-8").count(f'"event":"{name}"') >= count:
                return journal.parent
        time.sleep(0.02)
    raise AssertionError(f"no {count} x {name} within {seconds} s")


@pytest.fixture(scope="session")
def article(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """The reference experiment, run once as the README says."""
    folder = tmp_path_factory.mktemp("article")
    spec = Path(__file__).parents[2] / "specs" / "ngram-spec.yaml"
    return run(folder, str(spec))


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A small clean run."""
    return run_experiment(tmp_path_factory.mktemp("small"))
