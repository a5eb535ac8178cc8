"""One request and what came back, as bytes with stamps. What the bytes mean is read after the round."""

import asyncio
from dataclasses import dataclass, field

import httpx

from runner.access import OPEN, Access, encoded
from runner.engine.verdict import Verdict
from runner.record.clock import RunClock
from runner.tls import trusted

HEADERS = {"content-type": "application/json", "accept-encoding": "identity"}


@dataclass(slots=True)
class Exchange:
    """A request on the wire.

    Stamps are nanoseconds of the run's clock. `ended_ns` is when it was over, however
    it ended. `chunks` are (stamp, bytes) as they came; `transport` is what
    broke, or None when the answer ended in order.
    """

    index: int
    planned_ns: int
    sent_ns: int | None = None
    first_byte_ns: int | None = None
    last_byte_ns: int | None = None
    ended_ns: int | None = None
    status: int | None = None
    content_type: str | None = None
    chunks: list[tuple[int, bytes]] = field(default_factory=list)
    transport: Verdict | None = None
    detail: str = ""

    @property
    def body(self) -> bytes:
        """The whole answer."""
        return b"".join(chunk for _, chunk in self.chunks)


def http_client(connections: int, access: Access = OPEN) -> httpx.AsyncClient:
    """A client for one round. Proxies from the environment are ignored: they would join the measured path."""
    return httpx.AsyncClient(
        limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
        timeout=None,
        headers=encoded(access),
        verify=trusted(),
        trust_env=False,
        http2=False,
    )


async def exchange(
    client: httpx.AsyncClient,
    url: str,
    body: bytes,
    *,
    index: int,
    timeout: float,
    clock: RunClock,
    planned_ns: int,
) -> Exchange:
    """Send one request and keep what comes back. Never raises but CancelledError, whose exchange is lost.

    `timeout`: seconds for the whole exchange.
    """
    done = Exchange(index=index, planned_ns=planned_ns)
    try:
        async with asyncio.timeout(timeout):
            done.sent_ns = clock.now()
            async with client.stream("POST", url, content=body, headers=HEADERS) as response:
                done.first_byte_ns = clock.now()
                done.status = response.status_code
                done.content_type = response.headers.get("content-type")
                async for chunk in response.aiter_raw():
                    done.chunks.append((clock.now(), chunk))
                done.last_byte_ns = clock.now()
    except TimeoutError:
        done.transport, done.detail = Verdict.TIMED_OUT, f"no complete answer within {timeout:g} s"
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        done.transport, done.detail = Verdict.REFUSED, _words(error)
    except httpx.RemoteProtocolError as error:
        cut = done.first_byte_ns is not None and "without sending complete" in str(error)
        done.transport, done.detail = (Verdict.TRUNCATED if cut else Verdict.RESET), _words(error)
    except httpx.HTTPError as error:
        done.transport, done.detail = Verdict.RESET, _words(error)
    done.ended_ns = clock.now()
    return done


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
