"""By what an engine lets the runner in, and the one place where clients for everything but load are made."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import httpx

from runner.tls import trusted

_SECONDS = 5.0
"""httpx's own limit for each connect and each read."""


@dataclass(frozen=True, slots=True, repr=False)
class Access:
    """Headers that go with every request to an engine: (name, value), in latin-1. The values are secrets, and shown by
    nothing. `authorities`: who is believed over https beside the shipped certificates, in PEM."""

    headers: tuple[tuple[str, str], ...] = ()
    authorities: str = ""

    def __repr__(self) -> str:
        """The names alone."""
        return f"Access({', '.join(name for name, _ in self.headers)})"

    @classmethod
    def made(cls, headers: Mapping[str, str], token: str | None, authorities: str = "") -> "Access":
        """These headers, and an Authorization of the token where there is one."""
        bearer = () if token is None else (("Authorization", f"Bearer {token}"),)
        return cls((*headers.items(), *bearer), authorities)

    @property
    def has_token(self) -> bool:
        """Whether an Authorization is sent."""
        return any(name.lower() == "authorization" for name, _ in self.headers)


OPEN: Final = Access()
"""Of an engine that lets anybody in."""


def http_client(access: Access, *, timeout: float | None = _SECONDS) -> httpx.AsyncClient:
    """A client that sends the access with each request. Proxies and certificates that the environment names are not
    used. `timeout`: seconds for each connect and each read, None for ever."""
    return httpx.AsyncClient(
        verify=trusted(access.authorities), trust_env=False, timeout=timeout, headers=encoded(access)
    )


def blocking_client(access: Access, *, timeout: float | None = _SECONDS) -> httpx.Client:
    """The same for a thread of its own."""
    return httpx.Client(verify=trusted(access.authorities), trust_env=False, timeout=timeout, headers=encoded(access))


def encoded(access: Access) -> list[tuple[bytes, bytes]]:
    """As httpx takes them: text would have to be ASCII."""
    return [(name.encode("ascii"), value.encode("latin-1")) for name, value in access.headers]
