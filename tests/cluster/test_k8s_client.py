"""The client of a cluster, and its streams, on a real one."""

import contextlib
import os
import re
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from cluster_kit import PROBE, PYTHON
from kubernetes import config
from kubernetes.client import ApiClient
from kubernetes.dynamic import DynamicClient

from runner.target.base import EndOfLines, Lines
from runner.target.kubernetes.cluster import MANAGER, Cluster, ClusterError
from runner.target.kubernetes.pod_exec import execute
from runner.target.kubernetes.pod_log import PodLog
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


@pytest.fixture
def warned() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def kubeconfig(namespace: Any) -> Path:
    """The kubeconfig of whoever rules the cluster."""
    return Path(namespace.cluster.kubeconfig)


@pytest.fixture
def client(kubeconfig: Path, namespace: Any, warned: list[tuple[str, str]]) -> Iterator[Cluster]:
    made = connect(kubeconfig, namespace.name, warned)
    yield made
    made.close()


@pytest.fixture
def relay(client: Cluster) -> Iterator[Relay]:
    url = httpx.URL(client.server)
    made = Relay(url.host, url.port or 443)
    yield made
    made.close()


@pytest.fixture
def relayed(kubeconfig: Path, client: Cluster, relay: Relay, tmp_path: Path) -> Iterator[Cluster]:
    """The same cluster, reached through the relay."""
    text = kubeconfig.read_text(encoding="utf-8")
    inside = tmp_path / "relayed.kubeconfig"
    inside.write_text(text.replace(client.server, f"https://127.0.0.1:{relay.port}"), encoding="utf-8")
    made = connect(inside, client.namespace)
    yield made
    made.close()


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """No thread and no descriptor more than before. Named first, so that it looks last."""
    threads, descriptors = set(threading.enumerate()), open_descriptors()
    yield
    assert set(threading.enumerate()) <= threads
    assert open_descriptors() <= descriptors


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


def test_what_is_connected_to_is_named(client: Cluster, kubeconfig: Path, namespace: Any) -> None:
    assert client.namespace == namespace.name
    assert re.fullmatch(r"v1\.\d+\.\d+.*", client.version)
    assert client.context in kubeconfig.read_text(encoding="utf-8")
    assert not client.in_cluster


def test_objects_are_as_the_api_gives_them(client: Cluster) -> None:
    assert client.get("Deployment", "engine") is None
    assert client.get("Deployment", "engine", "no-such-namespace") is None
    made = client.apply(deployment())
    assert made["metadata"]["managedFields"][0]["manager"] == MANAGER
    assert client.get("Deployment", "engine")["spec"] == made["spec"]  # type: ignore[index]
    found = client.list("Deployment", fields="metadata.name=engine")
    assert [(item["kind"], item["apiVersion"], item["metadata"]["name"]) for item in found] == [
        ("Deployment", "apps/v1", "engine")
    ]
    assert client.list("Deployment", labels={"app": "another"}) == []
    assert made["metadata"]["uid"] in {one["metadata"]["uid"] for one in client.list("Deployment", everywhere=True)}
    assert [node["kind"] for node in client.list("Node")][:1] == ["Node"]


def test_fields_of_another_manager_are_a_conflict_that_names_it(
    client: Cluster, kubeconfig: Path, tmp_path: Path
) -> None:
    apply_as("somebody", with_args("-port", "8080"), kubeconfig, client.namespace, tmp_path)
    with pytest.raises(ClusterError, match="somebody") as conflict:
        client.apply(with_args("-port", "8081"))
    assert (conflict.value.status, conflict.value.reason) == (409, "Conflict")
    assert [(cause["reason"], cause["field"]) for cause in conflict.value.causes] == [
        ("FieldManagerConflict", '.spec.template.spec.containers[name="main"].args')
    ]
    assert '"somebody"' in conflict.value.causes[0]["message"]
    taken = client.apply(with_args("-port", "8081"), force=True)
    assert taken["spec"]["template"]["spec"]["containers"][0]["args"] == ["-port", "8081"]


