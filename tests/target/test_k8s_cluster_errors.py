"""The client of a cluster against a server that refuses, warns and breaks off, and kubeconfigs that are no use."""

import json
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from runner.target.kubernetes import cluster as cluster_module
from runner.target.kubernetes import kubeconfig as kubeconfig_module
from runner.target.kubernetes.cluster import Cluster, ClusterError
from runner.target.kubernetes.cluster_error import refusal
from runner.target.kubernetes.kubeconfig import find_access

RESET = object()
"""In place of an answer: the connection breaks off."""
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "engine"}}


@dataclass
class Answer:
    status: int = 200
    body: Any = field(default_factory=lambda: POD)
    headers: list[tuple[str, str]] = field(default_factory=list)


def status(code: int, reason: str | None, message: str, causes: list[dict[str, str]] | None = None) -> Answer:
    body = {"kind": "Status", "status": "Failure", "code": code, "message": message}
    return Answer(code, body | ({"reason": reason} if reason else {}) | {"details": {"causes": causes or []}})


class Api:
    """An API server that gives what it was told to, one answer after the other, and remembers what it was asked."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.asked: list[tuple[str, str, str | None]] = []
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                self.rfile.read(size)
                if self.path == "/version":
                    self.answer(Answer(body={"gitVersion": "v1.2.3"}))
                    return
                api.asked.append((self.command, self.path, self.headers.get("Authorization")))
                answer = api.answers.pop(0) if api.answers else Answer()
                if answer is RESET:
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                else:
                    self.answer(answer)

            do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = handle_any  # noqa: N815

            def answer(self, answer: Answer) -> None:
                body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
                self.send_response(answer.status)
                for name, value in [*answer.headers, ("Content-Length", str(len(body)))]:
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def api() -> Iterator[Api]:
    made = Api()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No kubeconfig, proxy, Pod or k3s of this machine; no waits."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.startswith(("KUBE", "KUBERNETES_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(kubeconfig_module, "K3S", tmp_path / "k3s.yaml")
    monkeypatch.setattr(cluster_module, "_WAITS", (0.0,) * 4)


def write(path: Path, server: str, **other: Any) -> Path:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "secret-token"}}],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(config | other), encoding="utf-8")
    return path


def connect(path: Path, warned: Callable[[str, str], None] = lambda about, text: None, **options: Any) -> Cluster:
    return Cluster.connect(**{"kubeconfig": str(path), "context": None, "namespace": None, "warned": warned} | options)


@pytest.fixture
def warned() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def client(api: Api, tmp_path: Path, warned: list[tuple[str, str]]) -> Iterator[Cluster]:
    path = write(tmp_path / "config", f"http://127.0.0.1:{api.port}")
    made = connect(path, lambda about, text: warned.append((about, text)))
    yield made
    made.close()


WRITES: dict[str, Callable[[Cluster], Any]] = {
    "apply": lambda c: c.apply(POD),
    "create": lambda c: c.create(POD),
    "replace": lambda c: c.replace(POD),
    "delete": lambda c: c.delete("Pod", "engine", uid="u"),
    "scale": lambda c: c.scale("engine", 1, resource_version="1"),
}


def test_what_is_connected_to(client: Cluster, api: Api) -> None:
    assert (client.context, client.namespace, client.version) == ("here", "team", "v1.2.3")
    assert client.server == f"http://127.0.0.1:{api.port}"
    assert client.get("Pod", "engine") == POD
    assert api.asked == [("GET", "/api/v1/namespaces/team/pods/engine", "Bearer secret-token")]


@pytest.mark.parametrize("trouble", [RESET, status(429, "TooManyRequests", "slow down"), status(503, None, "starting")])
def test_a_read_is_tried_again(client: Cluster, api: Api, trouble: Any) -> None:
    api.answers = [trouble, trouble, Answer()]
    assert client.get("Pod", "engine") == POD
    assert len(api.asked) == 3


def test_a_read_is_given_up_in_the_end(client: Cluster, api: Api) -> None:
    api.answers = [status(503, "ServiceUnavailable", "etcd is not there")] * 20
    with pytest.raises(ClusterError, match=r"could not list every Pod of namespace team: etcd is not there") as error:
        client.list("Pod")
    assert (error.value.status, error.value.transient, error.value.unsure) == (503, True, False)
    assert len(api.asked) == 5
    api.answers = [RESET] * 20
    with pytest.raises(ClusterError, match=r"cannot be reached: the connection broke off before the answer$") as lost:
        client.list("Pod")
    assert (lost.value.status, lost.value.transient, lost.value.unsure) == (None, True, False)


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_write_that_broke_off_is_not_sent_again_and_may_have_been_done(
    client: Cluster, api: Api, write: Callable[[Cluster], Any]
) -> None:
    api.answers = [RESET]
    with pytest.raises(ClusterError, match="whether it was done is not known") as error:
        write(client)
    assert error.value.unsure
    assert len(api.asked) == 1


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_write_that_was_refused_is_not_sent_again(client: Cluster, api: Api, write: Callable[[Cluster], Any]) -> None:
    api.answers = [status(429, "TooManyRequests", "slow down")]
    with pytest.raises(ClusterError, match="slow down") as error:
        write(client)
    assert not error.value.unsure
    api.answers = [status(500, "InternalError", "half way")]
    with pytest.raises(ClusterError, match="half way") as half:
        write(client)
    assert half.value.unsure
    assert len(api.asked) == 2


def test_a_write_to_a_server_that_is_gone_was_not_sent(client: Cluster, api: Api) -> None:
    api.close()
    client.close()  # its idle connection, which the server has kept
    with pytest.raises(ClusterError, match=r"could not apply Pod team/engine: .* connection refused; nothing was sent"):
        client.apply(POD)


def test_a_conflict_gives_the_apis_causes(client: Cluster, api: Api) -> None:
    causes = [{"reason": "FieldManagerConflict", "message": 'conflict with "kubectl"', "field": ".spec.replicas"}]
    api.answers = [status(409, "Conflict", "Apply failed with 1 conflict", causes)]
    with pytest.raises(ClusterError, match="could not apply Pod team/engine: Apply failed with 1 conflict") as error:
        client.apply(POD)
    assert (error.value.status, error.value.reason, error.value.causes) == (409, "Conflict", causes)
    assert not error.value.transient


def test_a_403_is_said_with_its_way_out(client: Cluster, api: Api) -> None:
    message = 'deployments.apps "engine" is forbidden: User "u" cannot patch'
    api.answers = [status(403, "Forbidden", message)]
    with pytest.raises(ClusterError) as error:
        client.apply(POD)
    assert str(error.value).startswith(f"not allowed to apply Pod team/engine: {message}; ")
    assert "Role" in str(error.value)
    api.answers = [status(403, "Forbidden", 'User "system:anonymous" cannot get')]
    with pytest.raises(ClusterError, match="config gives no credentials that this server knows"):
        client.get("Pod", "engine")


def test_what_is_not_there(client: Cluster, api: Api) -> None:
    api.answers = [status(404, "NotFound", "no")] * 3
    assert client.get("Pod", "engine") is None
    client.delete("Pod", "engine", uid="u")
    with pytest.raises(ClusterError) as error:
        client.create(POD)
    assert error.value.reason == "NotFound"


def test_warnings_are_passed_on_once_whatever_the_answer(
    client: Cluster, api: Api, warned: list[tuple[str, str]]
) -> None:
    headers = [
        ("Warning", r'299 - "field \"a\" is old, very", 299 - "another"'),
        ("Warning", '299 - "third"'),
        ("Warning", '110 - "stale"'),
    ]
    refused = status(409, "Conflict", "no")
    refused.headers = headers[:1]
    api.answers = [refused, Answer(headers=headers), Answer(headers=headers)]
    with pytest.raises(ClusterError):
        client.apply(POD)
    client.apply(POD)
    client.get("Pod", "engine")
    assert warned == [
        ("Pod team/engine", 'field "a" is old, very'),
        ("Pod team/engine", "another"),
        ("Pod team/engine", "third"),
    ]


@pytest.mark.parametrize("body", [b"<html>502 Bad Gateway</html>", b'["no object"]'])
def test_something_else_than_an_api_server(client: Cluster, api: Api, body: bytes) -> None:
    api.answers = [Answer(body=body)]
    with pytest.raises(ClusterError, match="no API server"):
        client.get("Pod", "engine")
    api.answers = [Answer(502, body)] * 10
    with pytest.raises(ClusterError, match="could not read Pod team/engine"):
        client.get("Pod", "engine")


def test_an_error_without_a_status_object_is_quoted() -> None:
    assert refusal(502, "Bad Gateway", b"<p>no\n way</p>").message == "<p>no way</p>"
    assert refusal(502, "Bad Gateway", b"").message == "Bad Gateway"
    assert refusal(409, None, b'{"message": "m", "details": null, "reason": "Conflict"}').causes == []


def plugin(tmp_path: Path) -> dict[str, Any]:
    """A credential plugin that gives token-1, then token-2, and so on."""
    script = tmp_path / "plugin.py"
    script.write_text(
        "import json, pathlib\n"
        f"kept = pathlib.Path({str(tmp_path / 'count')!r})\n"
        "count = int(kept.read_text()) + 1 if kept.exists() else 1\n"
        "kept.write_text(str(count))\n"
        "version = 'client.authentication.k8s.io/v1'\n"
        "status = {'token': f'token-{count}'}\n"
        "print(json.dumps({'apiVersion': version, 'kind': 'ExecCredential', 'status': status}))\n",
        encoding="utf-8",
    )
    return {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(script)],
        "interactiveMode": "Never",
    }


def test_a_token_that_ran_out_is_asked_for_anew_once(api: Api, tmp_path: Path) -> None:
    users = [{"name": "u", "user": {"exec": plugin(tmp_path)}}]
    client = connect(write(tmp_path / "config", f"http://127.0.0.1:{api.port}", users=users))
    old = status(401, "Unauthorized", "Unauthorized")
    api.answers = [old, Answer(), Answer()]
    client.apply(POD)
    client.get("Pod", "engine")
    assert [token for _, _, token in api.asked] == ["Bearer token-1", "Bearer token-2", "Bearer token-2"]
    api.answers = [old, old, old]
    with pytest.raises(ClusterError, match=r'does not accept the credentials of user "u" of context here \(.*config\)'):
        client.get("Pod", "engine")
    assert len(api.asked) == 5
    client.close()


def test_a_plugin_that_fails_is_named(tmp_path: Path) -> None:
    lost = plugin(tmp_path) | {"command": "no-such-plugin"}
    path = write(tmp_path / "config", "http://127.0.0.1:1", users=[{"name": "u", "user": {"exec": lost}}])
    with pytest.raises(ClusterError, match=r"gives no credentials: .*no-such-plugin"):
        connect(path)


def test_a_server_that_cannot_be_reached_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    path = write(tmp_path / "config", f"https://127.0.0.1:{port}")
    with pytest.raises(ClusterError) as error:
        connect(path)
    assert str(error.value) == (
        f"the API server https://127.0.0.1:{port} of context here ({path}) cannot be reached: connection refused"
    )
    with pytest.raises(ClusterError, match=r"https://nowhere\.invalid.*cannot be reached: the name is not known here"):
        connect(write(tmp_path / "config", "https://nowhere.invalid"))


def test_a_server_without_tls_where_the_kubeconfig_has_https(api: Api, tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="cannot be reached: it does not speak TLS"):
        connect(write(tmp_path / "config", f"https://127.0.0.1:{api.port}"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is empty"),
        ("just text", "is no kubeconfig: not a mapping"),
        ("a: [1\nb: secret", "is not YAML: .* at line 2$"),
        (b"\xff\xfe", "is not text in UTF-8"),
        ("{}", "has no contexts: it names no cluster"),
        ("contexts: {a: b}", "is broken: contexts is no list of entries with names"),
        ("contexts: [{name: a, context: {cluster: c}}]", "has no current context, and none is named.*there are: a$"),
        ("current-context: b\ncontexts: [{name: a}]", 'has no context "b", which its current-context names; '),
        ("current-context: a\ncontexts: [{name: a, context: {cluster: c}}]", 'names the cluster "c", which is not in'),
        (
            "current-context: a\ncontexts: [{name: a, context: {cluster: c}}]\nclusters: [{name: c}]",
            'the cluster "c" of .* has no server',
        ),
        (
            "current-context: a\ncontexts: [{name: a, context: {cluster: c, user: me}}]\n"
            "clusters: [{name: c, cluster: {server: 'http://x'}}]\nusers: [{name: mee, user: {}}]",
            'names the user "me", which is not in it; did you mean "mee"',
        ),
        (
            "current-context: a\ncontexts: [{name: a, context: {cluster: c}}]\n"
            "clusters: [{name: c, cluster: {server: 'https://x', certificate-authority: gone.crt}}]",
            'the context "a" of .* cannot be used: File does not exist: .*gone.crt',
        ),
    ],
)
def test_a_kubeconfig_that_is_no_use_says_why(tmp_path: Path, content: str | bytes, words: str) -> None:
    path = tmp_path / "config"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ClusterError, match=words) as error:
        connect(path)
    assert str(path) in str(error.value)
    assert "secret" not in str(error.value)


def test_a_context_that_is_not_there_has_its_nearest_name(tmp_path: Path) -> None:
    path = write(tmp_path / "config", "http://127.0.0.1:1")
    with pytest.raises(ClusterError, match=r'no context "heer", which kubernetes.context names; did you mean "here"'):
        connect(path, context="heer")


def test_a_named_kubeconfig_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"nowhere, named by kubernetes.kubeconfig of the site file, is not there"):
        connect(tmp_path / "nowhere")
    with pytest.raises(ClusterError, match=r"nowhere, named by \$KUBECONFIG, is not there"):
        find_access(None, None, {"KUBECONFIG": str(tmp_path / "nowhere")})


def test_no_kubeconfig_at_all(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    with pytest.raises(
        ClusterError, match=r"no kubeconfig: there is no .*\.kube/config, and neither \$KUBECONFIG"
    ) as e:
        find_access(None, None, home)
    assert "k3s" not in str(e.value)
    (tmp_path / "k3s.yaml").touch()
    with pytest.raises(
        ClusterError, match=r"k3s\.yaml is here: k3s keeps it for root\..* sudo k3s kubectl config view"
    ):
        find_access(None, None, home)


@pytest.fixture
def locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A kubeconfig that whoever runs the tests may not read, be it root."""
    path = write(tmp_path / "k3s.yaml", "http://127.0.0.1:1")
    path.chmod(0)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    yield path
    os.seteuid(user)


