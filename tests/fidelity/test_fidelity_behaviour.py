"""Every recorded round replayed by the embedded engine's own scheduler: what moved there, moves by as much."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from fidelity_behaviour import (
    ACCEPTED,
    ARMS,
    CELLS,
    CPU,
    CPU_ARGUMENTS,
    CPU_ARMS,
    FIRST,
    FIRST_CELLS,
    PER_POSITION,
    SECOND,
    STARTS,
    STREAMS,
    Comparison,
    blocks,
    configuration_of,
    cpu_series,
    first_series,
    full_queue_steps,
    one_exchange,
    recorded_switches,
    rows,
    second_series,
    switches,
)
from fidelity_replay import RECORDINGS, Exchange, Replay, bodies, configured, moved, read_json, scrape, streams

from runner.engine.exposition import Exposition

BLOCK = 16
K = 5
# What a comparison must at least contain; a reader that finds nothing would find no difference either.
ALWAYS = {
    "prompt_tokens_total", "prompt_tokens_by_source_total", "generation_tokens_total", "prefix_cache_queries_total",
    "prefix_cache_hits_total", "num_preemptions_total", "request_success_total", "request_prompt_tokens_bucket",
}  # fmt: skip
DRAFTS = {"spec_decode_num_drafts_total", "spec_decode_num_draft_tokens_total", ACCEPTED, PER_POSITION}


def check(comparison: Comparison, names: set[str]) -> None:
    assert comparison.different == {}
    assert comparison.accepted_is_possible, (comparison.further, comparison.cell.further)
    compared = {name for name, _ in comparison.recorded}
    assert names <= compared
    assert compared >= DRAFTS or not DRAFTS & compared


def drafts_named(arm: str) -> set[str]:
    return DRAFTS if arm.startswith("on") else set()


@pytest.mark.parametrize("place", range(len(CELLS) + len(STREAMS)), ids=[*CELLS, *STREAMS])
@pytest.mark.parametrize("arm", ARMS)
def test_second_series_round_by_round(arm: str, place: int) -> None:
    comparison = second_series(arm)[place]
    check(comparison, ALWAYS | drafts_named(arm) | {"inter_token_latency_seconds_count", "iteration_tokens_total_sum"})
    assert comparison.cell.further == {()}  # every last step ends with the recorded end token: nothing is left open
    assert comparison.missing == frozenset()
    assert ("iteration_tokens_total_count" in {name for name, _ in comparison.recorded}) == (comparison.clients == 1)


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("arm", ARMS)
def test_tokens_of_every_step_as_the_streams_showed_them(arm: str, name: str) -> None:
    recorded = streams(f"{SECOND}/{arm}/{name}.jsonl")
    comparison = second_series(arm)[len(CELLS) + list(STREAMS).index(name)]
    assert len(recorded) == {"stream-c1": 3, "stream-c16": 6}[name]
    for request, served in zip(recorded, comparison.cell.requests, strict=False):
        assert tuple(token for step in request for token in step) == one_exchange(arm).output
        assert served.steps == request
    if arm.startswith("on"):
        assert max(len(step) for step in recorded[0]) == 1 + K


@pytest.mark.parametrize("arm", ARMS)
def test_blocks_held_by_one_request_and_at_most(arm: str) -> None:
    recorded, embedded = blocks(arm)
    alone = {held for running, held in recorded if running == 1}
    assert len(alone) >= 4
    assert alone <= {held for running, held in embedded if running == 1}
    for requests in (1, 4, 16):
        most = (max(held for running, held in found if running == requests) for found in (recorded, embedded))
        assert next(most) == next(most)
    # Five blocks of the prompt are shared, so n requests hold 5 + n to 5 + 5n.
    assert all(5 + running <= held <= 5 + 5 * running for running, held in recorded if running)


def test_no_phantom_drafts_in_the_second_series_and_what_they_would_have_shown() -> None:
    exchange = one_exchange("on-a")
    assert len(exchange.prompt) % BLOCK == 12  # twelve tokens to compute: never the one that is padded
    shifted = Exchange((*range(5), *exchange.prompt), exchange.output, exchange.reason)
    for used, phantoms in ((exchange, False), (shifted, True)):
        replay = Replay(configuration_of(f"{SECOND}/on-a"))
        replay.cell([used], 1)
        alone = replay.cell([used] * 4, 1)
        # The lengths differ, so that requests end while others decode.
        shorter = Exchange(used.prompt, used.output[:60], "length")
        beside = replay.cell([used, shorter] * 4, 4)
        drafts = [moved(cell.before, cell.after)["spec_decode_num_drafts_total", ""] for cell in (alone, beside)]
        assert drafts[0] == 4 * 6
        assert (drafts[1] > 8 * 6) == phantoms


@pytest.mark.parametrize("arm", CPU_ARMS)
def test_cpu_series(arm: str) -> None:
    comparison = cpu_series(arm)
    check(
        comparison, ALWAYS | drafts_named(arm) | {"inter_token_latency_seconds_count", "iteration_tokens_total_count"}
    )
    if arm == "off":
        assert comparison.cell.further == {()}


def test_what_the_last_steps_of_the_cpu_series_leave_open() -> None:
    """Three requests end inside a draft whose every known token agreed; the other seven leave nothing open."""
    comparison = cpu_series("on")
    lasts = [served.last for served in comparison.cell.requests]
    assert [len(last.unknown) if last else 0 for last in lasts] == [0, 4, 0, 4, 0, 0, 0, 0, 0, 4]
    for last, served in zip(lasts, comparison.cell.requests, strict=True):
        assert last
        assert last.agreed <= len(served.steps[-1]) <= 1 + last.agreed
        assert last.open == (last.agreed == len(served.steps[-1]))
    assert comparison.embedded[ACCEPTED, ""] == 103
    assert comparison.recorded[ACCEPTED, ""] == 107
    assert comparison.further == (0, 3, 1)  # each agreed once more, and one of them twice
    assert max(map(sum, comparison.cell.further)) == 12
    # Not everything passes for a last step: none agrees at the first place, none twice at the third without the second.
    assert not {(1, 2, 1), (0, 0, 1), (0, 4), (0, 3, 3, 3, 3, 1)} & comparison.cell.further


def test_both_bounds_of_the_last_steps_are_reached_by_models_that_go_on_so() -> None:
    exchanges = bodies(f"{CPU}/on/bodies-c1.jsonl")
    configuration = configured([*CPU_ARGUMENTS, *CPU_ARMS["on"]], {}, "0.32.0", "cpu")
    unknown = [served.last.unknown if served.last else () for served in cpu_series("on").cell.requests]
    agreeing = Replay(configuration).cell(exchanges, 1, past_end=unknown)
    values = moved(agreeing.before, agreeing.after)
    assert values[ACCEPTED, ""] == 103 + 12
    assert values["generation_tokens_total", ""] == 960
    assert agreeing.further == {()}


@pytest.mark.parametrize(("arm", "name", "clients"), FIRST_CELLS)
def test_first_series_by_lengths(arm: str, name: str, clients: int) -> None:
    comparison = first_series(arm, name, clients)
    check(comparison, ALWAYS)
    assert comparison.missing == frozenset()
    assert len(comparison.recorded) > 70


def scraped_pairs() -> list[tuple[Path, Path]]:
    pairs = []
    for before in sorted(RECORDINGS.rglob("*before.prom")):
        pairs.append((before, before.with_name(before.name.replace("before", "after"))))
    return pairs


def sums(before: Exposition, after: Exposition) -> dict[str, float]:
    values = moved(before, after)
    names = (
        "generation_tokens_total",
        "time_to_first_token_seconds_count",
        "inter_token_latency_seconds_count",
        ACCEPTED,
    )
    return {name: values.get((name, ""), 0.0) for name in names}


@pytest.mark.parametrize("pair", scraped_pairs(), ids=lambda pair: pair[0].relative_to(RECORDINGS).as_posix())
def test_steps_and_accepted_drafts_make_up_the_tokens_of_every_recording(pair: tuple[Path, Path]) -> None:
    """First tokens + decode steps + accepted drafts = generated tokens + what was cut: 0 to K a request."""
    before, after = (scrape(place.relative_to(RECORDINGS).as_posix()) for place in pair)
    generated, requests, steps, accepted = sums(before, after).values()
    cut = requests + steps + accepted - generated
    assert requests > 0
    assert 0 <= cut <= K * requests
    if not accepted:
        assert cut == 0
    if "gemma-on" in str(pair[0]):
        assert cut == 2 * requests  # 256 tokens asked for: the last draft reached two beyond
    elif FIRST in pair[0].parts or SECOND in pair[0].parts:
        assert cut == 0


@pytest.mark.parametrize("folder", STARTS)
def test_runner_and_scheduling_are_those_of_the_recorded_start(folder: str) -> None:
    *recorded, said = recorded_switches(folder)
    *embedded, in_force = switches(folder)
    assert embedded == recorded
    built = configuration_of(folder)
    if said is None:
        assert built.version == "0.32.0"  # which no longer says it
    else:
        assert in_force == said
    if folder.startswith(SECOND):
        effective = read_json(f"{folder}/server_info.json")["vllm_config"]["scheduler_config"]
        assert in_force == effective["async_scheduling"]
        assert built.max_num_scheduled_tokens == effective["max_num_batched_tokens"] == 2048


@pytest.mark.parametrize("name", [name for name, clients in CELLS.items() if clients == 32])
@pytest.mark.parametrize("arm", ARMS)
def test_steps_while_a_queue_waits(arm: str, name: str) -> None:
    """One or two steps more than the replay's, whose requests all arrive at once; scheduling ahead, which the embedded
    engine does not imitate, costs about one more in each of the four waves.
    """
    recorded, embedded = full_queue_steps(arm, name)
    assert embedded == 4 * len(one_stream(arm))
    ahead = switches(f"{SECOND}/{arm}")[2]
    assert recorded - embedded in ((4, 5) if ahead else (1, 2))


def one_stream(arm: str) -> list[list[int]]:
    return streams(f"{SECOND}/{arm}/stream-c1.jsonl")[0]


def test_a_difference_is_seen() -> None:
    comparison = second_series("on-a")[0]
    for key in (("spec_decode_num_drafts_total", ""), ("prefix_cache_hits_total", "")):
        wrong = replace(comparison, embedded={**comparison.embedded, key: comparison.embedded[key] + 1})
        assert wrong.different == {key: (comparison.recorded[key], comparison.recorded[key] + 1)}
    key = (PER_POSITION, "position=1")
    wrong = replace(comparison, recorded={**comparison.recorded, key: comparison.recorded[key] + 1})
    assert not wrong.accepted_is_possible


def test_rows_say_equal_but_for_what_is_known() -> None:
    found = rows()
    assert len(found) > 150
    equal = ("equal", "equal, token by token")
    others = {
        row.recording: row.verdict for row in found if row.verdict not in equal and "in four waves" not in row.verdict
    }
    assert others == {f"{CPU}/on": "equal up to the last step of 3 requests: accepted 103 to 115"}
    assert found == rows()
