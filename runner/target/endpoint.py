"""Servers that run already, one URL a condition. Nothing is started, nothing is changed, nothing is stopped."""

import asyncio
import ipaddress
import itertools
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from runner.access import OPEN, Access, http_client
from runner.engine.served import VERSION_PATH
from runner.plan.model import Arm, Plan
from runner.spec.nearest import hint, nearest
from runner.spec.problem import shown
from runner.spec.site import EndpointSite
from runner.target.base import NoGpus, Stay, Survey, TargetError, nothing_changed
from runner.tls import disbelieved

_REACH_SECONDS = 10.0
"""For the whole answer; httpx's own limits are for each read of it."""


class EndpointEngine:
    """A server that was there."""

    def __init__(self, url: str) -> None:
        self.endpoint = url
        self.command: list[str] = []
        self.env: dict[str, str] = {}

    @property
    def identity(self) -> str:
        """Its URL; which process answers there is told by the start time that it exposes."""
        return self.endpoint

    @property
    def transport(self) -> None:
        """The URL says it."""

    @property
    def facts(self) -> dict[str, str]:
        """Its place is not ours to see."""
        return {}

    @property
    def gpus(self) -> NoGpus:
        """They are its host's."""
        return NoGpus("the server's GPUs are not this machine's to read")

    async def look(self) -> None:
        """There is nothing to ask for."""

    def exit_code(self) -> None:
        """Its end is not ours to see."""

    def log(self) -> None:
        """Its output goes elsewhere."""

    def stranger(self) -> None:
        """Whoever answers there is the one that is meant; the evidence says whether it is the right one."""

    async def stop(self) -> str:
        """Leave it alone."""
        return "left running: it was there before"

    @property
    def remains(self) -> None:
        """It was meant to live on."""


class EndpointTarget:
    """Measures servers that run already, each known by its URL alone."""

    name = "endpoint"
    simulated = False

    def __init__(self, site: EndpointSite, access: Access = OPEN) -> None:
        self._urls: Mapping[str, str] = site.urls
        self._access = access

    def settings(self) -> dict[str, Any]:
        """Where each condition is served."""
        return {"urls": dict(self._urls)}

    def origins(self) -> Mapping[str, str]:
        """Nobody else could have."""
        return {}

    def problems(self, plan: Plan) -> list[str]:
        """Conditions without a server, servers without a condition, and what a server that is there cannot give."""
        return [*self._unserved(plan), *self._unasked(plan), *self._shared(plan), *_fresh(plan)]

    def _unserved(self, plan: Plan) -> Iterator[str]:
        spare = [key for key in self._urls if not any(key in _keys(plan, arm) for arm in plan.arms)]
        for arm in plan.arms:
            if self._url(plan, arm) is None:
                wanted = _keys(plan, arm)[0]
                meant = hint(wanted, spare) if nearest(wanted, spare) else f"name one: {_block(wanted)}"
                yield f"no URL for the condition {shown(wanted)}; {meant}"

    def _unasked(self, plan: Plan) -> Iterator[str]:
        known = [_keys(plan, arm)[0] for arm in plan.arms]
        for key in self._urls:
            if not any(key in _keys(plan, arm) for arm in plan.arms):
                of = [arm.id for arm in plan.arms if arm.condition == key]
                meant = f"its matrix makes {', '.join(of)}; each has a URL of its own" if of else hint(key, known)
                yield f"{shown(key)} has a URL and is no condition of this spec; {meant}"

    def _shared(self, plan: Plan) -> Iterator[str]:
        served = [(arm, url) for arm in plan.arms if (url := self._url(plan, arm)) is not None]
        for (one, url), (other, same) in itertools.combinations(served, 2):
            if _place(url) == _place(same) and one.start != other.start:
                yield (
                    f"{shown(one.label)} and {shown(other.label)} start their engines differently "
                    f"and are both served by {same}; one server can be only one of them"
                )

    def _url(self, plan: Plan, arm: Arm) -> str | None:
        return next((self._urls[key] for key in _keys(plan, arm) if key in self._urls), None)

    def survey(self, _: Plan) -> Survey:
        """Nothing of anybody's will be changed."""
        return Survey()

    def stay(self, _: Stay) -> AbstractAsyncContextManager[None]:
        """Nothing is changed that was there before."""
        return nothing_changed()

    async def launch(self, model: str, arm: Arm, log: Path) -> EndpointEngine:
        """Reach the server. Raises TargetError when nothing answers there."""
        url = self._urls.get(arm.condition) or self._urls.get(arm.id)
        if url is None:
            raise TargetError(f"there is no URL for the condition {shown(arm.label)}")
        try:
            async with (
                asyncio.timeout(_REACH_SECONDS),
                http_client(self._access, timeout=None) as client,
            ):
                await client.get(url + VERSION_PATH)
        except TimeoutError:
            raise TargetError(f"no server answers at {url}: no whole answer within {_REACH_SECONDS:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            if (why := disbelieved(error, self._access.authorities)) is not None:
                raise TargetError(f"the certificate of {url} is not believed: {why}") from None
            raise TargetError(f"no server answers at {url}: {str(error) or type(error).__name__}") from None
        return EndpointEngine(url)


def _block(condition: str) -> str:
    return f"endpoint: {{urls: {{{condition}: http://HOST:PORT}}}} in the site file"


def _keys(plan: Plan, arm: Arm) -> list[str]:
    """What the site may call a condition: its name in the spec where that makes one arm, and its id."""
    alone = arm.condition and sum(other.condition == arm.condition for other in plan.arms) == 1
    return [arm.condition, arm.id] if alone else [arm.id]


def _fresh(plan: Plan) -> Iterator[str]:
    if plan.replicates > 1:
        yield (
            f"replicates: {plan.replicates} asks for fresh engine processes, and a server that runs already is always "
            "the same one; write replicates: 1"
        )


def _place(url: str) -> tuple[str, int, str]:
    """Where a URL leads, however it is written."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    return _host(parts.hostname or ""), port, parts.path.rstrip("/")


def _host(name: str) -> str:
    """All names of this machine's loopback interface are one."""
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return "localhost" if name.rstrip(".") == "localhost" or name.endswith(".localhost") else name.rstrip(".")
    return "localhost" if address.is_loopback or address.is_unspecified else address.compressed
