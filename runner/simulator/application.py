"""The HTTP application: vLLM's paths over one engine."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import time
import traceback
from collections.abc import AsyncIterator, Callable
from hashlib import sha256
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from runner.simulator import chat_template, errors, log, server_info, tokenizer
from runner.simulator.chat_endpoint import VARY, ChatEndpoint, json_response
from runner.simulator.chat_request import Message, accept, parse
from runner.simulator.configuration import Configuration
from runner.simulator.engine import Engine
from runner.simulator.engine_line import message
from runner.simulator.errors import RequestError
from runner.simulator.faults import Faults
from runner.simulator.http_metrics import Instrumented
from runner.simulator.monitoring import CONTENT_TYPE_LATEST, Monitoring
from runner.simulator.periodic_log import INTERVAL, INTERVAL_SECONDS
from runner.simulator.release import Release

FOREIGN_PROMPT = "What is the weather like on the coast today?"


class Api:
    """Endpoints of one engine process."""

    def __init__(
        self,
        configuration: Configuration,
        make_engine: Callable[[Monitoring], Engine],
        faults: Faults,
    ) -> None:
        self._configuration = configuration
        self._faults = faults
        self._created = int(time.time())
        self._monitoring = Monitoring(configuration, faults)
        self.engine = make_engine(self._monitoring)
        digest = sha256(message(configuration).encode()).hexdigest()[:8]
        self._chat = ChatEndpoint(
            configuration, self.engine, faults, f"vllm-{configuration.version}-{digest}", self._after_request
        )
        self._tasks: set[asyncio.Task[Any]] = set()

    # -- assembling --------------------------------------------------------------------------------------

    def routes(self) -> list[Route]:
        """Paths in the order in which vLLM lists them."""
        routes = [
            Route("/load", self.load, methods=["GET"]),
            Route("/version", self.version, methods=["GET"]),
            Route("/health", self.health, methods=["GET"]),
            Route("/metrics", self.metrics, methods=["GET"]),
            Route("/tokenize", self.tokenize, methods=["POST"]),
            Route("/detokenize", self.detokenize, methods=["POST"]),
            Route("/v1/models", self.models, methods=["GET"]),
            Route("/ping", self.health, methods=["GET"]),
            Route("/ping", self.health, methods=["POST"]),
        ]
        if self._configuration.development:
            routes += [
                Route("/reset_prefix_cache", self.reset_prefix_cache, methods=["POST"]),
                Route("/server_info", self.server_info, methods=["GET"]),
            ]
        return [*routes, Route("/v1/chat/completions", self._chat.__call__, methods=["POST"])]

    def application(self) -> ASGIApp:
        """The ASGI application; its lifespan runs the engine."""
        routes: list[BaseRoute] = list(self.routes())
        paths = frozenset(route.path for route in routes if isinstance(route, Route))
        keys = [key for key in self._configuration.values["api_key"] or [os.environ.get("VLLM_API_KEY")] if key]
        middleware = [Middleware(Instrumented, current=self._monitoring, paths=paths)]
        if keys:
            middleware.append(Middleware(Authenticated, keys=tuple(keys)))
        return Starlette(
            routes=routes,
            middleware=middleware,
            lifespan=self._lifespan,
            exception_handlers={404: _no_route, 405: _wrong_method},
        )

    @contextlib.asynccontextmanager
    async def _lifespan(self, application: Starlette) -> AsyncIterator[None]:
        del application
        self._spawn(self.engine.run())
        self._spawn(self._monitoring.write_periodic_log(float(os.environ.get(INTERVAL, INTERVAL_SECONDS))))
        yield
        for task in self._tasks:
            task.cancel()

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            # An engine that has died takes the server with it, as in vLLM.
            trace = "".join(traceback.format_exception(task.exception()))
            log.core("ERROR", "core.py:1238", f"EngineCore encountered a fatal error.\n{trace.rstrip()}")
            os._exit(1)

    # -- faults that wait for a number of requests ------------------------------------------------------

    def _after_request(self, number: int) -> None:
        if self._faults.due("hang", number):
            self.engine.hung = True
        for fault in self._faults.due("stall-while-waiting", number):
            self.engine.stall(fault.get("seconds"))
        if self._faults.due("restart", number):
            self._monitoring.reset()
        for fault in self._faults.due("foreign-traffic", number):
            for index in range(fault["requests"]):
                self._foreign_request(fault.get("prompt") or f"{FOREIGN_PROMPT} ({index})")

    def _foreign_request(self, prompt: str) -> None:
        started = time.monotonic()
        body = json.dumps({"messages": [{"role": "user", "content": prompt}], "max_tokens": 64}).encode()
        accepted = accept(parse(body, "application/json", self._configuration.release), self._configuration)
        _, delivery = self._chat.submit(accepted, {}, started, every_step=False)

        async def consume() -> None:
            async for _ in delivery.outputs():
                pass
            self._monitoring.http.observe(
                "/v1/chat/completions", "POST", 200, (len(body), 0), time.monotonic() - started
            )

        self._spawn(consume())

    # -- endpoints ---------------------------------------------------------------------------------------

    async def health(self, request: Request) -> Response:
        del request
        return Response(status_code=200, headers=VARY)

    async def version(self, request: Request) -> Response:
        del request
        # The second field is no vLLM's: whoever measures this server must be able to know what it is.
        return json_response({"version": self._configuration.version, "simulated": True})

    async def load(self, request: Request) -> Response:
        del request
        tracked = self._configuration.values["enable_server_load_tracking"]
        return json_response({"server_load": self._chat.in_flight if tracked else 0})

    async def metrics(self, request: Request) -> Response:
        del request
        return Response(self._monitoring.render(), headers={"content-type": CONTENT_TYPE_LATEST, **VARY})

    async def models(self, request: Request) -> Response:
        del request
        data = [
            {
                "id": name,
                "object": "model",
                "created": int(time.time()),
                "owned_by": "vllm",
                "root": self._configuration.model,
                "parent": None,
                "max_model_len": self._configuration.max_model_len,
                "permission": [_permission()],
            }
            for name in self._configuration.served_model_names
        ]
        return json_response({"object": "list", "data": data})

    async def tokenize(self, request: Request) -> Response:
        try:
            body = _object(await request.body(), self._configuration.release)
            if "messages" in body:
                messages = [Message.model_validate(item) for item in body["messages"]]
                ids = chat_template.render(
                    [(item.role, item.text) for item in messages],
                    generation_prompt=body.get("add_generation_prompt", True),
                )
            else:
                ids = tokenizer.encode(str(body["prompt"]))
        except RequestError as error:
            return json_response(error.body, error.status)
        except (KeyError, ValueError) as error:
            return json_response(RequestError(str(error)).body, 400)
        strings = [tokenizer.piece_of(token) for token in ids] if body.get("return_token_strs") else None
        return json_response(
            {
                "count": len(ids),
                "max_model_len": self._configuration.max_model_len,
                "tokens": ids,
                "token_strs": strings,
            }
        )

    async def detokenize(self, request: Request) -> Response:
        try:
            body = _object(await request.body(), self._configuration.release)
            return json_response({"prompt": tokenizer.decode(int(token) for token in body["tokens"])})
        except RequestError as error:
            return json_response(error.body, error.status)
        except (KeyError, ValueError, TypeError) as error:
            return json_response(RequestError(str(error)).body, 400)

    async def reset_prefix_cache(self, request: Request) -> Response:
        del request
        return json_response({"success": self.engine.reset_prefix_cache()})

    async def server_info(self, request: Request) -> Response:
        if request.query_params.get("config_format", "text") == "json":
            return json_response(server_info.as_json(self._configuration, os.environ))
        return json_response(server_info.as_text(self._configuration))


class Authenticated:
    """Refuses /v1 paths without one of the API keys."""

    def __init__(self, app: ASGIApp, keys: tuple[str, ...]) -> None:
        self._app = app
        self._keys = {key.encode() for key in keys}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith("/v1"):
            scheme, _, key = dict(scope["headers"]).get(b"authorization", b"").partition(b" ")
            if scheme.lower() != b"bearer" or key not in self._keys:
                await json_response({"error": "Unauthorized"}, 401)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _permission() -> dict[str, Any]:
    return {
        "id": f"modelperm-{secrets.token_hex(8)}",
        "object": "model_permission",
        "created": int(time.time()),
        "allow_create_engine": False,
        "allow_sampling": True,
        "allow_logprobs": True,
        "allow_search_indices": False,
        "allow_view": True,
        "allow_fine_tuning": False,
        "organization": "*",
        "group": None,
        "is_blocking": False,
    }


def _object(body: bytes, release: Release) -> dict[str, Any]:
    try:
        parsed = json.loads(body)
    except json.JSONDecodeError as error:
        raise errors.not_json(error, release) from error
    if not isinstance(parsed, dict):
        raise RequestError("1 validation error", kind="Bad Request", param="body")
    return parsed


async def _no_route(request: Request, error: Exception) -> Response:
    del request, error
    return Response(b'{"detail":"Not Found"}', 404, media_type="application/json", headers=VARY)


async def _wrong_method(request: Request, error: Exception) -> Response:
    del request, error
    return Response(b'{"detail":"Method Not Allowed"}', 405, media_type="application/json", headers=VARY)
