"""Recorded logs and scrapes in the forms in which they reach a reader, and forms that nobody should send."""

from __future__ import annotations

import dataclasses
import json
import math
import random
import re
import tracemalloc
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from engine_recorded import CRASHES, LOGS, SCRAPES, text

from runner.engine import exposition as ex
from runner.engine import metrics
from runner.engine.chat import read_reply
from runner.engine.exposition import Exposition, ExpositionError, delta, parse
from runner.engine.log import MAX_ERRORS, LogEvidence, read_log
from runner.engine.log_line import MAX_LINE, LineKind, read_line, survey, whole_lines
from runner.engine.printed import MAX_NESTING, Repr, read_value
from runner.engine.reply import MAX_REPLY
from runner.engine.stream import read_stream
from runner.engine.verdict import Verdict

Dress = Callable[[list[str]], list[str]]


def lines_of(name: str) -> list[str]:
    return whole_lines(text(name))[0]


def each(change: Callable[[str], str]) -> Dress:
    return lambda lines: [change(line) for line in lines]


def bare(line: str) -> str:
    return re.sub(r"^\([^)]* pid=\d+\) ", "", line)


def coloured(line: str) -> str:
    """As on a terminal: prefix, level and time in colours, each ended."""
    line = re.sub(r"^(\([^)]* pid=\d+\)) ", "\x1b[0;36m\\1\x1b[0;0m ", line)
    return re.sub(r"(INFO|WARNING|ERROR) (\d\d-\d\d \S+)", "\x1b[32m\\1\x1b[0m \x1b[90m\\2\x1b[0m", line, count=1)


def as_json(lines: list[str]) -> list[str]:
    """vLLM's own lines through a JSON formatter; what others print stays as it is."""
    out = []
    for raw in lines:
        line = read_line(raw)
        if line.kind is LineKind.LOGGER:
            fields = {"levelname": line.level, "filename": line.file, "vllm_process_name": line.process}
            out.append(json.dumps({**fields, "message": line.message}))
        else:
            out.append(raw)
    return out


def as_docker(lines: list[str]) -> list[str]:
    record = {"stream": "stdout", "time": "2026-11-30T00:00:00.1Z"}
    return [json.dumps({"log": line + "\n", **record}) for line in lines]


def interleaved(lines: list[str]) -> list[str]:
    """Another process writes a traceback between all lines."""
    other = [
        "(Other pid=9) " + words for words in ("Traceback (most recent call last):", '  File "x", line 1', "    f()")
    ]
    return [part for number, line in enumerate(lines) for part in (line, other[number % 2 + 1 if number else 0])]


