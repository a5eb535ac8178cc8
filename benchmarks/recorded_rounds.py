"""The measured rounds that the step times are fitted to and judged on: the article's and those in tests/recordings.

Every round becomes a cell: what its clients sent, what the engine was allowed, and what was measured.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from closed_loop import Drafts, Outcome, Request, run, warm_up
from ruamel.yaml import YAML

from runner.simulator import chat_template, drafting
from runner.simulator.kv_cache import BlockPool
from runner.simulator.scheduler import Limits, Scheduler
from runner.simulator.speculation import Speculation
from runner.simulator.step_time import StepTime

ROOT = Path(__file__).parents[1]
RECORDINGS = ROOT / "tests" / "recordings"
ARTICLE = "benchmarks/article_figures.yaml"
ARTICLE_TURNAROUND_SECONDS = 0.002  # assumed: the article gives no time outside of the engine


@dataclass(frozen=True, slots=True)
class Arm:
    """One server's configuration. `step` names its row of the parameter a: runner and scheduling."""

    name: str
    step: str
    limits: Limits
    block_size: int = 16
    blocks: int = 4800

    @property
    def drafts(self) -> bool:
        return self.limits.drafting is not None

    def scheduler(self) -> Scheduler:
        return Scheduler(self.limits, BlockPool(self.blocks, self.block_size, prefix_caching=True))


def _limits(seqs: int, batched_tokens: int, max_model_len: int, drafts: int) -> Limits:
    """Limits of a recorded arm; with `drafts`, method ``ngram`` as all of them ran it: on Model Runner V1."""
    asked = Speculation("ngram", drafts, 5, 5, None) if drafts else None
    return Limits(seqs, batched_tokens, max_model_len, asked and drafting.of(asked, "V1", max_model_len))


@dataclass(frozen=True, slots=True)
class Cell:
    """All rounds of one arm with so many clients.

    `throughputs` (requests a second) and `latencies` (mean seconds of a request, as the client saw it) have one
    entry per round; rounds of which only the throughput is known have none in `latencies`.
    """

    arm: Arm
    clients: int
    requests: Sequence[Request]
    throughputs: tuple[float, ...]
    latencies: tuple[float, ...]

    @property
    def throughput(self) -> float:
        return fmean(self.throughputs)

    @property
    def latency(self) -> float:
        return fmean(self.latencies)

    def play(self, timing: StepTime, turnaround: float) -> Outcome:
        """The same round in virtual time, after one warm-up request as the recorded servers got it."""
        scheduler = self.arm.scheduler()
        warm_up(scheduler, self.requests[0])
        return run(scheduler, self.requests, self.clients, timing, turnaround)


@dataclass(frozen=True, slots=True)
class Series:
    """Cells that belong together. `turnaround` is seconds, `source` where the figures lie."""

    source: str
    cells: Sequence[Cell]
    turnaround: float


def article() -> Series:
    """The published figures, driven by the embedded engine's own words for the article's prompt."""
    figures = YAML(typ="safe").load((ROOT / ARTICLE).read_text("utf-8"))
    prompt = chat_template.render([("user", figures["prompt"])])
    request = Request(prompt, figures["max_tokens"], message=figures["prompt"])
    cells = []
    for name, step, drafts in (("off", "V2 async", 0), ("on", "V1 sync", figures["spec_tokens"])):
        arm = Arm(name, step, _limits(figures["max_num_seqs"], 2048, figures["max_model_len"], drafts))
        cells.append(Cell(arm, 1, (request,), (1 / figures["sequential"][name],), ()))
        requests = (request,) * figures["requests_per_round"]
        cells += [Cell(arm, int(c), requests, (float(x),), ()) for c, x in figures["throughput"][name].items()]
    return Series(ARTICLE, cells, ARTICLE_TURNAROUND_SECONDS)


def h200() -> Series:
    """First series on the H200: the Korean prompt of 73 tokens; the process's first request is left out."""
    folder = RECORDINGS / "h200"
    cells: list[Cell] = []
    for name, step, batched, drafts in (
        ("q3b-off", "V2 async", 8192, 0),
        ("q3b-off-noasync", "V2 sync", 8192, 0),
        ("q3b-on", "V1 sync", 8192, 5),
        ("q3b-on-b16384", "V1 sync", 16384, 5),
    ):
        arm = Arm(name, step, _limits(16, batched, 4096, drafts))
        rounds: dict[int, list[tuple[float, float]]] = {}
        for cell, timed in _json(folder / name / "timings.json").items():
            if found := re.fullmatch(r"c(\d+)-(?:kr|r\d)", cell):
                latency = fmean(request["latency_s"] for request in timed["requests"])
                rounds.setdefault(int(found[1]), []).append((timed["n"] / timed["wall_s"], latency))
        cells += _cells(arm, _h200_request(), rounds, {})
    turnaround = fmean(
        (timed["wall_s"] - _seconds_in_engine(folder / name / "metrics", "c1-kr")) / timed["n"]
        for name in ("q3b-off", "q3b-on")
        for timed in [_json(folder / name / "timings.json")["c1-kr"]]
    )
    return Series("tests/recordings/h200", cells, turnaround)


