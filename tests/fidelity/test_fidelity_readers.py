"""The readers, over every recording and over the embedded engine: the same tests, and everything is read."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import readers_sources as fr
from fidelity_readers import rows
from prometheus_client.parser import text_string_to_metric_families
from readers_sources import RECORDINGS, UNREAD, Source

from runner.engine import metrics
from runner.engine.chat import read_reply
from runner.engine.evidence import ABSENT, InForce, judge
from runner.engine.exposition import Exposition, delta, parse
from runner.engine.facts import log_facts, token_counts
from runner.engine.features import features
from runner.engine.log import Speculative, read_log
from runner.engine.log_line import LineKind, read_line, survey, whole_lines
from runner.engine.recording import read_recording
from runner.engine.server_info import read_server_info
from runner.engine.stream import events, read_stream
from runner.engine.verdict import Verdict

Make = Callable[[], Source]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "source" in metafunc.fixturenames:
        own = metafunc.config.getoption("--recordings")
        needed = getattr(metafunc.function, "needed", ())
        # What was not recorded of a process is no test of it; a user's own recording is told what it lacks.
        made: list[tuple[str, Make]] = [
            (one.name, partial(_same, one)) for one in fr.recorded() if all(getattr(one, name) for name in needed)
        ]
        made += [(fr.embedded_name(*which), partial(fr.embedded, *which)) for which in fr.EMBEDDED]
        made += [(f"own/{one.name}", partial(_same, one)) for one in (users(Path(own)) if own else ())]
        metafunc.parametrize("source", [make for _, make in made], ids=[name for name, _ in made], indirect=True)


def needs(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Which artefacts of a source a test reads."""

    def mark(test: Callable[..., None]) -> Callable[..., None]:
        test.needed = names  # type: ignore[attr-defined]  # an attribute of the function, read when tests are made
        return test

    return mark


def _same(source: Source) -> Source:
    return source


@cache
def users(root: Path) -> tuple[Source, ...]:
    """A user's folders: each that has a command.json."""
    found = tuple(fr.folder_source(path.parent, root) for path in sorted(root.rglob("command.json")))
    assert found, f"{root}: no folder with a command.json in it (docs/recordings.md)"
    return found


@pytest.fixture
def source(request: pytest.FixtureRequest) -> Source:
    make: Make = request.param
    return make()


def log_lines(source: Source) -> list[str]:
    if source.log is None:
        pytest.skip("no log was recorded of this process")
    lines, cut = whole_lines(source.log)
    assert not cut
    return lines


# ------------------------------------------------------------------------------------------------------
# Every file has a reader, or a reason


def test_every_recorded_file_is_read_or_has_a_reason() -> None:
    files = {path for path in RECORDINGS.rglob("*") if path.is_file()}
    read = set().union(*(source.used for source in fr.recorded()))
    matched = {pattern: {path for path in files if fnmatch.fnmatch(f"/{path.relative_to(RECORDINGS)}", f"*{pattern}")}
               for pattern in UNREAD}  # fmt: skip
    unread = set().union(*matched.values())
    assert sorted(map(str, files - read - unread)) == [], "neither read by a source nor on the list of unread files"
    assert read & unread == set()
    assert [pattern for pattern, paths in matched.items() if not paths] == []
    elsewhere = {path for path in unread if path.suffix == ".jinja" or path.parent.name == "crashes"}
    nothing = [path for path in unread - elsewhere if read_recording(path.read_bytes()) is not None]
    assert nothing == [], "a reader knows this file, and the list says that none does"


def test_every_kind_of_artefact_is_there_on_both_sides() -> None:
    for sources in (fr.recorded(), [fr.embedded(*which) for which in fr.EMBEDDED]):
        for kind in ("log", "windows", "replies", "streams", "models", "said_version", "server_info"):
            assert any(getattr(source, kind) for source in sources), kind


# ------------------------------------------------------------------------------------------------------
# Logs


