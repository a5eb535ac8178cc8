"""An authority of the tests' own, and a server whose certificate it signed."""

from __future__ import annotations

import ssl
from pathlib import Path

AUTHORITY = Path(__file__).with_name("authority.pem")
"""Its certificate, until 2120. Its key was thrown away."""
SIGNED = Path(__file__).with_name("authority_signed.pem")
"""A key, and a certificate of localhost, 127.0.0.1 and ::1 that the authority signed, until 2120. It opens nothing."""
AUTHORITY_SHA256 = "695fd273b2e201334195551565855c5d0cf12a129e91b8f08f62f8ce8fda1097"
SIGNED_SHA256 = "a449d584357d272ae7fbfdfd1ddb72dbfc005b22e05f9ff6b872f6a8466a3665"
"""As `openssl x509 -fingerprint -sha256` has them."""


def signed() -> ssl.SSLContext:
    """Of a server that serves that certificate, and not the authority's."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(SIGNED)
    return context