def h200_b2048() -> Series:
    """Second series on the H200, other prompt; of its processes `b` only the throughputs in the README exist."""
    folder = RECORDINGS / "h200-b2048"
    others = readme_throughputs((folder / "README.md").read_text("utf-8"))
    cells: list[Cell] = []
    for name, process, step, drafts in (
        ("off", "off-a", "V2 async", 0),
        ("on", "on-a", "V1 sync", 5),
        ("off-v1-async", "off-v1-async", "V1 async", 0),
        ("off-v1-noasync", "off-v1-noasync", "V1 sync", 0),
    ):
        arm = Arm(name, step, _limits(16, 2048, 4096, drafts))
        rounds: dict[int, list[tuple[float, float]]] = {}
        for cell, timed in _json(folder / process / "timings.json").items():
            if found := re.fullmatch(r"c(\d+)-r\d", cell):
                latency = fmean(end - start for start, end, *_ in timed["requests"])
                rounds.setdefault(int(found[1]), []).append((len(timed["requests"]) / timed["wall"], latency))
        cells += _cells(arm, _b2048_request(), rounds, others.get(f"{name} b", {}))
    turnaround = fmean(
        (timed["wall"] - _seconds_in_engine(folder / name / "metrics", "c1-r1")) / len(timed["requests"])
        for name in ("off-a", "on-a")
        for timed in [_json(folder / name / "timings.json")["c1-r1"]]
    )
    return Series("tests/recordings/h200-b2048", cells, turnaround)


def cpu(version: str) -> Series:
    """One version's CPU build: V1, and async scheduling off in every arm, whatever the API server says first."""
    folder = RECORDINGS / "cpu" / f"{version}-cpu-tiny"
    cells = []
    outside = []
    for name, step, drafts in (("off", "V1 sync", 0), ("on", "V1 sync", 5)):
        arm = Arm(name, step, _limits(4, 2048, 2048, drafts), block_size=128, blocks=512)
        summary = _json(folder / name / "summary.json")
        requests = _cpu_requests(folder)
        for clients in (1, 4, 8):
            timed = summary[f"c{clients}"]
            sent = requests[: timed["requests"]]
            latency = fmean(request["e2e"] for request in _json(folder / name / f"requests-c{clients}.json"))
            cells.append(Cell(arm, clients, sent, (len(sent) / timed["wall_s"],), (latency,)))
        alone = summary["c1"]
        inside = alone["metrics_delta"]["vllm:e2e_request_latency_seconds_sum"]
        outside.append((alone["wall_s"] - inside) / alone["requests"])
    return Series(f"tests/recordings/cpu/{version}-cpu-tiny", cells, fmean(outside))


def _cells(
    arm: Arm,
    request: Request,
    rounds: Mapping[int, Sequence[tuple[float, float]]],
    others: Mapping[int, Sequence[float]],
) -> Iterator[Cell]:
    for clients, measured in rounds.items():
        throughputs = (*(x for x, _ in measured), *others.get(clients, ()))
        count = 10 if clients == 1 else 64
        yield Cell(arm, clients, (request,) * count, throughputs, tuple(latency for _, latency in measured))


def _json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def _seconds_in_engine(metrics: Path, cell: str) -> float:
    """What a cell added to the sum of vLLM's own end-to-end latencies."""
    sums = []
    for side in ("before", "after"):
        text = (metrics / f"{cell}-{side}.prom").read_text("utf-8")
        (found,) = re.findall(r"^vllm:e2e_request_latency_seconds_sum\{.*\} (\S+)$", text, re.M)
        sums.append(float(found))
    return sums[1] - sums[0]


def readme_throughputs(text: str) -> dict[str, dict[int, list[float]]]:
    """Column name -> concurrency -> requests a second, out of the README's table."""
    table = [
        [entry.strip(" *") for entry in line.strip("|").split("|")] for line in re.findall(r"^\|.*\|$", text, re.M)
    ]
    start = next(index for index, row in enumerate(table) if row[0] == "C")
    columns: dict[str, dict[int, list[float]]] = {}
    for row in table[start + 2 :]:
        for name, entry in zip(table[start][1:], row[1:], strict=True):
            columns.setdefault(name, {})[int(row[0])] = [float(number) for number in entry.split()]
    return columns


