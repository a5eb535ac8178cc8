"""Whom a client over https believes beside those whom everybody does: the file that `load: ca-file` names."""

import hashlib
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from runner.spec.prompts import did_you_mean

_MAX_BYTES = 1_000_000
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
_WAY_OUT = "name a PEM file with the authority's certificate, or leave ca-file out to believe the shipped ones alone"


class AuthoritiesError(Exception):
    """A file that vouches for nobody; the text says why, and the way out."""


def read_authorities(path: Path) -> str:
    """The certificates of a PEM file, each once, and nothing else that stands there: a key may. Raises
    AuthoritiesError."""
    if path.is_fifo() or path.is_char_device():
        raise _wrong(f"{path} is no file")  # it is read again, and of a pipe only the first reader sees anything
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        raise _wrong(f"there is no file {path}{did_you_mean(path)}") from None
    except (OSError, ValueError) as error:
        raise _wrong(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > _MAX_BYTES:
        raise _wrong(f"{path} is larger than {_MAX_BYTES} bytes")
    _, *parts = data.decode("latin-1").split(_BEGIN)  # what stands between certificates may be in any encoding
    if not parts:
        raise _wrong(f"{path} holds no certificate in PEM ({_BEGIN}; openssl x509 -inform der makes it of DER)")
    return "".join(dict.fromkeys(_certificate(path, number, part) for number, part in enumerate(parts, start=1)))


def certificates(pem: str) -> list[bytes]:
    """Each certificate of what `read_authorities` gave, in DER."""
    return [ssl.PEM_cert_to_DER_cert(_BEGIN + part) for part in pem.split(_BEGIN)[1:]]


def fingerprint(certificate: bytes) -> str:
    """The SHA-256 of a certificate in DER, as `openssl x509 -fingerprint -sha256` has it, in small letters without
    colons."""
    return hashlib.sha256(certificate).hexdigest()


def authority_problems(root: Mapping[str, Any], folder: Path) -> Iterator[tuple[tuple[str | int, ...], str, bool]]:
    """Why the file that a site file names cannot be used; `folder` is the site file's. What has the wrong shape is
    passed over."""
    block = root.get("load")
    named = block.get("ca-file") if isinstance(block, Mapping) else None
    if not isinstance(named, str) or not named:
        return
    try:
        read_authorities(folder / Path(named).expanduser())
    except AuthoritiesError as error:
        yield ("load", "ca-file"), str(error), False
    except RuntimeError:
        return  # nobody's home directory, which the schema says


def _certificate(path: Path, number: int, part: str) -> str:
    text, _, _ = part.partition(_END)
    try:
        certificate = ssl.PEM_cert_to_DER_cert(_BEGIN + text + _END)
        _alone(certificate)
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=certificate)
    except (ssl.SSLError, ValueError):
        raise _wrong(f"{path}: certificate {number} in it is broken") from None
    return ssl.DER_cert_to_PEM_cert(certificate)


def _alone(der: bytes) -> None:
    """Raises ValueError where more than one value of DER stands there: another certificate would be believed under the
    fingerprint of both."""
    first = int.from_bytes(der[1:2], "big")
    more = first & 0x7F if first & 0x80 else 0
    length = int.from_bytes(der[2 : 2 + more], "big") if more else first
    if len(der) != 2 + more + length:
        raise ValueError("it does not end where it says that it does")


def _wrong(words: str) -> AuthoritiesError:
    return AuthoritiesError(f"{words}; {_WAY_OUT}")
