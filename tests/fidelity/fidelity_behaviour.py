"""Behaviour against recordings: drafts, tokens, cache, steps and blocks of every recorded round, replayed.

The second series on the H200 and the CPU series with ids are replayed token by token. The first series on the H200 has
texts and counters but no ids, so only what follows from lengths alone is replayed there (`LENGTHS`), with prompts and
outputs of tokens that occur once.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from fidelity_replay import (
    RECORDINGS,
    Cell,
    Exchange,
    Moved,
    Replay,
    bodies,
    configured,
    moved,
    read_json,
    scrape,
    streams,
)
from fidelity_rows import Row

from runner.simulator.configuration import Configuration

SECOND = "h200-b2048"
ARMS = ("off-a", "on-a", "off-v1-async", "off-v1-noasync")
CELLS = {"c1-r1": 1, "c4-r1": 4, "c4-r2": 4, "c16-r1": 16, "c16-r2": 16, "c32-r1": 32, "c32-r2": 32}
STREAMS = {"stream-c1": 1, "stream-c16": 16}
CPU = "cpu/0.32.0-cpu-tiny-ids"
# README of the recording: the arguments of its neighbours.
CPU_ARGUMENTS = [
    "serve",
    "m",
    "--max-model-len",
    "2048",
    "--max-num-seqs",
    "4",
    "--enforce-eager",
    "--kv-cache-memory-bytes",
    "64M",
]
CPU_ARMS = {"off": [], "on": ["--spec-method", "ngram", "--spec-tokens", "5"]}
FIRST = "h200"
# Cells of the first series with scrapes around them: arm, cell, clients.
FIRST_CELLS = [
    *(("q3b-off", cell, int(cell[1:].split("-")[0])) for cell in ("c1-kr", "c4-r1", "c4-r2", "c16-r1", "c16-r2")),
    *(("q3b-off", cell, 32) for cell in ("c32-r1", "c32-r2")),
    ("q3b-off-noasync", "c16-r1", 16),
    ("gemma-off", "c1-kr", 1),
    *(("q3b-on", cell, int(cell[1:].split("-")[0])) for cell in ("c1-kr", "c4-r1", "c4-r2", "c16-r1", "c16-r2")),
    *(("q3b-on", cell, 32) for cell in ("c32-r1", "c32-r2")),
    ("q3b-on-b16384", "c16-r1", 16),
    ("gemma-on", "c1-kr", 1),
]

PER_POSITION = "spec_decode_num_accepted_tokens_per_pos_total"
ACCEPTED = "spec_decode_num_accepted_tokens_total"
# The histogram of what the client asked for: the recordings do not say.
UNRECORDED = ("request_params_max_tokens",)
# How many steps share their requests depends on arrival times, unless there is one request at a time.
SHARED_STEPS = "iteration_tokens_total"
# What needs no token id but only lengths and who shares a prefix with whom.
LENGTHS = (
    "prompt_tokens_total", "prompt_tokens_by_source_total", "prompt_tokens_cached_total", "generation_tokens_total",
    "prefix_cache_queries_total", "prefix_cache_hits_total", "num_preemptions_total", "request_success_total",
    "request_prompt_tokens_", "request_generation_tokens_", "request_max_num_generation_tokens_",
    "request_prefill_kv_computed_tokens_", "request_params_n_", "time_to_first_token_seconds_count",
    "e2e_request_latency_seconds_count", "iteration_tokens_total_sum",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Comparison:
    """One cell: what moved in the recording and in the replay, over the series that both have.

    `missing`: series that the embedded engine lacks; `by_ids`: whether the recording has token ids.
    """

    recording: str
    clients: int
    recorded: Moved
    embedded: Moved
    missing: frozenset[str]
    cell: Cell
    by_ids: bool

    @property
    def different(self) -> dict[tuple[str, str], tuple[float, float]]:
        """Series with (recorded, embedded) that are not equal, accepted drafts aside."""
        return {
            key: (value, self.embedded[key])
            for key, value in self.recorded.items()
            if value != self.embedded[key] and key[0] not in (ACCEPTED, PER_POSITION)
        }

    @property
    def further(self) -> tuple[int, ...]:
        """Accepted drafts per position that the recording has beyond the replay's, without zeros at its end."""
        places = sorted((key for key in self.recorded if key[0] == PER_POSITION), key=lambda key: key[1])
        found = [int(self.recorded[key] - self.embedded[key]) for key in places]
        while found and found[-1] == 0:
            found.pop()
        return tuple(found)

    @property
    def accepted_is_possible(self) -> bool:
        """Whether the recorded accepted drafts are the replay's plus what last steps leave open, by position."""
        total = self.recorded.get((ACCEPTED, ""), 0) - self.embedded.get((ACCEPTED, ""), 0)
        return self.further in self.cell.further and total == sum(self.further)


