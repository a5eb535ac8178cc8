"""A grid that has 8: slots and KV blocks move the queue and the knee, each with its own signs."""

from pathlib import Path
from typing import Any

from conftest import Finished, run_experiment

from runner.analysis.counters import counter_delta
from runner.engine import metrics

GRID = [1, 4, 8, 16, 32]


def cell(ended: Finished, condition: str, level: int) -> Any:
    [found] = [one for one in ended.result["cells"] if one["condition"] == condition and one["concurrency"] == level]
    return found


def findings(ended: Finished, check: str) -> dict[str, tuple[str, str]]:
    [found] = [one for one in ended.result["checks"] if one["check"] == check]
    return {one["subject"]: (one["judgement"], one["reason"]) for one in found["findings"]}


def moved(ended: Finished, condition: str, name: str) -> float:
    """A counter's change over all rounds of a condition."""
    changes = [counter_delta(round_, name) for engine in ended.record.of_arm(condition) for round_ in engine.rounds]
    assert all(isinstance(change, float) for change in changes)
    return sum(change for change in changes if isinstance(change, float))


SCALE = 0.12
SLOW = 0.2  # a step must be long against the client's own time, else replies and requests are what takes time


def grid(spec: dict[str, Any]) -> None:
    """A few requests where nothing can wait, several waves at the other levels; no speculation."""
    spec["phases"] = {
        "below": {"concurrency": [1, 4], "requests": 6},
        "load": {"concurrency": [8, 16, 32], "requests": 64, "warm-up": {"requests": 1, "counted": True}},
    }
    spec["invariants"] = {"same-output": {}, "queue-only-above": {"argument": "max-num-seqs"}}


def slots(spec: dict[str, Any]) -> None:
    del spec["args"]["max-num-seqs"]
    spec["conditions"] = {"sixteen": {"args": {"max-num-seqs": 16}}, "eight": {"args": {"max-num-seqs": 8}}}


def test_eight_slots_instead_of_sixteen_halve_the_batch_and_move_the_knee(tmp_path: Path) -> None:
    ended = run_experiment(tmp_path, grid, slots, scale=SLOW)
    assert ended.code == 0, ended.stdout
    for condition, bound in (("sixteen", 16), ("eight", 8)):
        found = {level: cell(ended, condition, level) for level in GRID}
        assert {level: one["waiting"]["median"] for level, one in found.items()} == {
            level: max(0, level - bound) for level in GRID
        }
        assert {level: one["running"]["high"] for level, one in found.items()} == {
            level: min(level, bound) for level in GRID
        }
        assert all(found[level]["running"]["median"] == bound for level in GRID if level > bound)
        assert ended.result["knee"][condition] == {"concurrency": bound, "beyond": 2 * bound}
        assert findings(ended, "queue-only-above") | {
            f"{condition} C={level}": ("pass", "queue-above-limit" if level > bound else "queue-none") for level in GRID
        } == findings(ended, "queue-only-above")
        assert moved(ended, condition, metrics.PREEMPTIONS) == 0
    table = [line for line in ended.report.splitlines() if line.startswith("| ") and "capacity |" in line]
    assert {line.split("|")[1].strip() for line in table} == {"sixteen C=32", "eight C=16", "eight C=32"}


def blocks(spec: dict[str, Any]) -> None:
    """A request fills 8 blocks when it is done and 4 when it is admitted; tight: 33 can be handed out."""
    spec["args"].update({"max-num-seqs": 16, "max-model-len": 256, "enable-prefix-caching": False})
    spec["request"]["max_tokens"] = 100
    spec["conditions"] = {"roomy": {}, "tight": {"args": {"num-gpu-blocks-override": 34}}}
    spec["phases"] = {"load": {"concurrency": [8, 16], "requests": 32}}


def test_a_small_kv_cache_queues_below_the_slots_and_preempts(tmp_path: Path) -> None:
    ended = run_experiment(tmp_path, grid, blocks, scale=SCALE)
    assert ended.code == 1, ended.stdout
    assert ended.failing() == {"queue-only-above": "fail"}  # the output is the same in spite of what was thrown out
    for level in (8, 16):
        roomy, tight = cell(ended, "roomy", level), cell(ended, "tight", level)
        assert (roomy["waiting"]["median"], roomy["running"]["high"]) == (0, level)
        assert tight["waiting"]["median"] > 0
        assert tight["running"]["high"] <= 33 // 4  # no more are admitted at once
        assert findings(ended, "queue-only-above")[f"tight C={level}"] == ("fail", "queue-below-limit")
    assert "| tight C=16" in ended.report and "capacity |" in ended.report
    usage = {
        name: max(
            sample.kv_cache_usage or 0
            for engine in ended.record.of_arm(name)
            for round_ in engine.rounds
            for sample in round_.samples
        )
        for name in ("roomy", "tight")
    }
    assert usage["roomy"] < 0.1 and usage["tight"] > 0.9
    assert moved(ended, "roomy", metrics.PREEMPTIONS) == 0
    assert moved(ended, "tight", metrics.PREEMPTIONS) > 0


def test_a_long_prompt_is_computed_each_time_where_nothing_is_cached(tmp_path: Path) -> None:
    words = " ".join(f"{number} grey geese fly over {number + 7} hills." for number in range(60))

    def prompt(spec: dict[str, Any]) -> None:
        spec["args"]["max-num-seqs"] = 8
        spec["prompts"] = {"long": {"messages": [{"role": "user", "content": f"Repeat two times: A goose. {words}"}]}}
        spec["conditions"] = {"cached": {}, "computed": {"args": {"enable-prefix-caching": False}}}
        spec["phases"] = {"load": {"concurrency": [8, 16], "requests": 32}}

    ended = run_experiment(tmp_path, grid, prompt, scale=SCALE / 2)
    assert ended.code == 0, ended.stdout
    [length] = {one.prompt_tokens for round_ in ended.record.all_rounds() for one in round_.requests}
    assert length is not None and length > 500
    requests = 2 * 32
    for condition in ("cached", "computed"):
        computed = moved(ended, condition, "vllm:request_prefill_kv_computed_tokens_sum")
        assert computed == requests * (length if condition == "computed" else length - (length - 1) // 16 * 16)
        assert [cell(ended, condition, level)["waiting"]["median"] > 0 for level in (8, 16)] == [False, True]
    assert moved(ended, "computed", metrics.PREFIX_CACHE_HITS) == 0
