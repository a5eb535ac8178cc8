"""``POST /v1/chat/completions``: from a body to the engine and back, with the request's faults."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from runner.simulator import chat_request, log, wording
from runner.simulator.chat_reply import DONE, Reply, dumps, event
from runner.simulator.chat_request import AcceptedRequest
from runner.simulator.configuration import Configuration
from runner.simulator.connection import Dripping, cut_in_chunk
from runner.simulator.continuation import Continuation
from runner.simulator.engine import Engine
from runner.simulator.errors import RequestError, is_first
from runner.simulator.faults import Fault, Faults
from runner.simulator.kv_cache import Holding
from runner.simulator.scheduler import Output
from runner.simulator.sequence import Sequence

VARY = {"vary": "Origin"}
RequestFaults = Mapping[str, Fault]


class Gone(Exception):
    """The client closed its connection."""


class Delivery:
    """Outputs on their way from the engine's step to one request's handler."""

    def __init__(self, *, every_step: bool) -> None:
        self._every_step = every_step
        self._outputs: list[Output] = []
        self._ready = asyncio.Event()
        self.gone = False

    def __call__(self, output: Output) -> None:
        self._outputs.append(output)
        if self._every_step or output.finish:
            self._ready.set()

    def client_gone(self) -> None:
        self.gone = True
        self._ready.set()

    async def outputs(self) -> AsyncIterator[Output]:
        """Outputs until the request finishes. Raises Gone when the client does."""
        while True:
            await self._ready.wait()
            self._ready.clear()
            outputs, self._outputs = self._outputs, []
            for output in outputs:
                yield output
                if output.finish:
                    return
            if self.gone:
                raise Gone


class ChatEndpoint:
    """Counts generation requests and answers them; `after_request` is told each one's number."""

    def __init__(
        self,
        configuration: Configuration,
        engine: Engine,
        faults: Faults,
        fingerprint: str,
        after_request: Callable[[int], None],
    ) -> None:
        self._configuration = configuration
        self._engine = engine
        self._faults = faults
        self._fingerprint = fingerprint
        self._after_request = after_request
        self.received = 0
        self.in_flight = 0

    async def __call__(self, request: Request) -> ASGIApp:
        """Starlette endpoint."""
        arrived = time.monotonic()
        self.received += 1
        number = self.received
        faults = self._faults.of_request(number)
        try:
            body = chat_request.parse(
                await request.body(), request.headers.get("content-type", ""), self._configuration.release
            )
            _refuse_on_demand(faults)
            accepted = chat_request.accept(body, self._configuration)
        except RequestError as error:
            if error.status == 404:
                fields = error.body["error"]
                source = wording.of(self._configuration.release).source["model-error"]
                log.api("ERROR", source, "Error with model error=ErrorInfo("
                        + ", ".join(f"{name}={value!r}" for name, value in fields.items()) + ")")  # fmt: skip
            return json_response(error.body, error.status)
        self._after_request(number)
        exchange = Exchange(self, accepted, faults, arrived)
        answer = EventStream(exchange) if body.stream else await exchange.plain(request.receive)
        drip = faults.get("slow-drip")
        return Dripping(answer, drip["bytes"], drip["seconds"]) if drip else answer

    def reply(self, accepted: AcceptedRequest, sequence: Sequence, faults: RequestFaults) -> Reply:
        """The reply under construction for one request."""
        values = self._configuration.values
        model = self._configuration.served_model_names[0] if accepted.body.model is None else accepted.body.model
        if "wrong-model" in faults:
            model = faults["wrong-model"]["model"]
        return Reply(
            accepted,
            sequence,
            model,
            self._fingerprint,
            completion_details=not is_first(self._configuration.release),
            prompt_details=values["enable_prompt_tokens_details"],
            per_request_metrics=values["enable_per_request_metrics"],
        )

    def submit(
        self, accepted: AcceptedRequest, faults: RequestFaults, arrived: float, *, every_step: bool
    ) -> tuple[Sequence, Delivery]:
        """Hand a request to the engine."""
        other = faults.get("different-text")
        continuation = Continuation(
            accepted.prompt,
            accepted.last_user_message,
            variant="another text" if other else "",
            variant_from=other["token"] if other else 0,
        )
        body = accepted.body
        sequence = Sequence(
            accepted.prompt,
            continuation,
            accepted.max_tokens,
            arrived,
            min_tokens=body.min_tokens,
            ignore_eos=body.ignore_eos,
            stop_token_ids=frozenset(body.stop_token_ids or ()),
            holding=Holding(salt=zlib.crc32(body.cache_salt.encode()) if body.cache_salt else 0),
        )
        delivery = Delivery(every_step=every_step)
        if "stall" not in faults:
            self._engine.submit(sequence, delivery)
        return sequence, delivery

    def abort(self, sequence: Sequence) -> None:
        self._engine.abort(sequence)

    @property
    def stream_interval(self) -> int:
        return int(self._configuration.values["stream_interval"])

    @property
    def usage_forced(self) -> bool:
        return bool(self._configuration.values["enable_force_include_usage"])


