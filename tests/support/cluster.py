"""The cluster that a session of tests uses, and a namespace of it for each test. Objects are raw dicts."""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster_kit import Kit, checked, kubectl
from finished_run import Finished

KUBECONFIG = "RUNNER_TEST_KUBECONFIG"
"""Names the developer's own cluster. Not `KUBECONFIG`: that may be where somebody's users are."""
ENGINE_IMAGE = "RUNNER_TEST_ENGINE_IMAGE"
"""Names the embedded engine's image in the developer's own cluster."""

Object = dict[str, Any]


@dataclass(frozen=True)
class Cluster:
    """A cluster that is up."""

    kubeconfig: Path
    inside: Path
    """The kubeconfig for a client that runs in the cluster's network."""
    kit: Kit | None = None
    """None: the developer's own, which this session neither started nor ends."""

    @classmethod
    def of_kit(cls, kit: Kit) -> Cluster:
        return cls(kit.state / "admin.kubeconfig", kit.state / "inside.kubeconfig", kit)

    @property
    def network(self) -> list[str]:
        """What to write before a command that must reach Pods."""
        return [] if self.kit is None else self.kit.network

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        """What kubectl prints. Raises AssertionError with its words where it fails."""
        program = kubectl() if kubectl().exists() else Path(shutil.which("kubectl") or "kubectl")
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        return checked([program, *words], environment, stdin)

    def get(self, *words: str) -> Any:
        """`kubectl get WORDS` as raw objects."""
        return json.loads(self.kubectl("get", *words, "--output", "json"))


@dataclass(frozen=True)
class Namespace:
    """A namespace of one test's own, and folder for its kubeconfigs."""

    cluster: Cluster
    name: str
    folder: Path

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        """`kubectl --namespace NAME WORDS`. Raises AssertionError with its words where it fails."""
        return self.cluster.kubectl("--namespace", self.name, *words, stdin=stdin)

    def get(self, kind: str, name: str) -> Object | None:
        """One object as the API gives it; None where there is none."""
        found = self.kubectl("get", kind, name, "--ignore-not-found", "--show-managed-fields", "--output", "json")
        return json.loads(found) if found.strip() else None

    def deployment(self, name: str) -> Object:
        found = self.get("deployment", name)
        assert found is not None, f"there is no Deployment {name} in {self.name}"
        return found

    def list(self, kind: str, **labels: str) -> list[Object]:
        """All objects of a kind with these labels, as the API gives them, oldest first."""
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        words = ["--selector", selector, "--sort-by", ".metadata.creationTimestamp", "--show-managed-fields"]
        items: list[Object] = json.loads(self.kubectl("get", kind, *words, "--output", "json"))["items"]
        return items

    def pods(self, **labels: str) -> list[Object]:
        return self.list("pods", **labels)

    def rolled_out(self, name: str, seconds: float = 120) -> None:
        """Wait until the Deployment has rolled out, as kubectl judges it."""
        try:
            self.kubectl("rollout", "status", f"deployment/{name}", f"--timeout={seconds}s")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.state()}") from None

    def wait(self, words: str, met: Callable[[], Any], seconds: float = 60) -> Any:
        """Wait until `met()` is true; its value."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if found := met():
                return found
            time.sleep(0.2)
        raise AssertionError(f"not within {seconds} s: {words}; \n{self.state()}")

    def state(self) -> str:
        """What there is, and the last words of every container: for the message of a test that fails."""
        said = [self.kubectl("get", "deployments,pods", "--output", "wide")]
        said.append(self.kubectl("events"))
        for pod in self.pods():
            said.append(json.dumps(pod["status"].get("containerStatuses"), indent=1))
            with contextlib.suppress(AssertionError):  # it has not started
                said.append(self.kubectl("logs", pod["metadata"]["name"], "--tail=30", "--all-containers"))
            with contextlib.suppress(AssertionError):  # it has not restarted
                said.append(self.kubectl("logs", pod["metadata"]["name"], "--tail=30", "--previous"))
        return "\n".join(said)

    def execute(self, pod: str, *words: str) -> str:
        """What a command in the Pod's first container prints."""
        return self.kubectl("exec", pod, "--", *words)

    # --- the runner ---

    @property
    def kubeconfig(self) -> Path:
        """For a client in the cluster's network; its current context has this namespace."""
        return self._copy(self.cluster.inside, "inside.kubeconfig")

    @property
    def outer_kubeconfig(self) -> Path:
        """The same for a client outside, which reaches the API server and no Pod."""
        return self._copy(self.cluster.kubeconfig, "outside.kubeconfig")

    def _copy(self, original: Path, name: str) -> Path:
        copy = self.folder / name
        if not copy.exists():
            shutil.copy(original, copy)
            copy.chmod(0o600)
            words = ["config", "set-context", "--current", f"--namespace={self.name}", f"--kubeconfig={copy}"]
            self.cluster.kubectl(*words)
        return copy

    def start(
        self, folder: Path, *words: str, env: dict[str, str] | None = None, inside: bool = True
    ) -> subprocess.Popen[str]:
        """`run WORDS` in `folder`, under way, in the cluster's network as on a node of k3s; not `inside`: from without.

        The process is the runner itself: a signal to it is Ctrl-C.
        """
        dropped = ("RUNNER_TARGET", "KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")
        kept = {name: value for name, value in os.environ.items() if name not in dropped}
        kubeconfig = self.kubeconfig if inside else self.outer_kubeconfig
        return subprocess.Popen(
            [*(self.cluster.network if inside else ()), sys.executable, "-m", "runner", *words],
            cwd=folder,
            env={**kept, "HOME": "/nonexistent", "KUBECONFIG": str(kubeconfig), **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, folder: Path, process: subprocess.Popen[str], seconds: float = 600) -> Finished:
        """Wait for it. One that hangs is told to restore what it changed, and the test fails."""
        try:
            stdout, stderr = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)
            try:
                stdout, stderr = process.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                stdout, stderr = process.communicate()
            raise AssertionError(f"the run did not end within {seconds} s:\n{stdout}\n{stderr}") from None
        return Finished(process.returncode, stdout, stderr, folder)

    def run(self, folder: Path, *words: str, env: dict[str, str] | None = None, seconds: float = 600) -> Finished:
        return self.finish(folder, self.start(folder, *words, env=env), seconds)