def test_a_dry_run_answers_and_changes_nothing(client: Cluster) -> None:
    assert client.apply(deployment(), dry_run=True)["spec"]["strategy"]["type"] == "RollingUpdate"
    assert client.create(deployment(), dry_run=True)["metadata"]["uid"]
    assert client.get("Deployment", "engine") is None
    before = client.apply(deployment())
    assert client.apply(with_args("-delay", "1s"), dry_run=True)["metadata"]["generation"] == 2
    after = client.get("Deployment", "engine")
    assert after is not None
    assert client.replace(after | with_args(), dry_run=True)["spec"] != before["spec"]
    unchanged = client.get("Deployment", "engine")
    assert unchanged is not None and unchanged["spec"] == before["spec"]


def test_an_object_that_has_changed_since_is_not_replaced(client: Cluster) -> None:
    first = client.apply(deployment())
    second = client.apply(deployment(paused=True))
    with pytest.raises(ClusterError, match="has been modified") as conflict:
        client.replace(first)
    assert conflict.value.reason == "Conflict"
    with pytest.raises(ClusterError) as stale:
        client.scale("engine", 1, resource_version=first["metadata"]["resourceVersion"])
    assert stale.value.reason == "Conflict"

    def scaled() -> bool:
        """The controller writes its status meanwhile, which moves the version."""
        latest = client.get("Deployment", "engine")
        assert latest is not None and latest["metadata"]["uid"] == second["metadata"]["uid"]
        assert latest["spec"]["replicas"] == 0
        try:
            made = client.scale("engine", 1, resource_version=latest["metadata"]["resourceVersion"])
        except ClusterError as error:
            assert error.reason == "Conflict"
            return False
        return bool(made["spec"]["replicas"] == 1)

    wait_for(scaled)


def test_only_the_very_object_is_deleted(client: Cluster) -> None:
    uid = client.create(deployment())["metadata"]["uid"]
    with pytest.raises(ClusterError) as another:
        client.delete("Deployment", "engine", uid="00000000-0000-0000-0000-000000000000")
    assert another.value.reason == "Conflict"
    assert client.get("Deployment", "engine") is not None
    client.delete("Deployment", "engine", uid=uid)
    wait_for(lambda: client.get("Deployment", "engine") is None)
    client.delete("Deployment", "engine", uid=uid)


def test_what_exists_is_not_created_again(client: Cluster) -> None:
    client.create(deployment())
    with pytest.raises(ClusterError, match="already exists") as error:
        client.create(deployment())
    assert error.value.reason == "AlreadyExists"


def test_the_servers_warnings_are_passed_on_once(client: Cluster, warned: list[tuple[str, str]]) -> None:
    twice = deployment()
    twice["spec"]["template"]["spec"]["containers"][0]["env"] = [
        {"name": "A", "value": "1"},
        {"name": "A", "value": "2"},
    ]
    client.create(twice, dry_run=True)
    client.create(twice, dry_run=True)
    assert [about for about, _ in warned] == [f"Deployment {client.namespace}/engine"]
    assert 'hides previous definition of "A"' in warned[0][1]


@pytest.fixture
def nobody(client: Cluster, kubeconfig: Path, tmp_path: Path) -> Iterator[Cluster]:
    """A user with a token and no rights."""
    with config.new_client_from_config(str(kubeconfig)) as api:
        token = token_of_new_account(api, client.namespace)
        authority = Path(api.configuration.ssl_ca_cert).read_text(encoding="ascii")
    (tmp_path / "ca.crt").write_text(authority, encoding="ascii")
    theirs = tmp_path / "nobody.kubeconfig"
    theirs.write_text(
        f"""
current-context: nobody
contexts: [{{name: nobody, context: {{cluster: c, user: nobody}}}}]
clusters: [{{name: c, cluster: {{server: "{client.server}", certificate-authority: ca.crt}}}}]
users: [{{name: nobody, user: {{token: "{token}"}}}}]
""",
        encoding="utf-8",
    )
    made = connect(theirs, client.namespace)
    yield made
    made.close()


def token_of_new_account(api: ApiClient, namespace: str) -> str:
    dynamic = DynamicClient(api, cache_file=os.devnull)
    accounts = dynamic.resources.get(api_version="v1", kind="ServiceAccount")
    accounts.create(body={"metadata": {"name": "nobody"}}, namespace=namespace)
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/nobody/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    return str(dynamic.request("post", path, body=body).status.token)