@needs("log")
def test_every_line_of_a_log_is_somebodys(source: Source) -> None:
    lines = log_lines(source)
    found = survey(lines)
    assert found.total == len(lines) == sum(found.kinds.values()) > 20
    assert (found.foreign, found.cut) == ((), ())
    # an independent count: vLLM's time stamp and file stand in every line of its logger, and nowhere else
    stamped = sum(" [" in line and "] " in line + " " and _dated(line) for line in lines)
    assert found.kinds[LineKind.LOGGER] == stamped
    assert found.kinds[LineKind.SERVER] == sum("INFO:     " in line for line in lines)


def _dated(line: str) -> bool:
    words = line.partition("] ")[0].split()
    return any(word in ("INFO", "WARNING", "ERROR", "DEBUG") and len(words) > at + 1 and words[at + 1][2:3] == "-"
               for at, word in enumerate(words))  # fmt: skip


@needs("log")
def test_a_log_says_what_the_command_asked(source: Source) -> None:
    log = read_log(log_lines(source))
    assert log.version == source.version
    assert log.speculative == (Speculative("ngram", None, source.args["spec_tokens"]) if source.on else None)
    assert log.speculative_off is not source.on
    assert log.async_scheduling == source.asynchronous
    assert log.model_runner == source.runner
    assert log.non_default_args is not None and log.engine_config is not None
    assert log.non_default_args["max_num_seqs"] == source.args["max_num_seqs"]
    assert log.startup_complete is source.finished
    assert (log.errors, log.more_errors, log.cut_lines) == ((), 0, 0)
    found = features(log)
    without_effect = ("min_p", "logit_bias") if source.on and source.runner == "V1" else ()
    assert found["unsupported-sampling"].value == (without_effect if source.finished else None)
    assert found["max-num-batched-tokens"].value == source.batched


@needs("log")
def test_what_a_build_cannot_print_is_absent_and_no_zero(source: Source) -> None:
    """The table of source and field: the absent ones are known from the build, the release and the command."""
    facts = log_facts(read_log(log_lines(source)))
    assert {fact.name for fact in facts if fact.value is ABSENT} == source.absent()
    for fact in facts:
        if fact.value is ABSENT:
            assert fact.quote is None, fact
        else:
            assert fact.value not in (None, 0, 0.0, False, "", (), {}), fact


# shown by the configuration line, by a log line or (with a scrape) by a label of cache_config_info
SHOWN = {"max_model_len", "enforce_eager", "served_model_name", "spec_method", "spec_tokens", "async_scheduling"}
LABELS = {"gpu_memory_utilization", "kv_cache_memory_bytes"}


def expected_verdict(source: Source, name: str, value: Any, *, scraped: bool) -> InForce:
    if (name, value) == ("port", 8000):
        return InForce.UNKNOWN  # its default: vLLM does not print it
    if name in SHOWN or (name in LABELS and scraped):
        return InForce.IN_FORCE
    if name == "max_num_batched_tokens" and "max_num_batched_tokens" not in source.absent():
        return InForce.IN_FORCE
    return InForce.PARSED


@needs("log")
def test_every_option_of_the_command_is_in_force_or_parsed(source: Source) -> None:
    log = read_log(log_lines(source))
    scrape = parse(next(iter(source.scrapes.values()))) if source.scrapes else None
    for exposition in {None, scrape and "scrape"}:
        found = judge(source.args, log, scrape if exposition else None)
        expected = {name: expected_verdict(source, name, value, scraped=exposition is not None)
                    for name, value in source.args.items()}  # fmt: skip
        assert {one.name: one.verdict for one in found} == expected


@needs("log")
def test_no_other_option_is_in_force(source: Source) -> None:
    log = read_log(log_lines(source))
    for name, value in source.args.items():
        changed = (not value) if isinstance(value, bool) else value + 1 if type(value) in (int, float) else f"{value}x"
        found, *_ = judge({name: changed}, log, None)
        assert found.verdict not in (InForce.IN_FORCE, InForce.PARSED), found
        default = name == "port" and value in (0, 8000)
        assert default or found.verdict is InForce.DIFFERS, found
    if not source.on:
        asked = judge({"spec_method": "ngram", "spec_tokens": 5}, log, None)
        assert [one.verdict for one in asked] == [InForce.MISSING, InForce.MISSING]