FORMS: dict[str, Dress] = {
    "colours": each(coloured),
    "crlf": each(lambda line: line.rstrip("\r") + "\r"),
    "no-prefix": each(bare),
    # of 0.33.0: VLLM_LOGGING_PREFIX before the process, and both on the logger's own lines alone
    "0.33-prefix": each(lambda line: f"my-prefix {line}" if read_line(line).kind is LineKind.LOGGER else bare(line)),
    "kubectl-prefix": each(lambda line: f"[pod/vllm-7d4/engine] {line}"),
    "kubectl-timestamps": each(lambda line: f"2026-11-30T00:06:45.123456789Z {line}"),
    "kubectl-both": each(lambda line: f"[pod/vllm-7d4/engine] 2026-11-30T00:06:45.1+09:00 {line}"),
    "compose": each(lambda line: f"vllm-1  | {line}"),
    "node-file": each(lambda line: f"2026-11-30T00:06:45.1Z stdout F {line}"),
    "docker-file": as_docker,
    "json-formatter": as_json,
    "interleaved": interleaved,
    "restart": lambda lines: [*lines, *lines],
    "restart-in-the-middle": lambda lines: [*lines[: len(lines) // 2], *lines],
}


def told(evidence: LogEvidence) -> LogEvidence:
    """Without the quotes, which hold the lines as they were dressed."""
    return dataclasses.replace(evidence, quotes={})


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", [*LOGS, *CRASHES])
def test_a_log_in_any_form_is_the_same_evidence(name: str, form: str) -> None:
    lines = lines_of(name)
    dressed = FORMS[form](lines)
    assert told(read_log(dressed)) == told(read_log(lines))
    found, plain = survey(dressed), survey(lines)
    assert (found.foreign, found.cut, found.total) == ((), (), len(dressed))
    if form not in ("interleaved", "restart", "restart-in-the-middle", "json-formatter"):
        assert found.kinds == plain.kinds
    if form == "json-formatter":
        assert found.kinds[LineKind.RECORD] == plain.kinds[LineKind.LOGGER]


@pytest.mark.parametrize("name", LOGS)
def test_a_log_cut_at_any_byte_says_less_and_nothing_else(name: str) -> None:
    """Each field has the value that the log had said by then, or is absent: never the beginning of a value."""
    body = text(name)
    lines = lines_of(name)
    ends = [0]
    for line in lines:
        ends.append(ends[-1] + len(line) + 1)
    by_line = cache(lambda count: told(read_log(lines[:count])))
    rng = random.Random(name)
    for count, line in enumerate(lines):
        places = range(len(line)) if len(line) < 12 else rng.sample(range(len(line)), 6)
        for place in places if count % 30 == 0 or _speaks(line) else ():
            kept, cut = whole_lines(body[: ends[count] + place])
            assert (len(kept), cut) == (count, bool(line[:place].strip("\r")))
            # and a caller who hands over the half line as well
            half = told(read_log([*kept, line[:place]]))
            for slot in LogEvidence.__slots__:
                if slot not in ("quotes", "errors", "engine_config"):
                    now, before, after = (getattr(one, slot) for one in (half, by_line(count), by_line(count + 1)))
                    assert now in (before, after), (slot, line[:place])


def _speaks(line: str) -> bool:
    return any(
        word in line for word in ("args:", "scheduling", "Runner", "KV cache", "took", "max_num", "config:", "min_p")
    )


def test_arguments_that_were_cut_at_a_bracket_are_absent() -> None:
    whole = "INFO 11-30 00:00:00 [a.py:1] non-default args: {'a': X(), 'b': {'c': 1}, 'd': 2}"
    assert read_log([whole]).non_default_args == {"a": "X()", "b": {"c": 1}, "d": 2}
    assert read_log([whole[: whole.index(", 'd'")]]).non_default_args is None
    config = "INFO 11-30 00:00:00 [a.py:1] Initializing a V1 LLM engine (v1) with config: a=1, b=C(d=2, e=3)"
    assert read_log([config]).engine_config == {"a": "1", "b": "C(d=2, e=3)"}
    assert read_log([config[:-4]]).engine_config is None


# ------------------------------------------------------------------------------------------------------
# Bounds of a log


@pytest.mark.parametrize(
    "unit",
    [
        "x",
        "\x1b[",
        "\x1b[0;",
        "[shutdown] ",
        "1",
        "a.",
        "(",
        "{'a': ",
        "█ ",
        " ",
        "Error: ",
        "\\",
        "'",
        ", a",
        "10% |",
        "CUDA ",
    ],
)
def test_a_line_of_ten_megabytes_is_cut_and_said_to_be(unit: str) -> None:
    line = unit * (10_000_000 // len(unit))
    tracemalloc.start()
    evidence = read_log(["INFO 11-30 00:00:00 [a.py:1] non-default args: {'a': 1, 'b': " + line, line])
    found = survey([line])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert evidence.cut_lines == 2 and found.cut == (1,)
    assert evidence.non_default_args is None
    assert peak < 64 * MAX_LINE * 4, "memory follows the bound, not the line"


def test_a_value_that_nests_without_end_stays_text() -> None:
    deep = "{'a': " * 5_000 + "X()" + "}" * 5_000
    value: Any = read_value(deep)
    for _ in range(MAX_NESTING):
        value = value["a"]
    assert isinstance(value, Repr)
    assert isinstance(read_value("[" * 30_000), Repr)


def test_memory_does_not_grow_with_the_log() -> None:
    """A failing process after another, each with a traceback of its own that never ends."""

    def endless(count: int) -> Any:
        for number in range(count):
            yield f"(P{number} pid={number}) Traceback (most recent call last):"
            yield f"(P{number} pid={number}) ValueError: {number}"
            yield f"(Q{number} pid={number}) Traceback (most recent call last):"

    peaks = []
    for count in (2_000, 6_000):
        tracemalloc.start()
        evidence = read_log(endless(count))
        assert survey(endless(count)).total == 3 * count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert len(evidence.errors) == MAX_ERRORS
        assert evidence.more_errors == count - MAX_ERRORS
    assert peaks[1] < 1.5 * peaks[0] + 1_000_000


def test_a_line_that_the_container_runtime_cut_gives_no_arguments() -> None:
    args = "INFO 11-30 00:00:00 [a.py:1] non-default args: {'a': 1}"
    for whole, cut in (
        (f"2026-11-30T00:06:45.1Z stdout F {args}", f"2026-11-30T00:06:45.1Z stdout P {args}"),
        (
            json.dumps({"log": args + "\n", "stream": "s", "time": "t"}),
            json.dumps({"log": args, "stream": "s", "time": "t"}),
        ),
    ):
        assert read_log([whole]).non_default_args == {"a": 1}
        assert read_log([whole]).cut_lines == 0
        assert read_log([cut]).non_default_args is None
        assert read_log([cut]).cut_lines == 1


@pytest.mark.parametrize(
    ("lines", "kinds"),
    [
        (["Traceback (most recent call last):", '  File "x"', "ValueError: no", "after"], "TRACEBACK " * 3 + "FOREIGN"),
        (["usage: vllm serve [options]", "       [--more]", "vllm serve: error: no"], "COMMAND_LINE " * 3),
        (["/a/b.py:1: UserWarning: w", "  f()", "g()"], "WARNING WARNING FOREIGN"),
        (["W1129 23:57:32.516000 1 a.py:1] w", "[W1129 23:58:20.0 utils.cpp:68] w"], "LIBRARY LIBRARY"),
        (["Loading:  50% Completed | 1/2 [00:00<?, ?it/s]", "Capturing: 100%|███| 2/2 [00:01<00:00]"], "PROGRESS " * 2),
        (["", "\r", "  f()", "NCCL INFO x"], "BLANK BLANK FOREIGN FOREIGN"),
    ],
)
def test_lines_without_a_header_are_told_by_what_comes_before(lines: list[str], kinds: str) -> None:
    found = survey(lines)
    expected = [LineKind[kind] for kind in kinds.split()]
    assert {kind: count for kind, count in found.kinds.items() if count} == {
        kind: expected.count(kind) for kind in expected
    }
    assert [number for number, _ in found.foreign] == [
        n for n, kind in enumerate(expected, 1) if kind is LineKind.FOREIGN
    ]


# ------------------------------------------------------------------------------------------------------
# Scrapes: one of each build, release and arm, for each of them goes through every form

SOME = [
    "cpu/0.26.0-cpu-tiny/off/metrics-after.prom",
    "cpu/0.32.0-cpu-tiny/on/metrics-after.prom",
    "h200/gemma-off/metrics/startup.prom",
    "h200/q3b-on/metrics/c32-r2-after.prom",
    "h200-b2048/off-a/metrics/stream-c16-after.prom",
]


def samples(body: str) -> list[str]:
    return [line for line in body.split("\n") if line and not line.startswith("#")]


def exponents(body: str) -> str:
    """Every finite value with an exponent, to the last bit."""

    def rewrite(line: str) -> str:
        name, _, value = line.rpartition(" ")
        return line if line.startswith("#") or not line else f"{name} {float(value):.17e}"

    return "\n".join(map(rewrite, body.split("\n")))


SAME: dict[str, Callable[[str], str]] = {
    "exponents": exponents,
    "crlf": lambda body: body.replace("\n", "\r\n"),
    "bom": lambda body: "\ufeff" + body,
    "end-mark": lambda body: body + "# EOF\n",
    "stamps": lambda body: "".join(f"{line} 1796007630000\n" for line in samples(body)),
    "exemplars": lambda body: (
        body.replace('_bucket{engine="0",le="+Inf"', '_bucket{engine="0",le="+Inf"', 1)
        + '# TYPE own histogram\nown_bucket{le="+Inf"} 0.0 # {trace_id="x"} 0.5\nown_count 0.0\nown_sum 0.0\n'
    ),
    "no-comments": lambda body: "".join(f"{line}\n" for line in samples(body)),
    "shuffled-labels": lambda body: re.sub(r'\{(engine="[^"]*"),((?:\w+="[^"{}]*",?)+)\}', r"{\2,\1}", body),
}


@pytest.mark.parametrize("form", SAME)
@pytest.mark.parametrize("name", SOME)
def test_a_scrape_in_any_form_is_the_same_series(name: str, form: str) -> None:
    body = text(name)
    changed = SAME[form](body)
    series = {key: value for key, value in parse(changed).series.items() if not key[0].startswith("own_")}
    assert series == parse(body).series


@pytest.mark.parametrize("name", SOME)
def test_without_created_series_only_they_are_gone(name: str) -> None:
    body = text(name)
    scrape = parse("".join(line + "\n" for line in body.split("\n") if "_created" not in line))
    whole = parse(body)
    assert scrape.series == {key: value for key, value in whole.series.items() if not key[0].endswith("_created")}
    assert delta(scrape, scrape, metrics.E2E_COUNT).value == 0
    assert delta(whole, scrape, metrics.E2E_COUNT).value == 0  # a detector that one side lacks is not used


@pytest.mark.parametrize("name", SOME)
def test_a_scrape_cut_at_any_byte_is_refused_or_says_less(name: str) -> None:
    body = text(name)
    whole = parse(body).series
    rng = random.Random(name)
    places = sorted(
        {*rng.sample(range(len(body)), 25), *(found.end() for found in list(re.finditer("\n", body))[::60])}
    )
    for place in places:
        try:
            scrape = parse(body[:place])
        except ExpositionError:
            continue
        assert body[place - 1] == "\n", body[max(0, place - 80) : place]
        assert len(scrape.series) == len(samples(body[:place]))
        assert scrape.series.items() <= whole.items()
        # what the cut took is absent in a window, not a smaller sum
        for lost in (metrics.E2E_COUNT, metrics.REQUEST_SUCCESS, metrics.GENERATION_TOKENS):
            found = delta(parse(body), scrape, lost)
            assert found.value == 0 or found.reason == "absent-after"


@pytest.mark.parametrize("name", SOME)
def test_a_family_that_comes_twice_is_refused(name: str) -> None:
    body = text(name)
    with pytest.raises(ExpositionError, match="twice"):
        parse(body + body)
    with pytest.raises(ExpositionError, match="is a gauge and a counter"):
        parse(body + "# TYPE vllm:num_requests_running counter\nvllm:num_requests_running_total 1\n")
    other = body.replace('engine="0"', 'engine="1"')
    both = parse(body + "".join(line + "\n" for line in samples(other) if 'engine="1"' in line))
    assert both.total(metrics.E2E_COUNT) == 2 * (parse(body).total(metrics.E2E_COUNT) or 0)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf"])
@pytest.mark.parametrize("name", SOME)
def test_a_counter_that_is_no_finite_number_gives_no_change(name: str, value: str) -> None:
    body = text(name)
    spoilt = re.sub(r"^(vllm:generation_tokens_total\{.*\}) \S+$", rf"\1 {value}", body, flags=re.MULTILINE)
    before, after = parse(body), parse(spoilt)
    total = after.total(metrics.GENERATION_TOKENS)
    assert total is not None and not math.isfinite(total)
    for first, second in ((before, after), (after, before), (after, after)):
        found = delta(first, second, metrics.GENERATION_TOKENS)
        assert (found.value, found.reason) == (None, "reset"), found
    assert delta(before, after, metrics.E2E_COUNT).value == 0


@pytest.mark.parametrize("name", SOME)
def test_labels_may_hold_anything(name: str) -> None:
    model = 'a "b"\\ {c="d"} # {e} \\n,=,\ud55c'
    written = model.replace("\\", "\\\\").replace('"', '\\"')
    body = re.sub(r'model_name="[^"]*"', lambda _: f'model_name="{written}"', text(name))
    scrape = parse(body)
    assert scrape.label_values(metrics.RUNNING, metrics.MODEL_LABEL) == {model}
    assert ex.from_json(ex.to_json(scrape, lambda _: True)).series == scrape.series


def test_counters_that_go_back_or_begin_anew_give_no_change() -> None:
    pairs = [name for name in SCRAPES if name.endswith("-before.prom")]
    for name in pairs[::7]:
        before, after = parse(text(name)), parse(text(name.replace("-before", "-after")))
        assert (delta(before, after, metrics.GENERATION_TOKENS).value or 0) > 0
        assert delta(after, before, metrics.GENERATION_TOKENS).reason == "reset"
        anew = Exposition({key: value + key[0].endswith("_created") for key, value in after.series.items()}, {})
        assert delta(before, anew, metrics.GENERATION_TOKENS).reason == "reset"


def test_a_million_series_are_refused_within_the_bound() -> None:
    body = "".join(f'x{{a="{number}"}} 1\n' for number in range(1_000_000))
    with pytest.raises(ExpositionError, match=f"more than {ex.MAX_SERIES} series"):
        parse(body)
    with pytest.raises(ExpositionError, match="characters"):
        parse("# " + "x" * ex.MAX_LINE + "\nx 1\n")
    with pytest.raises(ExpositionError, match=f"more than {ex.MAX_TEXT}"):
        parse("#\n" * (ex.MAX_TEXT // 2 + 1))


# ------------------------------------------------------------------------------------------------------
# Bounds of a reply


def test_a_reply_beyond_the_bound_is_malformed_and_says_so() -> None:
    body = b" " * (MAX_REPLY + 1)
    for reply in (
        read_reply(200, "application/json", body, model="m"),
        read_stream(200, "text/event-stream", [(1, b"data: {}\n\n"), (2, body)], ended=True, model="m"),
    ):
        assert reply.verdict is Verdict.MALFORMED
        assert str(MAX_REPLY) in reply.detail
        assert (reply.text, reply.usage, reply.event_ns) == ("", None, ())


def test_ids_that_are_no_ids_are_absent() -> None:
    choice = {"index": 0, "message": {"content": "a"}, "finish_reason": "stop", "token_ids": [True, 5]}
    reply = read_reply(200, None, json.dumps({"model": "m", "choices": [choice]}).encode(), model="m")
    assert (reply.verdict, reply.token_ids) == (Verdict.OK, None)