def test_a_server_with_another_certificate_is_not_believed(client: Cluster, kubeconfig: Path, tmp_path: Path) -> None:
    text = kubeconfig.read_text(encoding="utf-8")
    other = tmp_path / "other.kubeconfig"
    other.write_text(re.sub(r"certificate-authority-data: .*", "", text), encoding="utf-8")
    with pytest.raises(ClusterError, match=r"cannot be reached: its certificate is not accepted: .*; is .*other"):
        connect(other, client.namespace)
    other.write_text(text.replace(client.server, client.server.replace("https", "http")), encoding="utf-8")
    with pytest.raises(ClusterError, match=r"HTTP request to an HTTPS server"):
        connect(other, client.namespace)


def test_who_may_do_nothing_is_told_so_in_words(nobody: Cluster, client: Cluster) -> None:
    with pytest.raises(ClusterError, match=r"not allowed to list every Pod .*: pods is forbidden: User .*nobody"):
        nobody.list("Pod")
    with pytest.raises(ClusterError) as refused:
        nobody.apply(deployment())
    assert refused.value.reason == "Forbidden" and not refused.value.unsure
    running(client, "shell", ["sleep", "1000"])
    with pytest.raises(OSError, match=r"not allowed to start a program in container main .*nobody"):
        execute(nobody, "shell", "main", ["true"])


def test_a_log_says_why_it_is_not_read(nobody: Cluster, client: Cluster, tmp_path: Path) -> None:
    log = PodLog(nobody, "engine", "main", tmp_path / "pod.log")
    log.start()
    try:
        assert "not allowed to read Pod" in wait_for(lambda: log.problem)
    finally:
        log.close()


def test_a_log_is_kept_byte_for_byte_to_the_containers_end(client: Cluster, tmp_path: Path) -> None:
    said = b'{"level": "info", "n": 1}\n\xff\xfe is no UTF-8\n\n  spaces \t\n'
    program = f"import sys, time\nsys.stdout.buffer.write({said[:30]!r})\nsys.stdout.flush()\ntime.sleep(2)\n"
    program += f"sys.stdout.buffer.write({said[30:200]!r} + b'long' * 20000 + b'\\nno end')"
    said = said[:30] + said[30:200] + b"long" * 20000 + b"\nno end"
    log = PodLog(client, "engine", "main", tmp_path / "pod.log")
    log.start()  # before there is a Pod
    try:
        run_pod(client, "engine", ["python3", "-c", program])
        wait_for(lambda: (tmp_path / "pod.log").read_bytes()[:26] == said[:26])
        wait_for(lambda: (tmp_path / "pod.log").read_bytes() == said)
    finally:
        log.close()
    assert log.lines()[0] == '{"level": "info", "n": 1}'
    assert log.problem is None


def test_a_lost_log_stream_is_resumed_without_gap_or_repetition(
    nothing_left: None, relayed: Cluster, relay: Relay, client: Cluster, tmp_path: Path
) -> None:
    program = "for i in range(60):\n    for j in range(50): print('line', i * 50 + j)\n    flush(); time.sleep(0.1)"
    program = f"import sys, time\nflush = sys.stdout.flush\n{program}"
    run_pod(client, "engine", ["python3", "-c", program])
    log = PodLog(relayed, "engine", "main", tmp_path / "pod.log")
    log.start()
    try:
        for lines in (300, 900, 1500, 2100):
            wait_for(lambda lines=lines: len(log.lines()) > lines)
            relay.cut()
        wait_for(lambda: phase(client, "engine") == "Succeeded")
        wait_for(lambda: len(log.lines()) > 3000)
    finally:
        log.close()
    assert relay.connections > 4
    assert log.lines() == [f"line {n}" for n in range(3000)] + [""]


@pytest.mark.parametrize("late", [False, True])
def test_a_restarted_container_is_read_from_its_first_start(client: Cluster, tmp_path: Path, late: bool) -> None:
    program = (
        "import os, time\n"
        "again = os.path.exists('/keep/again')\n"
        "print('second' if again else 'first', flush=True)\n"
        "open('/keep/again', 'w').close()\n"
        "if not again: raise SystemExit(1)\n"
        "time.sleep(1000)\n"
    )
    log = PodLog(client, "engine", "main", tmp_path / "pod.log")
    if not late:
        log.start()
    try:
        run_pod(
            client,
            "engine",
            ["python3", "-c", program],
            restartPolicy="OnFailure",
            volumes=[{"name": "keep", "emptyDir": {}}],
            container={"volumeMounts": [{"name": "keep", "mountPath": "/keep"}]},
        )
        if late:
            wait_for(lambda: restarts(client, "engine"))
            log.start()
        wait_for(lambda: log.lines() == ["first", "second", ""])
    finally:
        log.close()
    assert log.lines() == ["first", "second", ""]