# ------------------------------------------------------------------------------------------------------
# Scrapes


def scrapes_of(source: Source) -> dict[str, Exposition]:
    if not source.scrapes:
        pytest.skip("no scrape was recorded of this process")
    return {name: parse(text) for name, text in source.scrapes.items()}


@needs("scrapes")
def test_every_sample_of_a_scrape_is_read(source: Source) -> None:
    for name, scrape in scrapes_of(source).items():
        text = source.scrapes[name]
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        assert len(scrape.series) == len(samples) == sum(line[:1] not in ("", "#") for line in text.split("\n"))
        assert sum(scrape.series.values()) == pytest.approx(sum(sample.value for sample in samples), nan_ok=True)
        assert scrape.label_values(metrics.RUNNING, metrics.MODEL_LABEL) == {source.model}
        strangers = {key[0] for key in scrape.series if metrics.stranger(key[0])}
        assert strangers == set(), "known neither as read nor as unread: runner/engine/metrics.py"


@needs("scrapes")
def test_every_name_that_is_read_is_there_and_speculation_only_when_on(source: Source) -> None:
    names = {name for name in vars(metrics).values() if isinstance(name, str) and name.startswith("vllm:")} - {"vllm:"}
    for scrape in scrapes_of(source).values():
        there = {name for name in names if scrape.total(name) is not None}
        assert there == {name for name in names if source.on or not name.startswith("vllm:spec_decode")}


@needs("windows")
def test_a_window_counts_the_requests_that_were_sent(source: Source) -> None:
    if not source.windows:
        pytest.skip("no pair of scrapes was recorded of this process")
    for window in source.windows:
        before, after = parse(window.before), parse(window.after)
        for known, name in ((window.requests, metrics.REQUEST_SUCCESS), (window.tokens, metrics.GENERATION_TOKENS)):
            found = delta(before, after, name).value
            assert found is not None and found > 0
            assert known is None or found == known, (window.name, name)
        assert delta(before, after, metrics.E2E_COUNT).value == delta(before, after, metrics.REQUEST_SUCCESS).value
        assert delta(after, before, metrics.REQUEST_SUCCESS).reason == "reset"
        drafts = [delta(before, after, name) for name in (metrics.SPEC_DRAFTS, metrics.SPEC_DRAFT_TOKENS)]
        if source.on:
            assert all(one.value is not None for one in drafts)
        else:
            assert [(one.value, one.reason) for one in drafts] == [(None, "absent")] * 2


# ------------------------------------------------------------------------------------------------------
# Replies and streams


@needs("replies")
def test_every_reply_is_read_and_its_tokens_agree(source: Source) -> None:
    if not source.replies:
        pytest.skip("no plain reply was recorded of this process")
    for name, status, body in source.replies:
        reply = read_reply(status, "application/json", body, model=source.model)
        if status != 200:
            assert reply.verdict is Verdict.HTTP_ERROR, name
            error = json.loads(body) if body.startswith(b"{") else body.decode()
            words = error["error"]["message"] if isinstance(error, dict) and "error" in error else "Not Found"
            assert " ".join(words.split()) in reply.detail
            continue
        document = json.loads(body)
        assert (reply.verdict, reply.detail) == (Verdict.OK, ""), name
        assert reply.text == document["choices"][0]["message"]["content"]
        assert reply.usage is not None
        assert token_counts(reply) == {document["usage"]["completion_tokens"]}
        ids = document["choices"][0].get("token_ids")
        assert reply.token_ids == (None if ids is None else tuple(ids))
        if name == "whole":
            assert token_counts(reply) == {fr.TOKENS} and reply.token_ids is not None


