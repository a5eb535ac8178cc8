"""Everything that an engine shows, as lines of text that may be compared: what must vary is masked, nothing else.

A scrape gives its own lines with masked values; a log its lines without time, pid and line number; a body one line a
key (``choices[].message.role: str``); a stream one line a run of equal chunks; an error its status and body.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

_LOG_LINE = re.compile(
    r"^(?:\((?P<role>[\w-]+) pid=\d+\) ?)?"
    r"(?:(?P<level>INFO|WARNING|ERROR) \d\d-\d\d \d\d:\d\d:\d\d \[(?P<file>[\w.]+):\d+\] ?)?(?P<text>.*)$"
)
_NUMBER = re.compile(r"(?<![A-Za-z_\d])\d[\d,]*(?:\.\d+)?")
_FLOAT = re.compile(r"-?\d+(\.\d+|\.?\d*e[+-]\d+)|NaN")
_HEX = re.compile(r"\b(chatcmpl-|modelperm-)[0-9a-f]+\b")
_VARYING_HEADERS = {"date", "content-length", "connection"}  # of the moment, of the text, of the client


# -- metrics -------------------------------------------------------------------------------------------------------


def metric_lines(scrape: str) -> list[str]:
    """The page with every value as ``V``; a value that is no float keeps its text."""
    return [line if line.startswith("#") else _sample(line) for line in scrape.splitlines()]


def _sample(line: str) -> str:
    series, _, value = line.rpartition(" ")
    # Profiled memory: two processes of one command gave 44,691 and 44,815 blocks.
    series = re.sub(r'(kv_cache_max_concurrency|kv_cache_size_tokens|num_gpu_blocks)="[\d.]+"', r'\1="N"', series)
    if series.startswith("python_info"):  # the interpreter's version
        series = re.sub(r'"[^"]*"', '"*"', series)
    return f"{series} {'V' if _FLOAT.fullmatch(value) else value}"


def http_traffic(scrape: str) -> list[tuple[str, str, str]]:
    """(handler, method, status class) of the requests that a scrape has counted, in the order of their first."""
    return re.findall(r'^http_requests_total\{handler="(.*?)",method="(.*?)",status="(.*?)"\}', scrape, re.MULTILINE)


# -- logs ----------------------------------------------------------------------------------------------------------


def log_lines(raw: str, *, with_shutdown: bool, with_returns: bool) -> list[str]:
    """Start, run and end of a log.

    The start keeps its order. Of the run, each form of a line is kept once, sorted: traffic decides their order and
    number. The end keeps the order within each process: between processes it is a race, which the recordings of two
    arms of one host already lost differently. `with_returns` keeps the carriage returns before a line's end.
    """
    text = raw if with_returns else raw.replace("\r\n", "\n").replace("\r", "\n")
    masked = [_log_line(line) for line in text.split("\n")]
    started = next(i for i, line in enumerate(masked) if "Application startup complete." in line) + 1
    stopped = next((i for i, line in enumerate(masked) if "[shutdown]" in line), len(masked))
    lines = [f"start: {line}" for line in masked[:started] if line.strip(" -")]
    lines += sorted({f"run: {line}" for line in masked[started:stopped] if line.strip(" -")})
    if with_shutdown:
        # A periodic line falls into the end only if the interval happens to.
        periodic = (" loggers.py ", " metrics.py ")
        end = [
            f"end: {line}"
            for line in masked[stopped:]
            if line.strip(" -") and not any(file in line for file in periodic)
        ]
        lines += sorted(end, key=lambda line: line.split()[1])
    return lines


def _log_line(line: str) -> str:
    found = _LOG_LINE.match(line)
    assert found
    role, level, file, text = found.group("role", "level", "file", "text")
    return " ".join((role or "-", *(word for word in (level, file) if word), _text(text)))


def _text(text: str) -> str:
    if text.startswith("non-default args"):
        return re.sub(r"'(host|port)': [^,]+, ", "", text)
    if "with config: " in text or re.search(r"version \d", text):
        return text
    text = re.sub(r"(https?|tcp|file)://\S+", "ADDRESS", text)
    text = re.sub(r'[\d.]+:\d+ - "[A-Z]+ \S+ ', 'CLIENT - "METHOD PATH ', text)
    text = re.sub(r"^(\[?W)\d{4} ", r"\1DATE ", text)
    text = re.sub(r"Methods: (HEAD, GET|GET, HEAD)", "Methods: HEAD, GET", text)  # a set, printed in hash order
    return _NUMBER.sub("N", text).replace("\r", "<CR>")


# -- bodies --------------------------------------------------------------------------------------------------------


def body_lines(body: Any, name: str = "") -> list[str]:
    """One line a key in the order of the body, with the type of its value; a list by the kinds of its items."""
    if isinstance(body, Mapping):
        found = [f"{name}: object"] if name and not body else []
        for key, value in body.items():
            found += body_lines(value, f"{name}.{key}" if name else key)
        return found
    if isinstance(body, list):
        items = [line for item in body for line in body_lines(item, f"{name}[]")]
        return list(dict.fromkeys(items)) or [f"{name}: []"]
    return [f"{name}: {_kind(body, name.rpartition('.')[2])}"]


def value_lines(body: Any, name: str = "") -> list[str]:
    """Like body_lines, with the values themselves; ids and times are masked."""
    if isinstance(body, Mapping):
        return [line for key, value in body.items() for line in value_lines(value, f"{name}.{key}" if name else key)]
    if isinstance(body, list):
        return [line for item in body for line in value_lines(item, f"{name}[]")]
    masked = "TIME" if name.endswith("created") and isinstance(body, int) else body
    return [f"{name}: " + _HEX.sub(r"\1ID", json.dumps(masked))]


def key_lines(body: Any, name: str = "") -> list[str]:
    """Every key of a nested object, in order, without values."""
    if not isinstance(body, Mapping):
        return []
    return [
        line
        for key, value in body.items()
        for line in (f"{name}.{key}", *key_lines(value, f"{name}.{key}"))
    ]  # fmt: skip


def header_lines(headers: Mapping[str, str]) -> list[str]:
    """Headers in lower case, sorted, without those that belong to the moment or to the client."""
    lowered = {name.lower(): value for name, value in headers.items()}
    return [f"header {name}: {lowered[name]}" for name in sorted(lowered.keys() - _VARYING_HEADERS)]


# -- streams -------------------------------------------------------------------------------------------------------


def stream_lines(text: str) -> list[str]:
    """The kinds of a stream's events in order: a run of chunks of one shape is one line."""
    events = [event.removeprefix("data: ") for event in text.split("\n\n") if event.strip()]
    return [shape for shape, _ in groupby(map(_event, events))]


