"""The ``http_*`` metrics that vLLM gets from its FastAPI instrumentator, as pure ASGI middleware."""

from __future__ import annotations

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runner.simulator.exposition import Page

EXCLUDED = frozenset({"/metrics", "/health", "/load", "/ping", "/version", "/server_info"})
HIGH_RESOLUTION = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60,
)  # fmt: skip
_SIZE = (
    "Content length of {} by handler. Only value of header is respected. Otherwise ignored. No percentile calculated. "
)


class HttpMetrics:
    """Counts, sizes and durations by handler."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._requests = page.counter(
            "http_requests", "Total number of requests by method, status and handler.",
            ("method", "status", "handler"),
        )  # fmt: skip
        self._request_size = page.summary("http_request_size_bytes", _SIZE.format("incoming requests"), ("handler",))
        self._response_size = page.summary("http_response_size_bytes", _SIZE.format("outgoing responses"), ("handler",))
        self._fine = page.histogram(
            "http_request_duration_highr_seconds",
            "Latency with many buckets but no API specific labels. Made for more accurate percentile calculations. ",
            (),
            HIGH_RESOLUTION,
        )
        self._coarse = page.histogram(
            "http_request_duration_seconds",
            "Latency with only few buckets by handler. Made to be only used if aggregation by handler is important. ",
            ("method", "handler"),
            (0.1, 0.5, 1),
        )

    def observe(self, handler: str, method: str, status: int, sizes: tuple[int, int], seconds: float) -> None:
        """One answered request; `sizes` are the content lengths of request and response (0 if absent)."""
        self._requests.labels(method, f"{status // 100}xx", handler).inc()
        self._request_size.labels(handler).observe(sizes[0])
        self._response_size.labels(handler).observe(sizes[1])
        self._fine.observe(seconds)
        self._coarse.labels(method, handler).observe(seconds)
        for metric in (
            self._requests,
            self._request_size,
            self._response_size,
            self._fine,
            self._coarse,
        ):
            self._page.changed(metric)


class Instrumented:
    """ASGI middleware that observes every request whose path is not excluded.

    `current` gives the metrics of the moment, which may be replaced while the server runs.
    """

    def __init__(self, app: ASGIApp, current: CurrentMetrics, paths: frozenset[str]) -> None:
        self._app = app
        self._current = current
        self._paths = paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in EXCLUDED:
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status, length = 500, 0

        async def counted(message: Message) -> None:
            nonlocal status, length
            if message["type"] == "http.response.start":
                status = message["status"]
                length = _content_length(message.get("headers", ()))
            await send(message)

        try:
            await self._app(scope, receive, counted)
        finally:
            path = scope["path"]
            self._current.http.observe(
                path if path in self._paths else "none",
                scope["method"],
                status,
                (_content_length(scope["headers"]), length),
                time.perf_counter() - started,
            )


class CurrentMetrics:
    """Where the live HTTP metrics are found."""

    http: HttpMetrics


def _content_length(headers: object) -> int:
    assert isinstance(headers, list | tuple)
    for name, value in headers:
        if name == b"content-length":
            return int(value)
    return 0
