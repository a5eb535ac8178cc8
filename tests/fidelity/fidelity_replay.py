"""Recorded requests served again by the embedded engine's own scheduler and counters, without clock and HTTP.

The model of a replayed request is its recorded output. What the real model would have said past the end nobody saw,
so it says UNKNOWN there, which equals no draft; how many more drafts it might have confirmed is kept per request.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

from runner.engine import exposition
from runner.engine.exposition import Exposition
from runner.simulator import arguments, configuration, profile, release, serve, statistics
from runner.simulator.configuration import Configuration
from runner.simulator.engine_metrics import EngineMetrics
from runner.simulator.exposition import Page
from runner.simulator.scheduler import Output, Plan, StepResult
from runner.simulator.sequence import Sequence as Request

RECORDINGS = Path(__file__).parents[1] / "recordings"
UNKNOWN = -7
TIMES = "_seconds"  # of these histograms only the count does not depend on the machine


@dataclass(frozen=True, slots=True)
class Exchange:
    """What a client sent and got, in token ids; `reason`: "stop" (the last token is the end token) or "length"."""

    prompt: tuple[int, ...]
    output: tuple[int, ...]
    reason: str


class Recorded:
    """A model that says a recorded output, and past its end nothing that is known."""

    def __init__(self, output: Sequence[int]) -> None:
        self._output = output

    def __getitem__(self, index: int) -> int:
        return self._output[index] if index < len(self._output) else UNKNOWN


@dataclass(frozen=True, slots=True)
class LastStep:
    """Drafts of a request's last step, and how many of them `agreed` with all that is known.

    `open`: the known text ended while every draft agreed, so the rest of them may have been accepted or not; vLLM
    counts that before it cuts the tokens.
    """

    drafts: tuple[int, ...]
    agreed: int
    open: bool

    @property
    def unknown(self) -> tuple[int, ...]:
        """The drafts of which nobody knows whether they were accepted."""
        return self.drafts[self.agreed :] if self.open else ()

    @property
    def possible(self) -> list[tuple[int, ...]]:
        """Every vector of accepted drafts per position that this step can have added beyond the agreed ones."""
        return [(0,) * self.agreed + (1,) * further for further in range(len(self.unknown) + 1)]


@dataclass(slots=True)
class Served:
    """One replayed request: its tokens step by step, and its last step."""

    steps: list[list[int]] = field(default_factory=list)
    last: LastStep | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """One replayed round: scrapes around it, its requests in the order sent, and (running, blocks) after each step."""

    before: Exposition
    after: Exposition
    requests: list[Served]
    gauges: set[tuple[int, int]]

    @property
    def further(self) -> set[tuple[int, ...]]:
        """Every vector of accepted drafts per position, without zeros at its end, that the requests' last steps leave
        open, all together.
        """
        totals: set[tuple[int, ...]] = {()}
        for served in self.requests:
            if served.last:
                totals = {_add(total, one) for total in totals for one in served.last.possible}
        return totals


def _add(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    added = [one + other for one, other in zip_longest(left, right, fillvalue=0)]
    while added and added[-1] == 0:
        added.pop()
    return tuple(added)


class Replay:
    """One engine process: `cell` serves one round of a closed loop after another, as the recorded clients did."""

    def __init__(self, effective: Configuration) -> None:
        self.configuration = effective
        self.scheduler = serve.make_scheduler(effective)
        self._page = Page()
        self._metrics = EngineMetrics(effective, self._page)
        self._scraped = self._scrape()

    def cell(self, exchanges: Sequence[Exchange], clients: int, past_end: Sequence[Sequence[int]] = ()) -> Cell:
        """`clients` clients, each of which sends its next request when it has its reply.

        `past_end`: what the model says of each exchange past its end, where one wants to suppose something.
        """
        before = self._scraped
        served: list[Served] = []
        gauges: set[tuple[int, int]] = set()
        place: dict[Request, Served] = {}

        def send() -> None:
            if len(served) < len(exchanges):
                beyond = past_end[len(served)] if past_end else ()
                request = self._request(exchanges[len(served)], beyond)
                served.append(Served())
                place[request] = served[-1]
                self.scheduler.add(request)

        for _ in range(clients):
            send()
        while self.scheduler.has_work:
            plan = self.scheduler.schedule(0.0)
            held = round(self.scheduler.pool.usage * (self.scheduler.pool.blocks - 1))
            gauges.add((len(self.scheduler.running), held))
            result = self.scheduler.complete(plan, 0.0)
            step = statistics.of_step(self.scheduler, plan, result)
            gauges.add((step.running, round(step.kv_usage * (self.scheduler.pool.blocks - 1))))
            self._metrics.record(step)
            for output, last in _last_steps(plan, result):
                place[output.sequence].steps.append(output.tokens)
                if output.finish:
                    place[output.sequence].last = last
                    send()
        self._scraped = self._scrape()
        return Cell(before, self._scraped, served, gauges)

    def _request(self, exchange: Exchange, beyond: Sequence[int]) -> Request:
        by_length = exchange.reason == "length"
        most = len(exchange.output) if by_length else self.configuration.max_model_len - len(exchange.prompt)
        end = UNKNOWN if by_length else exchange.output[-1]
        model = Recorded([*exchange.output, *beyond])
        return Request(list(exchange.prompt), model, most, 0.0, end=end, ignore_eos=by_length)

    def _scrape(self) -> Exposition:
        return exposition.parse(self._page.render().decode())


def _last_steps(plan: Plan, result: StepResult) -> Iterator[tuple[Output, LastStep]]:
    """Each output with its step's drafts; the results of drafts come in the order of the outputs."""
    results = iter(result.accepted)
    for output in result.outputs:
        drafts = tuple(plan.drafts.get(id(output.sequence), ()))
        agreed = next(results)[1] if drafts else 0
        yield output, LastStep(drafts, agreed, open=agreed + 1 > len(output.tokens))


