"""A port of a Pod as a port of this machine, for probes: each connection through the API server by itself."""

import contextlib
import selectors
import socket
import threading

from runner.target.kubernetes.channels import Channels, ChannelsClosed
from runner.target.kubernetes.cluster import Cluster
from runner.target.kubernetes.connection import shut

_DATA, _ERROR = 0, 1
_PART = 64 * 1024
_JOIN_SECONDS = 2.0


class PortForward:
    """Listens on a free port of 127.0.0.1 from when it is made until `close`. What it takes to reach the Pod is not
    the engine's time: no latency measured through it is a measurement."""

    def __init__(self, cluster: Cluster, pod: str, port: int) -> None:
        """Raises OSError where this machine has no free port. Whether the Pod can be reached shows with the first
        connection: one that cannot be made is closed, and `problem` says why."""
        self.problem: str | None = None
        self._cluster, self._pod, self._port = cluster, pod, port
        self._lock = threading.Lock()
        self._open: set[_Connection] = set()
        self._closed = False
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._local_port = self._listener.getsockname()[1]
        self._accepting = threading.Thread(target=self._accept, name=f"port-forward to {pod}:{port}", daemon=True)
        self._accepting.start()

    @property
    def url(self) -> str:
        """`http://127.0.0.1:PORT`"""
        return f"http://127.0.0.1:{self._local_port}"

    def close(self) -> None:
        """End every connection and the port. Never raises; safe to call twice."""
        with self._lock:
            self._closed = True
            connections = list(self._open)
        shut(self._listener)
        self._accepting.join(_JOIN_SECONDS)
        self._listener.close()
        for connection in connections:
            connection.shut()
        for connection in connections:
            connection.thread.join(_JOIN_SECONDS)

    def _accept(self) -> None:
        while True:
            try:
                local, _ = self._listener.accept()
            except OSError:
                return
            connection = _Connection(self, local)
            with self._lock:
                if self._closed:
                    local.close()
                    return
                self._open.add(connection)
            connection.thread.start()

    def _dial(self) -> Channels:
        path = f"/api/v1/namespaces/{self._cluster.namespace}/pods/{self._pod}/portforward"
        what = f"reach port {self._port} of Pod {self._cluster.namespace}/{self._pod}"
        return Channels(self._cluster, path, [("ports", str(self._port))], what)

    def _failed(self, problem: str | None) -> None:
        with self._lock:
            self.problem = problem or self.problem

    def _gone(self, connection: "_Connection") -> None:
        with self._lock:
            self._open.discard(connection)


class _Connection:
    """One TCP connection and its stream, both handled by one thread: TLS is not for two at once."""

    def __init__(self, forward: PortForward, local: socket.socket) -> None:
        self._forward, self._local = forward, local
        self._remote: Channels | None = None
        self._shut = False
        self.thread = threading.Thread(target=self._run, name="port-forward connection", daemon=True)

    def shut(self) -> None:
        """End it from another thread."""
        self._shut = True
        shut(self._local)
        if self._remote is not None:
            self._remote.shut()

    def _run(self) -> None:
        problem = None
        try:
            self._remote = self._forward._dial()
            if not self._shut:
                problem = self._carry(self._remote)
        except Exception as error:
            ended = isinstance(error, ChannelsClosed) and not error.lost
            problem = None if self._shut or ended else str(error)
        finally:
            # Before the end, so that whoever sees it can ask why.
            self._forward._failed(problem)
            if self._remote is not None:
                self._remote.close()
            # What the Pod sent last is delivered before the end.
            with contextlib.suppress(OSError):
                self._local.shutdown(socket.SHUT_RDWR)
            self._local.close()
            self._forward._gone(self)

    def _carry(self, remote: Channels) -> str | None:
        """Both ways, until either side has ended; what the Pod's side said went wrong."""
        greeted: set[int] = set()
        with selectors.DefaultSelector() as selector:
            selector.register(self._local, selectors.EVENT_READ)
            selector.register(remote, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in selector.select(0 if remote.pending else None)}
                if self._local in ready:
                    sent = self._heard()
                    if not sent:
                        return None  # this protocol cannot say that one direction alone has ended
                    remote.send(_DATA, sent)
                if remote in ready or remote.pending:
                    message = remote.receive(0)
                    if message is None:
                        continue
                    channel, data = message
                    if channel not in greeted:
                        greeted.add(channel)  # the first message of each names the port
                    elif channel == _DATA:
                        try:
                            self._local.sendall(data)
                        except OSError:
                            return None  # it is not there to hear the rest
                    elif channel == _ERROR:
                        return data.decode("utf-8", "replace").strip()

    def _heard(self) -> bytes:
        """From this machine's side; nothing once it has ended, in whatever way."""
        try:
            return self._local.recv(_PART)
        except OSError:
            return b""
