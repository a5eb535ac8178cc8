"""A new parameter, prompt or grid needs a line of YAML and no code."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from captured import answers
from conftest import Finished, brief, run_experiment

from runner.record.record import Record

SCALE = 0.02


def brute_force_drafts(prompt: Sequence[int], output: Sequence[int], length: int, window: int = 5) -> tuple[int, int]:
    """Drafts and draft tokens of one request, by the definition and nothing else.

    After each step all tokens so far are known. If the last `window` of them occur ending earlier, the draft is
    what follows the earliest occurrence, up to `length` tokens; the step then yields the draft's right prefix
    and one token more.
    """
    known = [*prompt, output[0]]
    made, drafts, tokens = 1, 0, 0
    while made < len(output):
        draft: list[int] = []
        suffix = known[-window:]
        for begin in range(len(known) - window):
            if known[begin : begin + window] == suffix:
                draft = known[begin + window : begin + window + length]
                break
        if draft:
            drafts += 1
            tokens += len(draft)
        right = 0
        while right < len(draft) and made + right < len(output) and draft[right] == output[made + right]:
            right += 1
        step = output[made : made + right + 1]
        known += step
        made += len(step)
    return drafts, tokens


def with_ids(spec: dict[str, Any]) -> None:
    spec["request"]["return_token_ids"] = True


def counters(record: Record) -> tuple[float, float, int]:
    """Drafts, draft tokens and requests of every round under `on`."""
    from runner.analysis.acceptance import drafting

    rounds = [round_ for engine in record.of_arm("on") for round_ in engine.rounds]
    counted = drafting(rounds)
    assert isinstance(counted.drafts, float) and isinstance(counted.draft_tokens, float)
    return counted.drafts, counted.draft_tokens, sum(len(round_.requests) for round_ in rounds)


def prompt_ids(ended: Finished) -> list[int]:
    """The prompt's tokens, as the engine gave them in its raw answers."""
    [body, *_] = answers(ended.directory, "on-1/load-c2-r1").values()
    ids: list[int] = body["prompt_token_ids"]
    return ids


@pytest.mark.parametrize("length", [3, 5])
def test_drafts_are_what_an_independent_matcher_predicts(tmp_path: Path, length: int) -> None:
    def spec_tokens(spec: dict[str, Any]) -> None:
        spec["conditions"]["on"]["args"]["spec-tokens"] = length

    ended = run_experiment(tmp_path, brief, with_ids, spec_tokens, scale=SCALE)
    assert ended.code == 0, ended.stdout
    [output] = [one for one in ended.record.outputs.values() if one.token_ids and len(one.token_ids) > 1]
    drafts, tokens = brute_force_drafts(prompt_ids(ended), output.token_ids or [], length)
    counted = counters(ended.record)
    assert drafts > 0
    assert counted == (drafts * counted[2], tokens * counted[2], counted[2])
    rows = list(ended.report.split("(`acceptance-positions`)")[1].split("\n\n")[1].splitlines())
    assert len(rows) - 2 == length  # heading and rule


def test_a_prompt_without_repetition_accepts_next_to_nothing(tmp_path: Path) -> None:
    def plain(spec: dict[str, Any]) -> None:
        spec["prompts"] = {"plain": {"messages": [{"role": "user", "content": "Which rivers flow to the north sea?"}]}}
        spec["invariants"].pop("acceptance-constant")

    ended = run_experiment(tmp_path, brief, plain, scale=SCALE)
    # Nothing was drafted: the engine may have ignored the setting, for all that this output can show.
    assert ended.code == 6 and ended.failing() == {"configuration-in-force": "inconclusive"}
    [one, *_] = [c for c in ended.result["cells"] if c["condition"] == "on"]
    rate = one["speculation"]["acceptance_rate"]
    assert rate == {"absent": "no-drafts"} or one["speculation"]["accepted_tokens"] < 0.05 * 8 * 200
    assert one["tokens_per_decode_step"] < 1.05
    assert "nothing was drafted" in ended.report


def slots(count: int, grid: list[int]) -> Any:
    def edit(spec: dict[str, Any]) -> None:
        spec["args"]["max-num-seqs"] = count
        spec["phases"]["load"].update({"concurrency": grid, "requests": 64, "rounds": 1})

    return edit