def restarts(client: Cluster, pod: str) -> int:
    found = client.get("Pod", pod) or {}
    return sum(one["restartCount"] for one in found["status"].get("containerStatuses", []))


def test_a_silent_container_does_not_hold_its_reader(nothing_left: None, client: Cluster, tmp_path: Path) -> None:
    running(client, "engine", ["sleep", "1000"])
    log = PodLog(client, "engine", "main", tmp_path / "pod.log")
    log.start()
    time.sleep(1)
    log.close()
    log.close()
    assert log.lines() == [""]


def test_a_program_beside_the_engine_gives_its_lines_and_leaves_nothing(nothing_left: None, client: Cluster) -> None:
    pod = running(client, "engine", ["sleep", "1000"])
    program = execute(client, pod, "main", ["python3", "-c", COUNT])
    assert [program.read(10) for _ in range(30)] == [f"line {n}" for n in range(30)]
    assert any("time.sleep" in line for line in processes(client, pod))
    program.close()
    program.close()
    assert processes(client, pod) == []
    with pytest.raises(EndOfLines, match="was closed"):
        program.read(1)
    client.close()


@pytest.mark.parametrize(
    ("command", "lines", "end"),
    [
        (["sh", "-c", "echo one; echo two"], ["one", "two"], "ended with exit code 0"),
        (["sh", "-c", "echo one; printf two"], ["one", "two"], "ended with exit code 0"),
        (["sh", "-c", "echo one; printf half; echo lost >&2; exit 3"], ["one"], "ended with exit code 3: lost"),
        (["no-such-program"], [], "ended with exit code 127: .*no-such-program"),
        (["sh", "-c", "kill -9 $$"], [], "ended with exit code 137"),
        (["python3", "-c", "print('x' * 200000); print('é' * 50000)"], ["x" * 200000, "é" * 50000], "exit code 0"),
    ],
)
def test_how_a_program_ended_is_said(client: Cluster, command: list[str], lines: list[str], end: str) -> None:
    pod = running(client, "engine", ["sleep", "1000"])
    found, how = all_lines(execute(client, pod, "main", command))
    assert found == lines
    assert re.search(end, how)


def test_a_program_that_hangs_gives_no_half_line_and_is_ended(nothing_left: None, client: Cluster) -> None:
    pod = running(client, "engine", ["sleep", "1000"])
    stubborn = "trap '' TERM; echo whole; printf half; sleep 1000; sleep 1000"
    program = execute(client, pod, "main", ["sh", "-c", stubborn])
    assert program.read(10) == "whole"
    assert program.read(0.5) is None
    assert program.read(0) is None
    program.close()
    # Its own children may be left to the container's first process as zombies, which have no command line.
    assert [line for line in processes(client, pod) if line.split()[1:]] == []
    client.close()


def test_a_program_whose_connection_is_lost_says_so_and_is_ended(
    relayed: Cluster, relay: Relay, client: Cluster
) -> None:
    pod = running(client, "engine", ["sleep", "1000"])
    program = execute(relayed, pod, "main", ["python3", "-c", COUNT])
    assert program.read(10) == "line 0"
    relay.cut()
    lines, how = all_lines(program)
    assert all(re.fullmatch(r"line \d+", line) for line in lines)
    assert re.match("was lost: the connection to the API server broke off", how)
    wait_for(lambda: processes(client, pod) == [])


def test_a_program_ends_with_its_container(client: Cluster) -> None:
    pod = running(client, "engine", ["sleep", "1000"])
    program = execute(client, pod, "main", ["python3", "-c", COUNT])
    uid = client.get("Pod", pod)["metadata"]["uid"]  # type: ignore[index]
    client.delete("Pod", pod, uid=uid)
    _, how = all_lines(program)
    assert re.match(r"(was lost: |ended with exit code 137)", how)
    with pytest.raises(OSError, match=f"could not start a program in container main of Pod {client.namespace}/gone: "):
        execute(client, "gone", "main", ["true"])