def _compare(
    recording: str, clients: int, cell: Cell, before: str, after: str, only: tuple[str, ...] = ()
) -> Comparison:
    recorded = moved(scrape(before), scrape(after))
    embedded = moved(cell.before, cell.after)
    left_out = (*UNRECORDED, *(() if clients == 1 else (f"{SHARED_STEPS}_count", f"{SHARED_STEPS}_bucket")))
    taken = {key: value for key, value in recorded.items() if not key[0].startswith(left_out)}
    if only:
        taken = {key: value for key, value in taken.items() if key[0].startswith(only)}
    missing = frozenset(name for name, _ in taken.keys() - embedded.keys())
    both = {key: value for key, value in taken.items() if key in embedded}
    return Comparison(recording, clients, both, {key: embedded[key] for key in both}, missing, cell, not only)


def full_queue_steps(arm: str, name: str) -> tuple[int, int]:
    """Engine steps of a round in which requests always wait, recorded and replayed: nearly free of arrival times."""
    folder = f"{SECOND}/{arm}/metrics"
    (replayed,) = (one.cell for one in second_series(arm) if one.recording.endswith(f": {name}"))
    recorded = moved(scrape(f"{folder}/{name}-before.prom"), scrape(f"{folder}/{name}-after.prom"))
    key = (f"{SHARED_STEPS}_count", "")
    return int(recorded[key]), int(moved(replayed.before, replayed.after)[key])


# Recorded starts whose log and command line are kept: folder, release, profile.
STARTS = {
    **{f"{SECOND}/{arm}": ("0.26.0", "h200") for arm in ARMS},
    **{
        f"{FIRST}/{arm}": ("0.26.0", "h200")
        for arm in ("q3b-off", "q3b-on", "q3b-off-noasync", "q3b-on-b16384", "gemma-off", "gemma-off-2", "gemma-on")
    },
    **{f"cpu/{version}-cpu-tiny/{arm}": (version, "cpu") for version in ("0.26.0", "0.32.0") for arm in CPU_ARMS},
}


@cache
def configuration_of(folder: str) -> Configuration:
    """The embedded engine's configuration for a recorded start."""
    version, imitated = STARTS[folder]
    if imitated == "cpu":
        return configured([*CPU_ARGUMENTS, *CPU_ARMS[folder.rsplit("/", 1)[1]]], {}, version, imitated)
    command = read_json(f"{folder}/command.json")
    return configured((command.get("command") or command["argv"])[1:], command["env"], version, imitated)


@cache
def second_series(arm: str) -> list[Comparison]:
    """The rounds of one arm in the order in which they ran, after the process's first request."""
    folder = f"{SECOND}/{arm}"
    replay = Replay(configuration_of(folder))
    timings = read_json(f"{folder}/timings.json")
    exchange = one_exchange(arm)
    replay.cell([exchange], 1)
    found = []
    for name, clients in {**CELLS, **STREAMS}.items():
        requests = timings[name]["n"] if name in STREAMS else len(timings[name]["requests"])
        cell = replay.cell([exchange] * requests, clients)
        before, after = (f"{folder}/metrics/{name}-{when}.prom" for when in ("before", "after"))
        found.append(_compare(f"{folder}: {name}", clients, cell, before, after))
    return found


def one_exchange(arm: str) -> Exchange:
    """The one exchange of an arm: all bodies that were kept are equal (and all texts were, says the README)."""
    kept = {exchange for name in CELLS for exchange in bodies(f"{SECOND}/{arm}/bodies-{name}.jsonl")}
    (exchange,) = kept
    return exchange


