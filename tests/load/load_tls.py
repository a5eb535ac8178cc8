"""A certificate of our own, whom it serves and who believes it."""

import ssl
from pathlib import Path

PEM = Path(__file__).with_name("loopback.pem")
"""A key, and a certificate of localhost, 127.0.0.1 and ::1 that it signed itself, until 2120. It opens nothing."""


def serving(version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
    """Of a server that speaks no newer version."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    context.maximum_version = version
    return context


def believing() -> ssl.SSLContext:
    """Of a client."""
    return ssl.create_default_context(cafile=str(PEM))
