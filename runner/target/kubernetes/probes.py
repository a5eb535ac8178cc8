"""What an engine that was there answers: asked before it is touched, and again once it is back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import httpx

from runner.access import OPEN, Access, blocking_client
from runner.engine import metrics
from runner.engine.chat import read_reply
from runner.engine.exposition import ExpositionError, MixedModelsError, parse
from runner.engine.served import CHAT_PATH, METRICS_PATH, MODELS_PATH, read_models
from runner.engine.verdict import Verdict

_ASK_SECONDS = 10.0
_ANSWER_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Probed:
    """The names it serves, whether it is idle, and what became of one request; None where that cannot be known.
    `unmet` says what an engine in good order would have answered otherwise, `busy` that it serves others."""

    model: str | None = None
    idle: str | None = None
    request: str | None = None
    unmet: str | None = None
    busy: str | None = None

    @property
    def facts(self) -> Mapping[str, str | None]:
        """By name, for the record. That others use it says nothing of it: whether it would be idle is not known."""
        return {"model": self.model, "idle": self.idle, "one request": self.request}


def probe(url: str, why: Callable[[], str | None] = lambda: None, access: Access = OPEN) -> Probed:
    """Ask the engine at `url` once. `why` says what the way there suffers, where no answer comes. Blocks, never
    raises."""
    with blocking_client(access, timeout=_ASK_SECONDS) as client:
        try:
            listed = client.get(url + MODELS_PATH)
        except httpx.HTTPError as error:
            return Probed(unmet=f"{MODELS_PATH} is not answered: {_words(error, why())}")
        if not listed.is_success:
            return Probed(unmet=f"{MODELS_PATH} is answered with HTTP {listed.status_code}{_refused(listed, access)}")
        models = read_models(listed.content)
        if not models:
            return Probed(unmet=f"{MODELS_PATH} lists no model")
        names = ", ".join(model.id for model in models)
        idle, busy = _idle(client, url)
        if busy is not None:
            return Probed(names, busy=busy)
        request, failed = _request(client, url, models[0].id, why)
        return Probed(names, idle, request, failed)


def _idle(client: httpx.Client, url: str) -> tuple[str | None, str | None]:
    """Whether it is idle, and why it is not. An engine that does not expose the gauges may be either."""
    try:
        exposition = parse(client.get(url + METRICS_PATH).text)
        found = {name: exposition.total(name) for name in (metrics.RUNNING, metrics.WAITING)}
    except (httpx.HTTPError, ExpositionError, MixedModelsError):
        return None, None
    if None in found.values():
        return None, None
    busy = ", ".join(f"{name} is {value:g}" for name, value in found.items() if value)
    return (None, f"it serves others: {busy}") if busy else ("yes", None)


def _request(
    client: httpx.Client, url: str, model: str, why: Callable[[], str | None]
) -> tuple[str | None, str | None]:
    body = {
        "model": model,
        "messages": [{"role": "user", "content": "Are you there?"}],
        "max_tokens": 1,
        "stream": False,
    }
    try:
        answer = client.post(url + CHAT_PATH, json=body, timeout=_ANSWER_SECONDS)
    except httpx.HTTPError as error:
        return None, f"one request is not answered: {_words(error, why())}"
    reply = read_reply(answer.status_code, answer.headers.get("content-type"), answer.content, model=model)
    if reply.verdict is Verdict.OK:
        return "answered", None
    return f"{reply.verdict}", f"one request fails: {reply.verdict}: {reply.detail}"


def _refused(answer: httpx.Response, access: Access) -> str:
    """Why, where that is known, and the way out."""
    if answer.status_code not in (401, 403):
        return ""
    if access.has_token:
        return ": it does not take the token that the site file names (load: bearer-token) for its API key"
    return (
        ": it asks for an API key (--api-key, VLLM_API_KEY), which the runner does not have; name it in the site file, "
        "load: {bearer-token: {env: NAME}}, or start it without one for the time of the run"
    )


def _words(error: httpx.HTTPError, why: str | None) -> str:
    said = str(error) or type(error).__name__
    return said if why is None else f"{said} ({why})"