class Exchange:
    """One valid request and its answer."""

    def __init__(
        self, endpoint: ChatEndpoint, accepted: AcceptedRequest, faults: RequestFaults, arrived: float
    ) -> None:
        self._endpoint = endpoint
        self._accepted = accepted
        self._faults = faults
        self._arrived = arrived

    def _limit(self, kind: str) -> int | None:
        fault = self._faults.get(kind)
        return fault["after_tokens"] if fault else None

    def _cut_inside(self) -> str | None:
        """Where ``truncated-chunk`` cuts this reply: "chunk", "json", or nowhere."""
        fault = self._faults.get("truncated-chunk")
        return fault["inside"] if fault else None

    async def plain(self, receive: Receive) -> Response:
        """The reply in one body."""
        limited = any(kind in self._faults for kind in ("death-mid-stream", "in-band-error"))
        sequence, delivery = self._start(every_step=limited)
        tokens: list[int] = []
        async with _watched(receive, delivery, lambda: self._endpoint.abort(sequence), self._endpoint):
            try:
                async for output in delivery.outputs():
                    tokens = sequence.output
                    self._die_if_due(len(tokens))
                    if _reached(self._limit("in-band-error"), len(tokens)):
                        self._endpoint.abort(sequence)
                        error = RequestError("Internal server error", status=500)
                        return json_response(error.body, 500)
                    del output
            except Gone:
                return Response(status_code=499)
        if "empty" in self._faults:
            tokens = []
        content = dumps(self._endpoint.reply(self._accepted, sequence, self._faults).plain(tokens))
        if "malformed-json" in self._faults:
            content = content[: len(content) // 2] + b"}"
        if "truncated-stream" in self._faults:
            return ShortBody(content)
        if self._cut_inside() == "chunk":
            return CutChunk(content)
        if self._cut_inside() == "json":
            content = content[: len(content) // 2]
        return Response(content, media_type="application/json", headers=VARY)

    async def stream(self, receive: Receive) -> AsyncIterator[bytes | Cut]:
        """The reply as events; after a Cut there is nothing more."""
        options = self._accepted.body.stream_options
        usage = self._endpoint.usage_forced or bool(options and options.include_usage)
        continuous = bool(usage and options and options.continuous_usage_stats)
        sequence, delivery = self._start(every_step=True)
        reply = self._endpoint.reply(self._accepted, sequence, self._faults)
        pending: list[int] = []
        generated = sent = 0
        async with _watched(receive, delivery, lambda: self._endpoint.abort(sequence), self._endpoint):
            async for output in delivery.outputs():
                tokens = [] if "empty" in self._faults else output.tokens
                first = generated == 0
                generated += len(tokens)
                pending += tokens
                self._die_if_due(generated)
                if _reached(self._limit("in-band-error"), generated):
                    self._endpoint.abort(sequence)
                    yield event(RequestError("Internal server error", status=500).body) + DONE
                    return
                if _reached(self._limit("truncated-stream"), generated):
                    self._endpoint.abort(sequence)
                    return
                last = output.finish is not None
                if not (first or last) and len(pending) < self._endpoint.stream_interval:
                    continue
                if "empty" in self._faults and not last:
                    continue
                events = b""
                if sent == 0:
                    events = event(reply.role_chunk(usage=continuous))
                events += event(reply.chunk(pending, generated, last=last, usage=continuous, fingerprint=not usage))
                sent += 1
                pending = []
                if last:
                    events += (event(reply.usage_chunk(generated)) if usage else b"") + DONE
                if _reached(self._limit("truncated-chunk"), generated):
                    self._endpoint.abort(sequence)
                    yield Cut(events, in_chunk=self._cut_inside() == "chunk")
                    return
                if "malformed-json" in self._faults:
                    events = events.replace(b'"}', b'"')
                yield events

    def _start(self, *, every_step: bool) -> tuple[Sequence, Delivery]:
        return self._endpoint.submit(self._accepted, self._faults, self._arrived, every_step=every_step)

    def _die_if_due(self, generated: int) -> None:
        if _reached(self._limit("death-mid-stream"), generated):
            os._exit(1)


class EventStream(Response):
    """A streamed answer; the head goes out at once, before the first token."""

    media_type = "text/event-stream"
    charset = "utf-8"

    def __init__(self, exchange: Exchange) -> None:
        super().__init__(headers=VARY)
        del self.headers["content-length"]
        self._exchange = exchange

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        events = self._exchange.stream(receive)
        with contextlib.suppress(Gone):
            async for events_of_step in events:
                if isinstance(events_of_step, Cut):
                    await events_of_step.send(scope, send)
                    return
                # One HTTP chunk an event; those of one step leave in one write.
                for single in events_of_step.split(b"\n\n")[:-1]:
                    await send({"type": "http.response.body", "body": single + b"\n\n", "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})


@dataclass(frozen=True, slots=True)
class Cut:
    """The last events of a stream, of which half are sent: inside a chunk of the transfer coding, or in order."""

    events: bytes
    in_chunk: bool

    async def send(self, scope: Scope, send: Send) -> None:
        if self.in_chunk:
            cut_in_chunk(scope, self.events)
            return
        # In the middle of the first event's JSON: half of several events might end where one does.
        half = self.events[: self.events.index(b"\n\n") // 2]
        await send({"type": "http.response.body", "body": half, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class CutChunk(Response):
    """A plain body in the chunked coding, whose connection closes inside the only chunk."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content, media_type="application/json", headers=VARY)
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        cut_in_chunk(scope, bytes(self.body))


class ShortBody(Response):
    """A body cut in half under the content length of the whole; uvicorn then closes the connection."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content, media_type="application/json", headers=VARY)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        half = bytes(self.body)[: len(self.body) // 2]
        await send({"type": "http.response.body", "body": half, "more_body": True})


def json_response(body: object, status: int = 200) -> Response:
    """A JSON body with the headers that vLLM sends."""
    return Response(dumps(body), status, media_type="application/json", headers=VARY)


_REFUSALS = {
    429: "Too many requests.",
    500: "Internal server error",
    503: "The engine is currently busy and cannot accept new requests. Please try again later or on a different "
    "instance.",
}
"""500 and 503 are vLLM's words (entrypoints/generate/base/serving.py; 0.33.0's exceptions.py), 429 is nobody's."""


def _refuse_on_demand(faults: RequestFaults) -> None:
    if "http-error" in faults:
        status = faults["http-error"]["status"]
        raise RequestError(_REFUSALS.get(status, f"Fault on demand: HTTP {status}."), status=status)


def _reached(limit: int | None, generated: int) -> bool:
    return limit is not None and generated >= limit


@contextlib.asynccontextmanager
async def _watched(
    receive: Receive, delivery: Delivery, abort: Callable[[], None], endpoint: ChatEndpoint
) -> AsyncIterator[None]:
    """While the body runs, a disconnect aborts the request and wakes its handler."""

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        abort()
        delivery.client_gone()

    endpoint.in_flight += 1
    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        endpoint.in_flight -= 1
        watching.cancel()