def test_an_unreadable_kubeconfig_of_k3s_says_what_to_do(locked: Path) -> None:
    with pytest.raises(ClusterError) as error:
        find_access(None, None, {"KUBECONFIG": str(locked)})
    words = str(error.value)
    assert words.startswith(
        f"the kubeconfig {locked}, named by $KUBECONFIG, cannot be read: Permission denied. k3s keeps"
    )
    assert "(umask 077; sudo k3s kubectl config view --raw > ~/.kube/k3s.yaml)" in words  # never readable by others
    assert "kubernetes: {kubeconfig: ~/.kube/k3s.yaml}" in words and "~/.kube/config" not in words
    assert "--write-kubeconfig-mode" in words


def test_another_unreadable_kubeconfig_says_what_to_do(locked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubeconfig_module, "K3S", Path("/nowhere"))
    with pytest.raises(ClusterError, match=r"cannot be read: Permission denied\. Make it yours \(sudo chown"):
        find_access(str(locked), None, {})


def test_a_list_of_kubeconfigs_is_read_as_kubectl_reads_it(tmp_path: Path) -> None:
    first = write(tmp_path / "a" / "config", "http://first")
    context = {"cluster": "d", "namespace": "theirs"}
    second = write(
        tmp_path / "b" / "config",
        "http://second",
        **{
            "current-context": "there",
            "contexts": [{"name": "there", "context": context}, {"name": "here", "context": context}],
        },
        clusters=[
            {"name": "d", "cluster": {"server": "http://second"}},
            {"name": "c", "cluster": {"server": "http://no"}},
        ],
    )
    named = {"KUBECONFIG": os.pathsep.join(["", str(tmp_path / "missing"), str(first), str(second)])}
    access = find_access(None, None, named)
    assert (access.context, access.namespace, access.configuration.host) == ("here", "team", "http://first")
    other = find_access(None, "there", named)
    assert (other.context, other.namespace, other.configuration.host) == ("there", "theirs", "http://second")
    assert not other.configuration.api_key


