"""Whom a client over https believes."""

import functools
import ssl

import httpx


@functools.cache
def trusted() -> ssl.SSLContext:
    """The certificates that httpx comes with, whatever the environment names; every client gets it by `verify=`.

    Read once: a client without it reads them again when it is made, 50 ms of a processor in which nothing is sent and
    no sample taken, for an engine that mostly speaks plain http.
    """
    return httpx.create_ssl_context(trust_env=False)