def test_an_image_without_a_shell_runs_the_program_by_itself(nothing_left: None, client: Cluster) -> None:
    pod = running(client, "engine", ["/probe", "serve"], PROBE)
    _, how = all_lines(execute(client, pod, "main", ["/probe", "exit", "7"]))
    assert "ended with exit code 7" in how
    _, how = all_lines(execute(client, pod, "main", ["nvidia-smi"]))
    assert "nvidia-smi" in how and "not found" in how
    client.close()


def test_a_forwarded_port_takes_many_requests_at_once(nothing_left: None, client: Cluster) -> None:
    pod = running(client, "engine", ["/probe", "serve"], PROBE)
    forward = PortForward(client, pod, 8080)
    limits = httpx.Limits(max_connections=50, max_keepalive_connections=50)
    with httpx.Client(base_url=forward.url, trust_env=False, timeout=60, limits=limits) as http:
        wait_for(lambda: answers(http))
        with ThreadPoolExecutor(50) as pool:
            found = list(pool.map(lambda _: http.get("/version").json()["host"], range(50)))
        assert found == [pod] * 50
        forward.close()
        with pytest.raises(httpx.TransportError):
            http.get("/version")
    forward.close()
    assert forward.problem is None
    client.close()


def answers(http: httpx.Client) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return http.get("/health").status_code == 200
    return False


def test_a_forwarded_stream_comes_as_it_is_sent(nothing_left: None, client: Cluster) -> None:
    server = (
        "import http.server, time\n"
        "class Events(http.server.BaseHTTPRequestHandler):\n"
        "    def do_POST(self):\n"
        "        size = len(self.rfile.read(int(self.headers['Content-Length'])))\n"
        "        self.send_response(200)\n"
        "        self.end_headers()\n"
        "        for n in range(5):\n"
        "            self.wfile.write(f'data: {n} of {size}\\n\\n'.encode())\n"
        "            time.sleep(0.2)\n"
        "http.server.HTTPServer(('', 8000), Events).serve_forever()\n"
    )
    pod = running(client, "engine", ["python3", "-c", server])
    forward = PortForward(client, pod, 8000)
    try:
        wait_for(lambda: reached(forward))
        with httpx.stream("POST", forward.url, content=b"x" * 3_000_000, trust_env=False, timeout=60) as answer:
            found = [line for line in answer.iter_lines() if line]
        assert found == [f"data: {n} of 3000000" for n in range(5)]
    finally:
        forward.close()
        client.close()


def reached(forward: PortForward) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.post(forward.url, content=b"", trust_env=False, timeout=20).status_code == 200
    return False


def test_streams_do_not_mind_descriptors_above_1023(client: Cluster, tmp_path: Path) -> None:
    pod = running(client, "engine", ["/probe", "serve"], PROBE)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    taken = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    log, forward = PodLog(client, pod, "main", tmp_path / "pod.log"), PortForward(client, pod, 8080)
    log.start()
    try:
        wait_for(lambda: len(log.lines()) > 2)
        with httpx.Client(base_url=forward.url, trust_env=False, timeout=20) as http:
            wait_for(lambda: answers(http))
        assert all_lines(execute(client, pod, "main", ["/probe", "exit", "7"]))[1].startswith("ended with exit code 7")
    finally:
        log.close()
        forward.close()
        for one in taken:
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_port_where_nobody_listens_says_why(nothing_left: None, client: Cluster) -> None:
    pod = running(client, "engine", ["sleep", "1000"])
    for name, why in ((pod, "connection refused"), ("gone", 'pods "gone" not found')):
        forward = PortForward(client, name, 8080)
        with pytest.raises(httpx.TransportError):
            httpx.get(forward.url, trust_env=False, timeout=20)
        forward.close()
        assert forward.problem is not None and why in forward.problem
    client.close()


def test_an_apply_reaches_the_server_as_it_was_meant(client: Cluster) -> None:
    word = '한글 🙂 "\\ud83d\\ude42" \u2028 end'
    manifest: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "words"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": PROBE, "args": [word]}]},
            },
        },
    }
    for made in (client.apply(manifest, dry_run=True), client.create(manifest, dry_run=True)):
        assert made["spec"]["template"]["spec"]["containers"][0]["args"] == [word]