@cache
def cpu_series(arm: str) -> Comparison:
    """Ten different prompts, one after another, each shorter than a block."""
    folder = f"{CPU}/{arm}"
    replay = Replay(configured([*CPU_ARGUMENTS, *CPU_ARMS[arm]], {}, "0.32.0", "cpu"))
    cell = replay.cell(bodies(f"{folder}/bodies-c1.jsonl"), 1)
    return _compare(folder, 1, cell, f"{folder}/metrics-before.prom", f"{folder}/metrics-after.prom")


@cache
def first_series(arm: str, name: str, clients: int) -> Comparison:
    """A round without ids: lengths from `timings.json`, tokens that occur once, so that nothing is ever drafted."""
    folder = f"{FIRST}/{arm}"
    replay = Replay(configuration_of(folder))
    requests = read_json(f"{folder}/timings.json")[name]["requests"]
    (shape,) = {(*request["usage"], request["finish"]) for request in requests}
    prompt, output, reason = shape
    exchange = Exchange(tuple(range(1, prompt + 1)), tuple(range(10_000, 10_000 + output)), reason)
    replay.cell([exchange], 1)
    cell = replay.cell([exchange] * len(requests), clients)
    before, after = (f"{folder}/metrics/{name}-{when}.prom" for when in ("before", "after"))
    return _compare(f"{folder}: {name}", clients, cell, before, after, only=LENGTHS)


# -- rows ----------------------------------------------------------------------------------------------------------

# Subject: series whose changes are shown; commas stand between series, spaces between the children of one.
SUBJECTS = {
    "drafts, draft tokens, accepted, by position": (
        "spec_decode_num_drafts_total",
        "spec_decode_num_draft_tokens_total",
        ACCEPTED,
        PER_POSITION,
    ),
    "prompt tokens, cached and computed, cache queries, hits, preemptions": (
        "prompt_tokens_total",
        "prompt_tokens_by_source_total",
        "prefix_cache_queries_total",
        "prefix_cache_hits_total",
        "num_preemptions_total",
    ),
    "tokens generated, decode steps, ends by length and stop": (
        "generation_tokens_total",
        "inter_token_latency_seconds_count",
        "request_success_total",
    ),
    "engine steps, tokens in them": (f"{SHARED_STEPS}_count", f"{SHARED_STEPS}_sum"),
}
# Children that stay 0 here.
QUIET = ("source=external", "finished_reason=abort", "finished_reason=error", "finished_reason=repetition")


def _rows_of(comparison: Comparison) -> Iterator[Row]:
    recorded = comparison.recorded
    for subject, names in SUBJECTS.items():
        if all(any(key[0] == name for key in recorded) for name in names):
            keys = [key for key in recorded if key[0] in names]
            figures = (_figures(values, names) for values in (recorded, comparison.embedded))
            yield Row(comparison.recording, subject, *figures, _verdict(comparison, keys))
    others = [key for key in recorded if key[0] not in (ACCEPTED, PER_POSITION)]
    moving = sum(1 for key in others if recorded[key])
    words = "all series that do not measure time" if comparison.by_ids else "all series that follow from lengths alone"
    yield Row(
        comparison.recording,
        words,
        f"{len(others)}, {moving} of them moved",
        f"{len(comparison.different)} moved otherwise",
        "differs" if comparison.different else "equal",
    )


def _figures(values: Moved, names: tuple[str, ...]) -> str:
    keys = {name: sorted(key for key in values if key[0] == name and not key[1].startswith(QUIET)) for name in names}
    return ", ".join(" ".join(f"{values[key]:g}" for key in keys[name]) for name in names)


def _verdict(comparison: Comparison, keys: list[tuple[str, str]]) -> str:
    if all(comparison.recorded[key] == comparison.embedded[key] for key in keys):
        return "equal"
    if not set(keys) & comparison.different.keys() and comparison.accepted_is_possible:
        least = comparison.embedded[ACCEPTED, ""]
        most = least + max(map(sum, comparison.cell.further))
        requests = sum(1 for served in comparison.cell.requests if served.last and served.last.unknown)
        return f"equal up to the last step of {requests} requests: accepted {least:g} to {most:g}"
    return "differs"


def _stream_row(arm: str, name: str, comparison: Comparison) -> Row:
    recording = streams(f"{SECOND}/{arm}/{name}.jsonl")
    replayed = [served.steps for served in comparison.cell.requests[: len(recording)]]
    sizes = [{tuple(map(len, steps)) for steps in requests} for requests in (recording, replayed)]
    recorded, embedded = (" / ".join(_runs(steps) for steps in sorted(found)) for found in sizes)
    verdict = "equal, token by token" if recording == replayed else "differs"
    return Row(comparison.recording, f"tokens a step, {len(recording)} streams", recorded, embedded, verdict)


