"""Whom a client over https believes."""

import functools
import ssl
from typing import Final

import httpx

_UNVOUCHED: Final = (2, 18, 19, 20, 21)
"""X509_V_ERR of a chain that leads to nobody who is believed; another name or time is not among them."""


@functools.cache
def trusted(authorities: str) -> ssl.SSLContext:
    """The certificates that httpx comes with, whatever the environment names, and beside them `authorities`, in PEM;
    every client gets it by `verify=`.

    Read once: a client without it reads them again when it is made, 50 ms of a processor in which nothing is sent and
    no sample taken, for an engine that mostly speaks plain http.
    """
    context = httpx.create_ssl_context(trust_env=False)
    if authorities:
        context.load_verify_locations(cadata=authorities)
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # else one that another authority signed vouches for none
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # Python 3.13's: home-made authorities seldom keep to RFC 5280
    return context


def disbelieved(error: BaseException, authorities: str) -> str | None:
    """Why a server's certificate was not believed, and the way out where `load: ca-file` is one; None where `error`
    did not come of that."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__cause__ or cause.__context__
    if cause is None:
        return None
    why = cause.verify_message.rstrip(".")
    if cause.verify_code not in _UNVOUCHED:
        return why
    if authorities:
        return f"{why}; neither the shipped certificates nor those of load: ca-file in the site file vouch for it"
    return f"{why}; where an authority of your own signed it, name that in the site file, load: {{ca-file: PATH}}"
