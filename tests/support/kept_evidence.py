"""What a run keeps of each engine, read from the raw files by other means than the runner's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from captured import answers
from finished_run import Finished
from prometheus_client.parser import text_string_to_metric_families

from runner.record.record import Round


def log_of(run: Finished, arm: str) -> str:
    return (run.directory / "artifacts" / f"{arm}-1" / "engine.log").read_text("utf-8", errors="replace")


def moved(run: Finished, round_: Round, name: str) -> float | None:
    """By how much a counter moved between the scrapes around a round; None where the engine does not have it."""
    before, after = series(run, round_, "before"), series(run, round_, "after")
    return after[name] - before[name] if name in after else None


def series(run: Finished, round_: Round, moment: str) -> dict[str, float]:
    """A scrape's sums by name, read by the library from the raw text."""
    text = (run.directory / "artifacts" / f"{round_.arm}-1" / f"{stem(round_)}-{moment}.prom").read_text("utf-8")
    sums: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
    return sums


def bodies(run: Finished, round_: Round) -> Iterator[Any]:
    """The replies of a round as they came, its warm-up's first."""
    if round_.of_role("warm-up"):
        yield from answers(run.directory, f"{round_.arm}-1/{stem(round_)}-warm-up").values()
    yield from answers(run.directory, f"{round_.arm}-1/{stem(round_)}").values()


def stem(round_: Round) -> str:
    return f"{round_.phase}-c{round_.concurrency}-r{round_.number}"


def counted_exactly(run: Finished, tokens: int, speculating: str) -> None:
    """Every counter of every round is what its replies add up to, each of `tokens`; the draft counters move under
    `speculating` alone, by as much for each request as for the one that proved it, and others do not have them."""
    for round_ in run.record.all_rounds():
        window = round_.of_role("warm-up", "excluded", "measured")
        assert window and {one.verdict for one in window} == {"ok"}
        assert moved(run, round_, "vllm:request_success_total") == len(window)
        assert moved(run, round_, "vllm:generation_tokens_total") == tokens * len(window)
        assert sum(body["usage"]["completion_tokens"] for body in bodies(run, round_)) == tokens * len(window)
        drafts = moved(run, round_, "vllm:spec_decode_num_drafts_total")
        if round_.arm != speculating:
            assert drafts is None  # not 0: the engine does not have it
            continue
        [proof] = [engine.proof for engine in run.record.of_arm(speculating)]
        assert proof is not None and proof.drafts and proof.draft_tokens and proof.accepted
        # greedy, one prompt: each request drafts as the proof's did
        assert drafts == len(window) * proof.drafts
        assert moved(run, round_, "vllm:spec_decode_num_draft_tokens_total") == len(window) * proof.draft_tokens
        assert moved(run, round_, "vllm:spec_decode_num_accepted_tokens_total") == len(window) * proof.accepted


def one_text(run: Finished) -> bool:
    """Whether all replies of all conditions are one text, by the raw bodies and by the record."""
    rounds = list(run.record.all_rounds())
    texts = {body["choices"][0]["message"]["content"] for round_ in rounds for body in bodies(run, round_)}
    return len(texts) == 1 == len({one.output_id for round_ in rounds for one in round_.ok})