def _runs(sizes: tuple[int, ...]) -> str:
    """``23x1 5x6`` for 23 ones and 5 sixes."""
    runs: list[list[int]] = []
    for size in sizes:
        if runs and runs[-1][1] == size:
            runs[-1][0] += 1
        else:
            runs.append([1, size])
    return " ".join(f"{count}x{size}" for count, size in runs)


def recorded_switches(folder: str) -> tuple[str, str | None, bool | None]:
    """(runner, why not V2, async scheduling in the engine) as the recorded log says it; None where it is silent."""
    log = next((RECORDINGS / folder).glob("s*.log")).read_text("utf-8")
    why = re.search(r"Model Runner V2 (.*); using the V1 model runner instead", log)
    said = re.findall(r"EngineCore.*Asynchronous scheduling is (\w+)\.", log)
    runner = "V2" if "Using V2 Model Runner" in log else "V1"
    return runner, why[1] if why else None, said[-1] == "enabled" if said else None


def switches(folder: str) -> tuple[str, str | None, bool]:
    """The same of the embedded engine's configuration."""
    built = configuration_of(folder)
    unsupported = f"does not yet support {built.runner_fallback}" if built.runner_fallback else None
    return built.runner, unsupported if built.host.triton else "requires Triton", built.async_in_force


def _switches_row(folder: str) -> Row:
    sides = recorded_switches(folder), switches(folder)
    said = 2 if sides[0][2] is None else 3
    equal = sides[0][:said] == sides[1][:said]
    words = {True: "async", False: "not async", None: "async not said"}
    texts = (", ".join(part for part in (one, reason, words[on]) if part) for one, reason, on in sides)
    return Row(folder, "model runner, why not V2, scheduling", *texts, "equal" if equal else "differs")


def _full_queue_row(arm: str, name: str) -> Row:
    recorded, embedded = full_queue_steps(arm, name)
    more = recorded - embedded
    words = f"{more} more in four waves of 16 requests: "
    words += "arrivals, and a slot that is free a step later" if switches(f"{SECOND}/{arm}")[2] else "arrivals"
    return Row(f"{SECOND}/{arm}: {name}", "engine steps, 16 running, 16 waiting", str(recorded), str(embedded), words)


def blocks(arm: str) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """(running requests, KV blocks held) at each moment: as sampled from the recorded engine, and of the replay."""
    folder = f"{SECOND}/{arm}"
    whole = read_json(f"{folder}/server_info.json")["vllm_config"]["cache_config"]["num_gpu_blocks"] - 1
    samples = csv.DictReader((RECORDINGS / folder / "samples.csv").read_text("utf-8").splitlines())
    recorded = {(int(float(sample["running"])), round(float(sample["kv"]) * whole)) for sample in samples}
    return recorded, set().union(*(comparison.cell.gauges for comparison in second_series(arm)))


def _blocks_row(arm: str) -> Row:
    recorded, embedded = blocks(arm)
    most = [
        [max(held for running, held in found if running == n) for n in (1, 4, 16)] for found in (recorded, embedded)
    ]
    texts = [", ".join(map(str, figures)) for figures in most]
    subject = "most KV blocks held by 1, 4, 16 running requests"
    return Row(f"{SECOND}/{arm}", subject, *texts, "equal" if most[0] == most[1] else "differs")


def rows() -> list[Row]:
    """Every recorded round by subject, streams and blocks of its arm, and what each recorded start chose."""
    found: list[Row] = []
    for arm in ARMS:
        for comparison in second_series(arm):
            found += _rows_of(comparison)
        streamed = second_series(arm)[-len(STREAMS) :]
        found += [_stream_row(arm, name, comparison) for name, comparison in zip(STREAMS, streamed, strict=True)]
        found += [_full_queue_row(arm, name) for name in CELLS if CELLS[name] == 32]
        found.append(_blocks_row(arm))
    for arm in CPU_ARMS:
        found += _rows_of(cpu_series(arm))
    found += map(_switches_row, STARTS)
    for arm, name, clients in FIRST_CELLS:
        found += _rows_of(first_series(arm, name, clients))
    return found