@pytest.mark.parametrize(("count", "knee"), [(4, 4), (8, 8), (64, None)])
def test_the_knee_is_found(tmp_path: Path, count: int, knee: int | None) -> None:
    # Where no knee is to be found the client must keep up with the engine: fewer at once, and slower ones.
    grid, scale = ([2, 4, 8], 0.12) if knee is None else ([2, 4, 8, 16], 0.04)
    ended = run_experiment(tmp_path, slots(count, grid), scale=scale)
    for condition in ("off", "on"):
        found = ended.result["knee"][condition]
        assert found == (
            {"absent": "knee-not-reached", "highest": 8} if knee is None else {"concurrency": knee, "beyond": knee * 2}
        )
    assert ("(`saturation`)" in ended.report) == (knee is not None)
    if knee is None:
        assert "the knee of `on`: not reached within the grid (highest 8)" in ended.report


def test_a_matrix_expands_into_conditions_with_readable_labels(tmp_path: Path) -> None:
    def matrix(spec: dict[str, Any]) -> None:
        del spec["conditions"]["on"]["args"]["spec-tokens"]
        spec["conditions"]["on"]["matrix"] = {"spec-tokens": [1, 3]}
        spec["phases"]["load"].update({"concurrency": [2], "requests": 8})

    ended = run_experiment(tmp_path, matrix, scale=SCALE)
    assert ended.code == 0, ended.stdout
    labels = ["on, spec-tokens=1", "on, spec-tokens=3"]
    assert [one["condition"] for one in ended.result["comparisons"]] == labels
    assert all(label in ended.report for label in labels)


def test_replicates_alternate_and_each_is_a_fresh_process(tmp_path: Path) -> None:
    def replicated(spec: dict[str, Any]) -> None:
        spec.update({"replicates": 2, "order": "alternated"})
        spec["phases"]["load"].update({"concurrency": [2], "requests": 8, "rounds": 1})

    ended = run_experiment(tmp_path, replicated, scale=SCALE)
    assert ended.code == 0, ended.stdout
    engines = ended.record.engines
    assert [(one.arm, one.replicate) for one in engines] == [("off", 1), ("on", 1), ("on", 2), ("off", 2)]
    assert len({one.ready.engine for one in engines if one.ready is not None}) == 4
    [first, _] = ended.result["cells"]
    assert [(one["replicate"], one["round"]) for one in first["rounds"]] == [(1, 1), (2, 1)]


def test_streaming_records_the_first_token(tmp_path: Path) -> None:
    def streaming(spec: dict[str, Any]) -> None:
        spec["phases"]["load"].update({"stream": True, "concurrency": [2], "requests": 8})

    ended = run_experiment(tmp_path, streaming, scale=SCALE)
    assert ended.code == 0, ended.stdout
    for request in (one for round_ in ended.record.all_rounds() for one in round_.requests):
        assert request.first_byte_ns is not None and request.first_token_ns is not None
        assert request.first_byte_ns <= request.first_token_ns < (request.last_byte_ns or 0)
        assert request.completion_tokens
    assert "TTFT and inter-token latency" not in ended.report.split("## Not checked")[1]
    of_tokens = [line for line in ended.report.splitlines() if line.startswith("| ") and " TTFT " in line]
    assert len(of_tokens) == 2


def test_several_prompts_are_sent_in_turn_and_judged_apart(tmp_path: Path) -> None:
    def two(spec: dict[str, Any]) -> None:
        (tmp_path / "other.txt").write_text(
            "Repeat this sentence two times: Seven grey geese fly over seven green hills.\n"
        )
        spec["prompts"]["other"] = {"file": "other.txt"}
        spec["phases"]["load"].update({"concurrency": [2], "requests": 8})

    ended = run_experiment(tmp_path, two, scale=SCALE)
    assert ended.code == 0, ended.stdout
    [check] = [one for one in ended.result["checks"] if one["check"] == "same-output"]
    assert {one["figures"]["prompt"] for one in check["findings"]} == {"repeat", "other"}
    sent = [one.body_id for one in ended.record.of_arm("on")[0].rounds[0].of_role("warm-up", "measured")]
    assert len(set(sent[::2])) == len(set(sent[1::2])) == 1 and sent[0] != sent[1]
