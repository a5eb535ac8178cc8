"""The cluster of `tests/cluster/kit`: whether it is built, and one of its own for a session of tests."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from loopback import free_port

ROOT = Path(__file__).parents[2]
KIT = ROOT / "tests" / "cluster" / "kit"
BUILD = "tests/cluster/kit/build"
DOMAIN = "llm-experiment-runner.local"
PROBE = f"{DOMAIN}/probe:1"
PYTHON = f"{DOMAIN}/python:3.11"
SLOTS = 4
"""As many sessions of one checkout may run at a time."""


def cache() -> Path:
    """Where the kit's binaries and images are, as its `env.sh` has it."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("TC_CACHE") or Path(home) / "llm-experiment-runner" / "cluster")


def kubectl() -> Path:
    return cache() / "bin" / "kubectl"


def missing() -> str | None:
    """Why no cluster can be started here, and the way out; None where one can. Waits while the kit is being built."""
    need = f"; the kit's cluster needs root on Linux and what {BUILD} makes, once, in about six minutes"
    if sys.platform != "linux" or os.geteuid() != 0:
        return f"there is no cluster: this is not root on Linux{need}; or name one by $RUNNER_TEST_KUBECONFIG"
    ended = subprocess.run([KIT / "build", "--check"], capture_output=True, text=True, check=False)
    if ended.returncode:
        said = ended.stderr.strip().removeprefix("error: ")
        return f"there is no cluster: {said}{need}; or name one by $RUNNER_TEST_KUBECONFIG"
    return None


@dataclass(frozen=True)
class Kit:
    """One cluster of the kit, up or not: its name and the port of its API server on the machine's loopback."""

    name: str
    port: int = 0

    @property
    def state(self) -> Path:
        return Path(tempfile.gettempdir()) / self.name

    @property
    def network(self) -> list[str]:
        """What to write before a command that must reach Pods: the cluster's own network, files and processes ours."""
        return ["nsenter", f"--net=/run/netns/{self.name}"]

    def call(self, script: str, *words: str | Path, **more: str) -> str:
        """Run one of the kit's scripts; its output. Raises AssertionError with its words where it fails."""
        ours = {"TC_NAME": self.name, "TC_STATE": str(self.state), "TC_API_PORT": str(self.port)}
        return checked([KIT / script, *words], {**os.environ, **ours, **more})

    def load(self, archive: Path) -> None:
        """Give the cluster the image of an archive."""
        self.call("enter", "ctr", "--namespace", "k8s.io", "images", "import", archive)


def checked(words: Sequence[str | Path], environment: dict[str, str] | None = None, stdin: str | None = None) -> str:
    """A command's standard output. Raises AssertionError with all that it said where it fails."""
    ended = subprocess.run(
        words,
        env=environment,
        input="" if stdin is None else stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, f"{[str(word) for word in words]} ended with {ended.returncode}: " + (
        ended.stdout + ended.stderr
    )
    return ended.stdout


@contextlib.contextmanager
def running() -> Iterator[Kit]:
    """A fresh cluster with one make-believe GPU, ended afterwards.

    Its name is this checkout's: others on the machine have their own, and so has a cluster that a developer started by
    hand. A session that was killed leaves its cluster behind; the next one of this checkout ends it.
    """
    with slot() as name:
        kit = Kit(name, free_port())
        kit.call("up", TC_GPUS="1", TC_CRASH_BACKOFF="2s")
        try:
            yield kit
        finally:
            kit.call("down")


@contextlib.contextmanager
def slot() -> Iterator[str]:
    """A name that no living session has. The kernel opens the lock of one that died."""
    taken: str | None = None
    with contextlib.ExitStack() as held:
        for number in range(SLOTS):
            name = f"runner-tests-{hashlib.sha256(str(ROOT).encode()).hexdigest()[:8]}-{number}"
            if taken is not None and not Kit(name).state.exists():
                continue
            with contextlib.ExitStack() as trying:
                lock = trying.enter_context((Path(tempfile.gettempdir()) / f"{name}.lock").open("w"))
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
                if Kit(name).state.exists():
                    Kit(name).call("down")
                if taken is None:
                    taken = name
                    held.push(trying.pop_all())
        assert taken is not None, f"{SLOTS} sessions of this checkout have a cluster each; end one"
        yield taken
