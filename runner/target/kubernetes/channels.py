"""A websocket to the API server that carries numbered channels: exec and port-forward."""

import contextlib
import selectors
import socket
import ssl
import time

import websocket

from runner.target.kubernetes.cluster import Cluster
from runner.target.kubernetes.cluster_error import refusal
from runner.target.kubernetes.connection import address, credentials, dial, shut

_OPEN_SECONDS = 15.0
"""Until the server has agreed: it first reaches the node."""
_STALL_SECONDS = 5.0
"""The longest silence within a message."""


class ChannelsClosed(OSError):
    """The other side has ended the stream, or it was `lost`; the text says how."""

    def __init__(self, words: str, *, lost: bool = True) -> None:
        super().__init__(words)
        self.lost = lost


class Channels:
    """One stream, for one thread at a time. Only `shut` may come from another one."""

    def __init__(self, cluster: Cluster, path: str, query: list[tuple[str, str]], what: str) -> None:
        """Raises OSError: `what` could not be done, in plain words."""
        try:
            self._socket, self._stream = _open(cluster, path, query)
        except websocket.WebSocketBadStatusException as error:
            found = refusal(error.status_code, None, getattr(error, "resp_body", None))
            raise OSError(cluster.refused(what, found)) from error
        except (websocket.WebSocketException, OSError) as error:
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise OSError(f"could not {what}: {cluster.unreachable(why)}") from error

    def receive(self, seconds: float) -> tuple[int, bytes] | None:
        """The next message and its channel; None where none came in time. Raises ChannelsClosed."""
        until = time.monotonic() + seconds
        while True:
            if not self.pending and not _readable(self._socket, max(0.0, until - time.monotonic())):
                return None
            try:
                kind, frame = self._stream.recv_data_frame(control_frame=True)
            except websocket.WebSocketTimeoutException:
                continue  # half a message, which is kept
            except (websocket.WebSocketException, OSError, ValueError) as error:
                raise ChannelsClosed(f"the connection to the API server broke off ({_short(error)})") from error
            if kind == websocket.ABNF.OPCODE_CLOSE:
                raise ChannelsClosed("the API server closed the stream", lost=False)
            if kind in {websocket.ABNF.OPCODE_BINARY, websocket.ABNF.OPCODE_TEXT} and frame.data:
                return frame.data[0], bytes(frame.data[1:])

    def send(self, channel: int, data: bytes) -> None:
        """Send a message. Raises ChannelsClosed."""
        try:
            self._stream.send_binary(bytes([channel]) + data)
        except (websocket.WebSocketException, OSError, ValueError) as error:
            raise ChannelsClosed(f"the connection to the API server broke off ({_short(error)})") from error

    def fileno(self) -> int:
        """For a selector; -1 once closed. See `pending`."""
        return self._socket.fileno()

    @property
    def pending(self) -> bool:
        """Whether bytes were taken from the socket that no selector sees any more."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def shut(self) -> None:
        """End the stream under the thread that reads it. Never raises."""
        shut(self._socket)

    def close(self) -> None:
        """Say so, and let go of the socket. Never raises."""
        with contextlib.suppress(Exception):
            self._stream.send_close()
        self.shut()
        with contextlib.suppress(Exception):
            self._stream.shutdown()
        with contextlib.suppress(OSError):
            self._socket.close()


def _open(cluster: Cluster, path: str, query: list[tuple[str, str]]) -> tuple[socket.socket, websocket.WebSocket]:
    try:
        return _agree(cluster, path, query)
    except websocket.WebSocketBadStatusException as error:
        if error.status_code != 401:
            raise
    cluster.renew()
    return _agree(cluster, path, query)


def _agree(cluster: Cluster, path: str, query: list[tuple[str, str]]) -> tuple[socket.socket, websocket.WebSocket]:
    configuration = cluster.configuration
    connected = dial(configuration, _OPEN_SECONDS)
    stream = websocket.WebSocket(skip_utf8_validation=True)
    try:
        stream.connect(
            address(configuration, path, query).replace("http", "ws", 1),
            socket=connected,
            timeout=_OPEN_SECONDS,
            redirect_limit=0,
            header=[f"{name}: {value}" for name, value in credentials(configuration).items()],
            # The fifth version can close one channel alone, which nothing here needs.
            subprotocols=["v4.channel.k8s.io"],
            suppress_origin=True,
        )
        stream.settimeout(_STALL_SECONDS)
    except BaseException:
        connected.close()
        raise
    return connected, stream


def _readable(connection: socket.socket, seconds: float) -> bool:
    # Not select.select, which knows no descriptor above 1023.
    with selectors.DefaultSelector() as selector:
        try:
            selector.register(connection, selectors.EVENT_READ)
        except (ValueError, KeyError) as error:
            raise ChannelsClosed("the stream was closed") from error
        return bool(selector.select(seconds))


def _short(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