def test_the_kubeconfig_that_is_named_first_wins(tmp_path: Path) -> None:
    usual = write(tmp_path / ".kube" / "config", "http://usual")
    environ = {"HOME": str(tmp_path)}
    assert find_access(None, None, environ).origin == str(usual)
    by_environment = write(tmp_path / "environment", "http://environment")
    environ["KUBECONFIG"] = str(by_environment)
    assert find_access(None, None, environ).origin == str(by_environment)
    by_site = write(tmp_path / "site", "http://site")
    assert find_access(str(by_site), None, environ).configuration.host == "http://site"


def test_in_a_pod_its_service_account_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubeconfig_module, "SERVICE_ACCOUNT", tmp_path)
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443", "HOME": str(tmp_path)}
    (tmp_path / "token").write_text("pod-token", encoding="utf-8")
    with pytest.raises(ClusterError, match=r"the service account of this Pod, .* cannot be used: "):
        find_access(None, None, environ)
    (tmp_path / "ca.crt").write_text("authority", encoding="utf-8")
    (tmp_path / "namespace").write_text("team\n", encoding="utf-8")
    access = find_access(None, None, environ)
    assert (access.in_cluster, access.namespace, access.configuration.host) == (True, "team", "https://10.0.0.1:443")
    with pytest.raises(ClusterError, match=r'kubernetes.context names "here", but there is no kubeconfig here'):
        find_access(None, "here", environ)
    # A kubeconfig wins; whether it leads to the Pod's own cluster its address says.
    path = write(tmp_path / "config", "https://10.0.0.1")
    assert find_access(str(path), None, environ).in_cluster
    assert not find_access(str(write(path, "https://10.0.0.2")), None, environ).in_cluster


def test_the_readme_makes_the_same_copy_of_k3ss_kubeconfig() -> None:
    command = "mkdir -p ~/.kube && (umask 077; sudo k3s kubectl config view --raw > ~/.kube/k3s.yaml)"
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    assert command in readme and command in kubeconfig_module._COPY_OF_K3S
    assert "kubeconfig: ~/.kube/k3s.yaml" in readme
