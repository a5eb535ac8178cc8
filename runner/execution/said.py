"""What a server says of itself before anything is measured, each answer kept as it came."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import httpx

from runner.access import http_client
from runner.engine import server_info
from runner.engine.served import MODELS_PATH, VERSION_PATH, ServedModel, Version, read_models, read_version
from runner.engine.server_info import ServerInfo, ServerInfoError, read_server_info
from runner.execution.context import Context
from runner.execution.requests import launch_folder
from runner.plan.model import Launch

_SECONDS = {VERSION_PATH: 10.0, MODELS_PATH: 10.0, server_info.PATH: 60.0}
"""How long a whole answer may take: the first server info of a process looks its whole host up."""
_LAST_SECONDS = 1.0
"""How long it may take at most when the run is stopped."""
_QUERIES = {server_info.PATH: "?config_format=json"}


@dataclass(frozen=True, slots=True)
class Said:
    """`absent`: path to the reason, for what was asked and did not tell."""

    version: Version = field(default_factory=Version)
    models: tuple[ServedModel, ...] | None = None
    info: ServerInfo | None = None
    absent: dict[str, str] = field(default_factory=dict)


async def ask(context: Context, launch: Launch, endpoint: str) -> Said:
    """Ask an engine that answers. Never raises for what it says or does not say."""
    texts: dict[str, bytes] = {}
    absent: dict[str, str] = {}
    async with http_client(context.access) as client:
        for path, seconds in _SECONDS.items():
            response = await _get(client, endpoint + path + _QUERIES.get(path, ""), seconds, context.stop)
            if isinstance(response, str):
                absent[path] = response
                continue
            if response.status_code != httpx.codes.OK:
                absent[path] = f"HTTP {response.status_code}"
                continue
            texts[path] = response.content
            context.artifact(launch_folder(launch), f"{path.rpartition('/')[2]}.json").write_bytes(response.content)
    models = read_models(texts.get(MODELS_PATH, b""))
    if models is None:
        absent.setdefault(MODELS_PATH, "no list of models")
    info = None
    if server_info.PATH in texts:
        try:
            info = read_server_info(texts[server_info.PATH])
        except ServerInfoError as error:
            absent[server_info.PATH] = str(error)
    return Said(read_version(texts.get(VERSION_PATH, b"")), models, info, absent)


async def _get(client: httpx.AsyncClient, url: str, seconds: float, stop: asyncio.Event) -> httpx.Response | str:
    """The answer, or why there is none. httpx's own limits are for each read, and a slow answer may have many."""
    reading = asyncio.ensure_future(client.get(url, timeout=None))
    stopped = asyncio.ensure_future(stop.wait())
    both: list[asyncio.Future[Any]] = [reading, stopped]
    try:
        await asyncio.wait(both, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if stop.is_set():
            await asyncio.wait([reading], timeout=min(seconds, _LAST_SECONDS))
        if reading.done():
            return reading.result()
        return "the run was stopped before it came" if stop.is_set() else f"no whole answer within {seconds:g} s"
    except httpx.HTTPError as error:
        return str(error) or type(error).__name__
    finally:
        for future in both:
            future.cancel()
        await asyncio.gather(*both, return_exceptions=True)