@needs("streams")
def test_every_event_of_a_stream_is_consumed_and_every_token_counted(source: Source) -> None:
    if not source.streams:
        pytest.skip("no stream was recorded of this process")
    for stream in source.streams:
        body = b"".join(data for _, data in stream.chunks)
        reply = read_stream(200, "text/event-stream", stream.chunks, ended=True, model=source.model)
        assert (reply.verdict, reply.detail) == (Verdict.OK, ""), stream.name
        found = list(events(body))
        # independent: events stand between empty lines
        assert [event.data for event in found] == [part[6:] for part in body.split(b"\n\n") if part]
        assert found[-1].data == b"[DONE]" and all(event.closed for event in found)
        chunks = [json.loads(event.data) for event in found[:-1]]
        said = [chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks if chunk["choices"]]
        assert reply.text == "".join(said)
        assert reply.usage is not None and reply.usage.completion is not None
        assert token_counts(reply) == {reply.usage.completion}
        ids = [token for chunk in chunks for choice in chunk["choices"] for token in choice.get("token_ids") or ()]
        assert (reply.token_ids is not None) is stream.counted
        assert ids == list(reply.token_ids or ())
        assert (reply.events_tokens is not None) is stream.counted
        if stream.running:
            totals = [chunk["usage"]["completion_tokens"] for chunk in chunks]
            assert totals == sorted(totals) and totals[-1] == len(ids) == fr.TOKENS
            steps = [
                len(choice["token_ids"]) for chunk in chunks for choice in chunk["choices"] if choice.get("token_ids")
            ]
            assert list(reply.events_tokens or ()) == steps


# ------------------------------------------------------------------------------------------------------
# What a server says of itself


@needs("models", "said_version")
def test_a_server_names_its_model_and_its_version(source: Source) -> None:
    if source.models is None or source.said_version is None:
        pytest.skip("neither was recorded of this process")
    models, version = read_recording(source.models), read_recording(source.said_version)
    assert models is not None and [fact.value for fact in models.facts] == [source.model]
    assert version is not None and [fact.value for fact in version.facts] == [source.version]


@needs("server_info")
def test_a_server_info_says_what_the_command_asked(source: Source) -> None:
    if source.server_info is None:
        pytest.skip("no server info was recorded of this process")
    info = read_server_info(source.server_info)
    assert info.version == source.version
    assert info.speculative == (Speculative("ngram", "ngram", source.args["spec_tokens"]) if source.on else None)
    assert info.speculative_off is not source.on
    assert (info.max_num_seqs, info.max_num_batched_tokens) == (source.args["max_num_seqs"], source.batched)
    assert info.max_model_len == source.args["max_model_len"]
    assert (info.enforce_eager, info.prefix_caching) == (True, True)
    assert info.block_size is not None and info.kv_cache_tokens is not None
    # a CPU build turns it off, and its API server knows that by the time it is asked
    off = (
        source.device == "CPU" or (source.on and source.runner == "V1") or source.args.get("async_scheduling") is False
    )
    assert info.async_scheduling == ("disabled" if off else "enabled")
    assert info.forced_runner == ("V1" if source.env.get("VLLM_USE_V2_MODEL_RUNNER") == "0" else None)


# ------------------------------------------------------------------------------------------------------
# Any file of these, as a user would give it


def test_a_saved_file_is_known_by_its_content(source: Source) -> None:
    texts: list[tuple[str, str]] = [("log", source.log)] if source.log else []
    texts += [("scrape", text) for text in source.scrapes.values()]
    texts += [("replies", body.decode()) for _, status, body in source.replies if status == 200 or b'"error"' in body]
    texts += [("streams", b"".join(data for _, data in one.chunks).decode()) for one in source.streams]
    texts += [("server info", source.server_info)] if source.server_info else []
    for kind, text in texts:
        reading = read_recording(text.encode())
        if reading is not None and reading.kind == "answers":
            continue
        assert reading is not None, text[:200]
        assert (reading.kind, reading.faults, reading.notes) == (kind, (), ()), text[:200]


def test_rows_are_deterministic_and_cover_every_recording() -> None:
    first = rows()
    assert first == rows()
    assert {row.recording for row in first} == {source.name for source in fr.recorded()}
    assert all(row.recorded and row.embedded and row.verdict for row in first)


def test_lines_are_told_apart_by_the_engines_process() -> None:
    """A check of this module's own eyes: the recordings hold lines of three processes."""
    seen = {read_line(line).process for source in fr.recorded() for line in (source.log or "").split("\n")}
    assert {"APIServer", "EngineCore", "Worker", ""} <= seen
