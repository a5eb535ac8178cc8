"""Rows of docs/fidelity.md: what each reader reads of each recording, and of the embedded engine that is like it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache

from fidelity_rows import Row
from readers_sources import Source, embedded, recorded

from runner.engine.exposition import Exposition, parse
from runner.engine.facts import log_facts, scrape_facts
from runner.engine.log import read_log
from runner.engine.recording import read_recording
from runner.report.recordings import found_and_absent

# the embedded engine that is like a recording: profile and release
_ALIKE = {"cpu/0.26.0": ("cpu", "0.26.0"), "cpu/0.32.0": ("cpu", "0.32.0"), "h200": ("h200", "0.26.0")}


def alike(source: Source) -> Source | None:
    """The embedded engine with the profile, the release and the arm of a recording; None where its flags differ."""
    kind = next((kind for start, kind in _ALIKE.items() if source.name.startswith(start)), None)
    same = source.finished and not source.env and "async_scheduling" not in source.args
    return embedded(*kind, source.on) if kind and same and "max_num_batched_tokens" not in source.args else None


def rows() -> list[Row]:
    """Recording × reader: what was read, and the same figure of the embedded engine where it is deterministic."""
    return [row for source in recorded() for row in _rows(source, alike(source))]


def _rows(source: Source, like: Source | None) -> Iterator[Row]:
    if source.log is not None:
        own, other = _log_figure(source), None if like is None else _log_figure(like)
        lines = len(source.log.split("\n")) - 1
        yield _row(source, "log", f"{lines} lines; {own}", other, own)
    if source.scrapes:
        own, other = _families(source), None if like is None else _families(like)
        samples = sum(len(_exposition(text).series) for text in source.scrapes.values())
        yield _row(source, "metrics", f"{len(source.scrapes)} scrapes, {samples:,} samples; {own}", other, own)
    for subject, texts in (("reply", _verdicts(source, plain=True)), ("stream", _verdicts(source, plain=False))):
        if texts:
            yield Row(source.name, f"reader: {subject}", texts, "–", "read completely")


def _row(source: Source, subject: str, recorded_figure: str, other: str | None, own: str) -> Row:
    verdict = "read completely" if other is None else "the same" if own == other else "differs"
    return Row(source.name, f"reader: {subject}", recorded_figure, other or "–", verdict)


def _log_figure(source: Source) -> str:
    return found_and_absent(
        [fact for fact in log_facts(read_log((source.log or "").split("\n"))) if fact.name != "error"]
    )


@cache
def _exposition(text: str) -> Exposition:
    return parse(text)


def _families(source: Source) -> str:
    """Families and facts of the last scrape: those of an engine that has served."""
    text = next(reversed(source.scrapes.values())) if "after" not in source.scrapes else source.scrapes["after"]
    scrape = _exposition(text)
    families = {name for name in scrape.types if name.startswith("vllm:") and not name.endswith("_created")}
    return f"{len(families)} vllm families, {found_and_absent(scrape_facts(scrape))}"


def _counted(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"


def _verdicts(source: Source, *, plain: bool) -> str:
    if plain:
        readings = [read_recording(body) for _, status, body in source.replies if status == 200]
        refused = sum(status != 200 for _, status, _ in source.replies)
        tokens = sum(
            json.loads(body)["usage"]["completion_tokens"] for _, status, body in source.replies if status == 200
        )
        count = sum(reading is not None and not reading.faults for reading in readings)
        return (
            f"{tokens:,} tokens in {_counted(count, 'reply', 'replies')}, {_counted(refused, 'refusal', 'refusals')}"
            if source.replies
            else ""
        )
    sums = [read_recording(b"".join(data for _, data in stream.chunks)) for stream in source.streams]
    tokens = sum(r.replies[0].usage.completion or 0 for r in sums if r is not None and r.replies[0].usage)
    events = sum(b"".join(data for _, data in stream.chunks).count(b"data: ") for stream in source.streams)
    return f"{tokens:,} tokens in {events:,} events of {_counted(len(sums), 'stream', 'streams')}" if sums else ""