def _b2048_body() -> tuple[list[int], list[int]]:
    with (RECORDINGS / "h200-b2048" / "on-a" / "bodies-c1-r1.jsonl").open(encoding="utf-8") as lines:
        body = json.loads(next(lines))
    return body["prompt_token_ids"], body["choices"][0]["token_ids"]


def _b2048_request() -> Request:
    prompt, output = _b2048_body()
    return Request(prompt, len(output), output)


def _h200_request() -> Request:
    """The first series kept texts only. Its output is the second series' text, so those ids are its ids.

    Of the prompt only the length matters and that it holds the sentence once, behind a space, which makes one
    other token of the sentence's first two: that gives the recorded 9 drafts, 45 draft tokens, 34 accepted.
    """
    _, output = _b2048_body()
    line = output.index(output[0], 1)  # the sentence's tokens, its end of line among them
    sentence = output[2 : line - 1]
    before = 73 - len(sentence) - 8
    prompt = [*range(-1000, -1000 + before), *sentence, *range(-2000, -1992)]
    return Request(prompt, len(output), output)


def _cpu_requests(folder: Path) -> list[Request]:
    """The 16 requests of the CPU rounds, in order; the rounds at C=1 sent the first ten.

    Their token ids were not recorded and cannot be had from the texts, in which end tokens (``ignore_eos``) do not
    show. Drafts and steps are known as sums: of the ten at C=1, of all sixteen at C=4. Tokens saved by accepted
    drafts show as chunks missing in the stream (one chunk a step); what is left of the sum is dealt out by the
    number of tokens that no chunk showed. Prompts stand for their length only (blocks of 128: nothing is cached).
    """
    off, on = (_json(folder / arm / "requests-c4.json") for arm in ("off", "on"))
    summary = _json(folder / "on" / "summary.json")
    ten, sixteen = (_counts(summary[cell]) for cell in ("c1", "c4"))
    requests = []
    for first, last, counts in ((0, 10, ten), (10, 16, [y - x for x, y in zip(ten, sixteen, strict=True)])):
        drafts, draft_tokens, saved_tokens = counts
        group = range(first, last)
        seen = [off[index]["chunks"] - on[index]["chunks"] for index in group]
        unseen = [off[index]["completion_tokens"] - off[index]["chunks"] for index in group]
        saved = [x + y for x, y in zip(seen, _deal(saved_tokens - sum(seen), unseen), strict=True)]
        drafted = _deal(drafts, [1 + tokens for tokens in saved])
        sizes = _deal(draft_tokens, drafted)
        for index, *script in zip(group, drafted, sizes, saved, strict=True):
            length, count = off[index]["prompt_tokens"], off[index]["completion_tokens"]
            output = [1000 * index + position for position in range(count)]
            prompt = [-(1000 * index + position) - 2 for position in range(length)]
            requests.append(Request(prompt, count, output, drafts=_drafts(count, *script)))
    return requests


def _counts(cell: Mapping[str, Any]) -> list[int]:
    """Drafts, draft tokens, and tokens that needed no step of their own (one sample per step but the first)."""
    delta = cell["metrics_delta"]
    steps = delta["vllm:inter_token_latency_seconds_count"] + cell["requests"]
    return [
        int(delta["vllm:spec_decode_num_drafts_total"]),
        int(delta["vllm:spec_decode_num_draft_tokens_total"]),
        int(delta["vllm:generation_tokens_total"] - steps),
    ]


def _drafts(count: int, drafts: int, draft_tokens: int, saved: int) -> Drafts:
    """That many drafts spread evenly over a request of `count` tokens that saves `saved` of its steps."""
    decodes = count - saved - 1
    steps = [(0, 0)] * decodes
    sizes = _deal(draft_tokens, [1] * drafts)
    accepted = _deal(saved, [1] * drafts)
    for index in range(drafts):
        steps[index * decodes // drafts] = (sizes[index], accepted[index])
    return Drafts(steps)


def _deal(total: int, shares: Sequence[int]) -> list[int]:
    """Whole numbers in the proportion of `shares` that sum up to `total`."""
    whole = sum(shares)
    edges = [0]
    for share in shares:
        edges.append(edges[-1] + share)
    cuts = [round(total * edge / whole) if whole else 0 for edge in edges]
    return [right - left for left, right in itertools.pairwise(cuts)]