def _event(event: str) -> str:
    return "[DONE]" if event == "[DONE]" else json.dumps(_shape(json.loads(event)))


def _shape(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _shape(item, key) for key, item in value.items()}
    if isinstance(value, list):
        kinds = [_shape(item) for item in value]
        return [kind for place, kind in enumerate(kinds) if kind not in kinds[:place]]
    return _kind(value, name)


WORDS = frozenset({"role", "object", "index"})
"""Fields whose values are words of the protocol: compared as they are."""


def _kind(value: Any, name: str) -> str:
    if name in WORDS and value is not None:
        return json.dumps(value)
    return "null" if value is None else type(value).__name__


def framing_lines(streams: Sequence[Sequence[tuple[float, str]]]) -> list[str]:
    """How events lie in the chunked transfer encoding: a stream is (seconds, text) of each read of the socket.

    The role chunk and the first token are two HTTP chunks but one step's: in one of the streams at least, both come
    together if measured by the step that follows.
    """
    pieces = re.split(r"(?:^|\r\n)[0-9a-f]+\r\n", "".join(text for _, text in streams[0]))
    most = max(piece.count("data: ") for piece in pieces)
    together = False
    for stream in streams:
        arrivals = [moment for moment, text in stream for _ in range(text.count("data: "))]
        role, first, second = arrivals[:3]
        together |= first - role < (second - first) / 2
    return [f"events in one HTTP chunk: {most}", f"role chunk together with the first token: {together}"]


# -- errors --------------------------------------------------------------------------------------------------------


def error_lines(case: str, status: int, body: Any) -> list[str]:
    """Status and body of a refused request. The lengths in a refused prompt's text are of the tokenizer."""
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    if "characters (more than" in text:
        text = re.sub(r"\d{4,}", "N", text)
    return [f"{case}: {status} {text}"]
