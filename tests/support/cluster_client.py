"""The runner's own client of a cluster, and what its tests put there."""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from cluster_kit import PROBE, PYTHON
from kubernetes import config
from kubernetes.client import ApiClient
from kubernetes.dynamic import DynamicClient

from runner.target.base import EndOfLines, Lines
from runner.target.kubernetes.cluster import Cluster
from runner.target.kubernetes.pod_exec import execute
from runner.target.kubernetes.port_forward import PortForward

COUNT = "import time\nfor i in range(100000): print('line', i, flush=True); time.sleep(0.1)"
"""A line every tenth of a second."""


class Relay:
    """TCP to the API server, which can be cut."""

    def __init__(self, host: str, port: int) -> None:
        self._server = host, port
        self._pairs: list[socket.socket] = []
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def cut(self) -> None:
        """End every connection, in the middle of whatever it carries."""
        for one in list(self._pairs):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self.cut()
        for thread in self._threads:
            thread.join()
        for one in [*self._pairs, self._listener]:
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            far = socket.create_connection(self._server)
            self._pairs += [near, far]
            for a, b in ((near, far), (far, near)):
                thread = threading.Thread(target=self._carry, args=(a, b))
                self._threads.append(thread)
                thread.start()

    @staticmethod
    def _carry(a: socket.socket, b: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while part := a.recv(65536):
                b.sendall(part)
        for one in (a, b):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


def open_descriptors() -> set[str]:
    """What this process has open, each by its kind and number of the kernel's."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.add(str(entry.readlink()))
    return {name for name in found if name.startswith(("socket:", "pipe:")) or name.endswith(".log")}


def connect(kubeconfig: Path, namespace: str, warned: list[tuple[str, str]] | None = None) -> Cluster:
    heard = [] if warned is None else warned
    return Cluster.connect(
        kubeconfig=str(kubeconfig),
        context=None,
        namespace=namespace,
        warned=lambda about, text: heard.append((about, text)),
    )


def deployment(**spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": PROBE, "command": ["/probe", "serve"], "args": ["-port", "8080"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "engine"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "engine"}},
            "template": {"metadata": {"labels": {"app": "engine"}}, "spec": {"containers": [container]}},
            **spec,
        },
    }


def with_args(*args: str) -> dict[str, Any]:
    made = deployment()
    made["spec"]["template"]["spec"]["containers"][0]["args"] = list(args)
    return made


def apply_as(manager: str, manifest: dict[str, Any], kubeconfig: Path, namespace: str, cache: Path) -> None:
    """As another tool would, with the package's own discovery."""
    with config.new_client_from_config(str(kubeconfig)) as api:
        dynamic = DynamicClient(api, cache_file=str(cache / "discovery.json"))
        kind = dynamic.resources.get(api_version=manifest["apiVersion"], kind=manifest["kind"])
        kind.server_side_apply(body=manifest, namespace=namespace, field_manager=manager)


def run_pod(client: Cluster, name: str, command: list[str], image: str = PYTHON, **spec: Any) -> None:
    container = {"name": "main", "image": image, "command": command, **spec.pop("container", {})}
    client.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {
                "containers": [container],
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 0,
                "enableServiceLinks": False,
            }
            | spec,
        }
    )


def wait_for(condition: Callable[[], Any], seconds: float = 60) -> Any:
    until = time.monotonic() + seconds
    while True:
        if found := condition():
            return found
        assert time.monotonic() < until, "it never came"
        time.sleep(0.1)


def phase(client: Cluster, name: str) -> str:
    pod = client.get("Pod", name)
    return "" if pod is None else str(pod["status"].get("phase"))


def running(client: Cluster, name: str, command: list[str], image: str = PYTHON) -> str:
    run_pod(client, name, command, image)
    wait_for(lambda: phase(client, name) == "Running")
    return name


def processes(client: Cluster, pod: str) -> list[str]:
    """What runs in the container, the first process and whoever looks aside."""
    look = (
        "import os\n"
        "for pid in filter(str.isdigit, os.listdir('/proc')):\n"
        "    try: print(pid, open(f'/proc/{pid}/cmdline').read().replace(chr(0), ' ').replace(chr(10), ' '))\n"
        "    except OSError: pass\n"
    )
    lines, _ = all_lines(execute(client, pod, "main", ["python3", "-c", look]))
    return [line for line in lines if not line.startswith("1 ") and "/proc" not in line]


def all_lines(program: Lines) -> tuple[list[str], str]:
    """Every line until the end, and how it ended."""
    lines: list[str] = []
    try:
        while True:
            line = program.read(20)
            assert line is not None, "it hangs"
            lines.append(line)
    except EndOfLines as end:
        return lines, str(end)
    finally:
        program.close()


def token_of_new_account(api: ApiClient, namespace: str) -> str:
    dynamic = DynamicClient(api, cache_file=os.devnull)
    accounts = dynamic.resources.get(api_version="v1", kind="ServiceAccount")
    accounts.create(body={"metadata": {"name": "nobody"}}, namespace=namespace)
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/nobody/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    return str(dynamic.request("post", path, body=body).status.token)


def restarts(client: Cluster, pod: str) -> int:
    found = client.get("Pod", pod) or {}
    return sum(one["restartCount"] for one in found["status"].get("containerStatuses", []))


def answers(http: httpx.Client) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return http.get("/health").status_code == 200
    return False


def reached(forward: PortForward) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.post(forward.url, content=b"", trust_env=False, timeout=20).status_code == 200
    return False
