"""A connection of its own to the API server, for what streams: the socket is ours, so it can be shut from outside."""

import contextlib
import socket
import ssl
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]  # typeshed has it not

_CONNECT_SECONDS = 5.0


def dial(configuration: Any, seconds: float) -> socket.socket:
    """A connected socket, TLS done, whose calls time out after `seconds`. Raises OSError.

    A stream that the kubernetes package opens has no timeout while it connects, hides its socket, and is read by two
    threads at once or through `select`, which knows no descriptor above 1023.
    """
    server = urlsplit(configuration.host)
    secure = server.scheme == "https"
    host, port = server.hostname or "", server.port or (443 if secure else 80)
    proxy = _proxy(configuration, host)
    if proxy is None:
        way = HTTPConnection(host, port, timeout=_CONNECT_SECONDS)
    else:
        if proxy.scheme not in {"", "http"}:
            raise OSError(f"a stream through a {proxy.scheme} proxy ({proxy.hostname}) is not supported")
        way = HTTPConnection(proxy.hostname or "", proxy.port or 80, timeout=_CONNECT_SECONDS)
        way.set_tunnel(host, port, dict(configuration.proxy_headers or {}))
    try:
        way.connect()
    except HTTPException as error:
        raise OSError(str(error) or type(error).__name__) from error
    plain = way.sock
    try:
        _keep_alive(plain)
        connected = (
            _tls(configuration).wrap_socket(plain, server_hostname=configuration.tls_server_name or host)
            if secure
            else plain
        )
    except BaseException:
        plain.close()
        raise
    connected.settimeout(seconds)
    return connected


def credentials(configuration: Any) -> dict[str, str]:
    """The headers that say who asks; none where a certificate does."""
    settings = configuration.auth_settings().values()
    return {setting["key"]: setting["value"] for setting in settings if setting["in"] == "header" and setting["value"]}


def address(configuration: Any, path: str, query: list[tuple[str, str]]) -> str:
    """The URL of a path of the API, below the server's own path if it has one."""
    return f"{configuration.host.rstrip('/')}{path}?{urlencode(query)}"


def shut(connection: socket.socket) -> None:
    """End a connection under whoever reads it, who then sees its end. Never raises."""
    with contextlib.suppress(OSError):
        # The socket below, not TLS, whose state belongs to the thread that reads.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


def _proxy(configuration: Any, host: str) -> Any:
    if not configuration.proxy:
        return None
    without = configuration.no_proxy or ""
    if without and proxy_bypass_environment(host, {"no": without}):
        return None
    proxy = urlsplit(configuration.proxy)
    if proxy.username:
        raise OSError(f"a stream through a proxy with a password ({unquote(proxy.hostname or '')}) is not supported")
    return proxy


def _tls(configuration: Any) -> ssl.SSLContext:
    context = ssl.create_default_context(
        cafile=configuration.ssl_ca_cert, cadata=getattr(configuration, "ca_cert_data", None)
    )
    if configuration.assert_hostname is False or not configuration.verify_ssl:
        context.check_hostname = False
    if not configuration.verify_ssl:
        context.verify_mode = ssl.CERT_NONE
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    return context


def _keep_alive(connection: socket.socket) -> None:
    """A peer that vanished is found within a minute, however silent the stream is."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, seconds in (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), seconds)
