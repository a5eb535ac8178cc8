"""What the client is: by what engines let it in, read before anything is started, and what the record says of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runner.access import Access
from runner.plan.model import PlannedLoad
from runner.spec.authorities import certificates, fingerprint
from runner.spec.client import BearerToken, LoadSite, is_header_value
from runner.tls import trusted

_PROXIES = ("http_proxy", "https_proxy", "all_proxy")
_MAX_BYTES = 65_536


class NoAccess(Exception):
    """A token that is not there, or is none; the text is for the user and never holds it."""


def read_access(site: LoadSite, environ: Mapping[str, str], authorities: str = "") -> Access:
    """The headers of a site file, its token read from where it is; `authorities`: its ca-file's. Raises NoAccess."""
    token = None if site.bearer_token is None else _token(site.bearer_token, environ)
    return Access.made(site.headers, token, authorities)


def ignored_proxies(environ: Mapping[str, str]) -> list[str]:
    """The variables that name a proxy; load does not go through one, for it would be measured with the engine."""
    return sorted(name for name, value in environ.items() if name.lower() in _PROXIES and value)


def described(load: PlannedLoad, site: LoadSite, environ: Mapping[str, str], authorities: str = "") -> dict[str, Any]:
    """The client for the record and for `run plan`: of headers the names alone, of a token where it comes from, of a
    ca-file its name and the SHA-256 of each certificate that did not come with the runner."""
    token = {} if site.bearer_token is None else {"bearer-token": site.bearer_token.where}
    believed = {}
    if site.ca_file is not None:
        shipped = trusted("").get_ca_certs(binary_form=True)
        added = [fingerprint(one) for one in certificates(authorities) if one not in shipped]
        believed = {"ca-file": Path(site.ca_file).name, "ca-sha256": added}
    return {
        "connection": load.connection,
        "processes": load.processes if load.processes is not None else "by the rule",
        "headers": list(site.headers),
        **token,
        **believed,
        "proxies-ignored": ignored_proxies(environ),
    }


def _token(named: BearerToken, environ: Mapping[str, str]) -> str:
    """Space at its ends is no part of it: a file ends with a line break."""
    if named.env is not None:
        if named.env not in environ:
            raise NoAccess(f"the {named.where} is not set; set it for the run, or name a file: {{file: PATH}}")
        text = environ[named.env].strip()
    else:
        assert named.file is not None
        text = _text(Path(named.file)).strip()
    if not text:
        raise NoAccess(f"the {named.where} is empty")
    if "\n" in text or "\r" in text:
        raise NoAccess(f"the {named.where} holds several lines; a token is one")
    if not is_header_value(text):
        raise NoAccess(
            f"the {named.where} holds signs that no header can hold; a token is latin-1, without control signs"
        )
    return text


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise NoAccess(f"the file {path} is larger than {_MAX_BYTES} bytes; that is no token")
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise NoAccess(f"the file {path} is not UTF-8 text") from None
    except OSError as error:
        raise NoAccess(f"the file {path} cannot be read: {error.strerror}") from None