# -- reading the recordings ----------------------------------------------------------------------------------------


def configured(argv: Sequence[str], environment: Mapping[str, str], version: str, imitated: str) -> Configuration:
    """The embedded engine's configuration for a recorded command line."""
    values = arguments.parse(list(argv), version, print).values
    return configuration.build(values, environment, release.named(version), profile.load(imitated))


def read_json(place: str) -> Any:
    return json.loads((RECORDINGS / place).read_text("utf-8"))


def scrape(place: str) -> Exposition:
    return exposition.parse((RECORDINGS / place).read_text("utf-8"))


def bodies(place: str) -> list[Exchange]:
    """The exchanges of a file of response bodies with token ids."""
    return [_exchange(json.loads(line)) for line in (RECORDINGS / place).read_text("utf-8").splitlines()]


def _exchange(body: Any) -> Exchange:
    (choice,) = body["choices"]
    return Exchange(tuple(body["prompt_token_ids"]), tuple(choice["token_ids"]), choice["finish_reason"])


@cache
def streams(place: str) -> list[list[list[int]]]:
    """Per request of a file of recorded streams: the token ids of each chunk that carries any."""
    found = []
    for line in (RECORDINGS / place).read_text("utf-8").splitlines():
        text = _body("".join(data for _, data in json.loads(line)["reads"]).encode())
        chunks = [json.loads(event[6:]) for event in text.split("\n\n") if event.startswith("data: {")]
        choices = [choice for chunk in chunks for choice in chunk["choices"]]
        found.append([choice["token_ids"] for choice in choices if choice.get("token_ids")])
    return found


def _body(answer: bytes) -> str:
    """The body of an HTTP answer in chunked transfer coding."""
    rest = answer.split(b"\r\n\r\n", 1)[1]
    body = b""
    while rest:
        size, rest = rest.split(b"\r\n", 1)
        body += rest[: int(size, 16)]
        rest = rest[int(size, 16) + 2 :]
    return body.decode()


# -- comparing -----------------------------------------------------------------------------------------------------

Moved = dict[tuple[str, str], float]
"""Change of a series by its name (without ``vllm:``) and its own labels as text."""


def moved(before: Exposition, after: Exposition) -> Moved:
    """Changes of all counters and histograms of ``vllm:`` that do not measure time."""
    found: Moved = {}
    for key, value in after.series.items():
        name, labels = key
        if not name.startswith("vllm:") or not name.endswith(("_total", "_sum", "_count", "_bucket")):
            continue
        if TIMES in name and not name.endswith("_count"):
            continue
        own = ",".join(f"{label}={text}" for label, text in labels if label not in ("engine", "model_name"))
        found[name.removeprefix("vllm:"), own] = value - before.series[key]  # all exist from the start
    return found