@contextlib.contextmanager
def fresh_namespace(cluster: Cluster, name: str, folder: Path) -> Iterator[Namespace]:
    """A namespace, deleted afterwards. Its Pods are gone by then, so that the GPU is free; for the rest, some seconds,
    nobody waits."""
    cluster.kubectl("create", "namespace", name)
    namespace = Namespace(cluster, name, folder)
    try:
        namespace.wait(
            "the default service account", lambda: namespace.get("serviceaccount", "default"), 30
        )  # no Pod is admitted before
        yield namespace
    finally:
        for kind in ("deployments", "replicasets", "jobs"):
            namespace.kubectl("delete", kind, "--all", "--wait=false")
        namespace.kubectl("delete", "pods", "--all", "--grace-period=1", "--timeout=60s")
        cluster.kubectl("delete", "namespace", name, "--wait=false")


@dataclass(frozen=True)
class Seen:
    """One change of an object, and when it was heard of: seconds since the epoch, as `time.time()`."""

    at: float
    change: str
    """ADDED, MODIFIED or DELETED."""
    object: Object

    @property
    def uid(self) -> str:
        return str(self.object["metadata"]["uid"])


@dataclass
class Recorder:
    """All changes of a kind of object in a namespace from here on, by one watch of kubectl's: `with Recorder(...)`."""

    namespace: Namespace
    kind: str = "pods"
    seen: list[Seen] = field(default_factory=list)
    _news: threading.Condition = field(default_factory=threading.Condition)

    def __enter__(self) -> Recorder:
        self._process = subprocess.Popen(
            [
                *(kubectl() if kubectl().exists() else "kubectl", "--namespace", self.namespace.name),
                *("get", self.kind, "--watch", "--output-watch-events", "--output", "json"),
            ],
            env={**os.environ, "KUBECONFIG": str(self.namespace.cluster.kubeconfig)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(10)
        self._reader.join(10)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def wait(self, met: Callable[[Seen], Any], seconds: float = 60, since: float = 0.0) -> Seen:
        """The first change for which `met` is true, from `since` on; waits for it."""
        deadline = time.monotonic() + seconds
        with self._news:
            while True:
                for one in self.seen:
                    if one.at >= since and met(one):
                        return one
                left = deadline - time.monotonic()
                if left <= 0 or not self._news.wait(left):
                    raise AssertionError(f"not within {seconds} s among {len(self.seen)} changes of {self.kind}")

    def at(self, moment: float) -> dict[str, Object]:
        """The objects as they were known at a moment, by UID; those deleted are not among them."""
        known: dict[str, Object] = {}
        with self._news:
            for one in self.seen:
                if one.at <= moment:
                    known[one.uid] = one.object
                    if one.change == "DELETED":
                        del known[one.uid]
        return known

    def _read(self) -> None:
        assert self._process.stdout is not None
        decoder, text = json.JSONDecoder(), ""
        utf8 = codecs.getincrementaldecoder("utf-8")()
        while data := os.read(self._process.stdout.fileno(), 1 << 16):
            now = time.time()
            text += utf8.decode(data)
            while text := text.lstrip():
                try:
                    event, end = decoder.raw_decode(text)
                except ValueError:
                    break  # the rest of it is under way
                text = text[end:]
                with self._news:
                    self.seen.append(Seen(now, event["type"], event["object"]))
                    self._news.notify_all()
