"""The embedded engine's surface beside each recording's: lines that only one of both has, and their list of reasons.

``differences.yaml`` holds the reasons: a list of ``{recordings, kind, reason, lines}``. `recordings` is a glob over the
folders below ``tests/recordings``; a line begins with ``-`` (only recorded) or ``+`` (only embedded), and ``*`` in it
stands for any text.
"""

from __future__ import annotations

import ast
import fnmatch
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path
from typing import Any

import surface_lines as lines
from fidelity_rows import Row
from ruamel.yaml import YAML
from surface_engine import Engine, running

RECORDINGS = Path(__file__).parents[1] / "recordings"
CPU = tuple(f"cpu/{version}-cpu-tiny/{arm}" for version in ("0.26.0", "0.32.0") for arm in ("off", "on"))
CPU_IDS = tuple(f"cpu/0.32.0-cpu-tiny-ids/{arm}" for arm in ("off", "on"))
FIRST_SERIES = tuple(f"h200/q3b-{arm}" for arm in ("off", "on", "off-noasync", "on-b16384"))
SECOND_SERIES = tuple(f"h200-b2048/{arm}" for arm in ("off-a", "on-a", "off-v1-async", "off-v1-noasync"))
NAMES = (*SECOND_SERIES, *FIRST_SERIES, *CPU, *CPU_IDS)
KINDS = ("log", "metrics", "replies", "stream", "errors", "models", "server_info")
Surface = Mapping[str, Sequence[str]]

_USER = [{"role": "user", "content": "x"}]
# The bodies behind cpu/*/*/invalid.json, which holds only the answers.
_CPU_ERRORS: Mapping[str, Any] = {
    "wrong-model": {"model": "nope", "messages": _USER, "max_tokens": 96},
    "negative-max-tokens": {"model": "m", "messages": _USER, "max_tokens": -1},
    "too-long": {"model": "m", "messages": [{"role": "user", "content": "word " * 6400}], "max_tokens": 96},
    "no-messages": {"model": "m"},
    "temperature": {"model": "m", "messages": _USER, "temperature": -3.0},
    "not-json": "{nope",
}


# -- what was recorded ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Recording:
    """One folder below ``tests/recordings``."""

    name: str

    @property
    def folder(self) -> Path:
        return RECORDINGS / self.name

    def find(self, *patterns: str) -> Path | None:
        """The last file, by time of its making, of the first pattern that has any."""
        for pattern in patterns:
            found = sorted(self.folder.glob(pattern))
            if found:
                return found[-1]
        return None

    def json(self, *patterns: str) -> Any:
        """The first document of a JSON or JSON-lines file, None without the file."""
        path = self.find(*patterns)
        if path is None:
            return None
        text = path.read_text("utf-8")
        return json.JSONDecoder().raw_decode(text)[0]

    @property
    def command(self) -> list[str]:
        """The words after ``vllm``, as recorded or, without a recorded command, from the log's argument line."""
        recorded = self.json("command.json")
        if recorded:
            return list((recorded.get("command") or recorded["argv"])[1:])
        log = Recording(self.name.replace("-ids/", "/")).folder / "server.log"
        found = re.search(r"non-default args: (\{.*\})", log.read_text("utf-8"))
        assert found
        arguments = ast.literal_eval(found.group(1))
        words = ["serve", arguments.pop("model")]
        for name, value in arguments.items():
            if name not in ("model_tag", "host", "port"):
                values = value if isinstance(value, list) else [value]
                words += [f"--{name.replace('_', '-')}", *([] if value is True else map(str, values))]
        return words

    @property
    def arguments(self) -> list[str]:
        """The command for the embedded engine: on a free port."""
        words = self.command
        if "--port" in words:
            place = words.index("--port")
            del words[place : place + 2]
        host = ["--host", "127.0.0.1"] if self.name.startswith("cpu") else []
        return [*words, *host, "--port", "0"]

    @property
    def environment(self) -> dict[str, str]:
        """What the process had in its environment, as far as the embedded engine honours it."""
        if self.name.startswith("cpu"):
            return {"SIMULATOR_PROFILE": "cpu", "SIMULATOR_VERSION": self.name.split("/")[1].partition("-")[0]}
        development = {"VLLM_SERVER_DEV_MODE": "1"} if self.name.startswith("h200-b2048") else {}
        # command.json names only what differs between the arms; the sampler's switch is in every log.
        common = {"SIMULATOR_PROFILE": "h200", "SIMULATOR_VERSION": "0.26.0", "VLLM_USE_FLASHINFER_SAMPLER": "0"}
        return {**common, **development, **self.json("command.json")["env"]}

    @property
    def served(self) -> str:
        words = self.command
        return words[words.index("--served-model-name") + 1]

    # -- scrapes, logs and streams as text ------------------------------------------------------------------

    @property
    def scrapes(self) -> tuple[str, str]:
        """The earliest scrape and one after the load."""
        first = self.find(
            "metrics/startup.prom", "metrics/c1-r1-before.prom", "metrics-before.prom", "metrics/*-before.prom"
        )
        last = self.find("metrics-after.prom", "metrics/c16-r1-after.prom")
        assert first
        assert last
        return first.read_text("utf-8"), last.read_text("utf-8")

    @property
    def log(self) -> str | None:
        path = self.find("startup.log", "server.log")
        return path.read_bytes().decode() if path else None

    @property
    def stream(self) -> tuple[Mapping[str, str], str, list[list[tuple[float, str]]]] | None:
        """Headers, events and, where the socket was watched, the reads of all streams."""
        watched = self.find("stream-c1.jsonl")
        if watched:
            streams = [json.loads(line)["reads"] for line in watched.read_text("utf-8").splitlines()]
            return (*_unchunked(streams[0]), streams)
        if (raw := self.find("sse/*.raw")) is not None:
            return self.json("sse/*.head.json")["headers"], raw.read_text("utf-8"), []
        if (text := self.find("chat-stream.txt")) is not None:
            return {}, text.read_text("utf-8"), []
        return None


def _unchunked(reads: Sequence[tuple[float, str]]) -> tuple[dict[str, str], str]:
    head, _, body = "".join(text for _, text in reads).partition("\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.split("\r\n")[1:])
    return headers, re.sub(r"(?:^|\r\n)[0-9a-f]+\r\n", "", body).strip()


# -- both surfaces -------------------------------------------------------------------------------------------------


@cache
def recorded_surface(name: str) -> Surface:
    """The lines of every kind that the recording holds."""
    recording = Recording(name)
    found: dict[str, list[str]] = {}
    if recording.log:
        found["log"] = _log(recording, recording.log)
    found["metrics"] = _metrics(*recording.scrapes)
    reply = recording.json("chat.json", "bodies-c1-r1.jsonl", "bodies-c1.jsonl", "responses/c1-kr.jsonl")
    if reply:
        found["replies"] = _reply(reply.get("body", reply), reply.get("headers") if "body" in reply else None)
    if recording.stream:
        found["stream"] = _stream(*recording.stream)
    errors = recording.json("errors.json", "invalid.json")
    if errors:
        found["errors"] = [
            line for case, item in errors.items() for line in lines.error_lines(case, item["status"], item["body"])
        ]
    models, version, hello = (recording.json(f"{stem}.json") for stem in ("models", "version", "hello"))
    if hello or models:
        found["models"] = _endpoints(hello or {"/version": version, "/v1/models": models})
    if (info := recording.json("server_info.json")) is not None:
        found["server_info"] = lines.key_lines(info)
    return found


@cache
def embedded_surface(name: str) -> Surface:
    """The same kinds of lines from the embedded engine under the same command. Starts and ends one process."""
    recording = Recording(name)
    found: dict[str, list[str]] = {}
    with running(recording.arguments, recording.environment, recording.served) as engine:
        first, last = recording.scrapes
        before = lines.http_traffic(first)
        engine.replay(before)
        early = engine.scrape()
        engine.replay([item for item in lines.http_traffic(last) if item not in before])
        found["metrics"] = _metrics(early, engine.scrape())
        _answers(recording, engine, found)
        engine.wait_for(r"Running: 0 reqs")
        if "--spec-method" in recording.arguments:
            engine.wait_for("SpecDecoding metrics")
        engine.stop()
        if recording.log:
            found["log"] = _log(recording, engine.log)
    return found


def _answers(recording: Recording, engine: Engine, found: dict[str, list[str]]) -> None:
    reply = recording.json("chat.json", "bodies-c1-r1.jsonl", "bodies-c1.jsonl", "responses/c1-kr.jsonl")
    ids = recording.find("bodies-*.jsonl") is not None
    if reply:
        fields = {"ignore_eos": True} if "body" in reply else {}
        answer = engine.chat(**fields, **({"return_token_ids": True} if ids else {}))
        found["replies"] = _reply(answer.body, answer.headers if "body" in reply else None)
    if recording.stream:
        headers, _, watched = recording.stream
        wanted = {"stream_options": {"include_usage": True}, **({"return_token_ids": True} if ids else {})}
        fields = {} if headers else {"ignore_eos": True}
        streams = [engine.stream(**wanted, **fields) for _ in watched or [None]]
        head, events = _unchunked(streams[0])
        found["stream"] = _stream(head if headers else {}, events, streams if watched else [])
    errors = recording.json("errors.json", "invalid.json")
    if errors:
        found["errors"] = []
        for case, item in errors.items():
            body = item.get("request", item.get("request_raw", _CPU_ERRORS.get(case)))
            answer = engine.post(body) if body is not None else engine.get("/v1/nope")
            # A body that is no object was kept as the text that it was.
            text = json.dumps(answer.body, separators=(",", ":")) if isinstance(item["body"], str) else answer.body
            found["errors"] += lines.error_lines(case, answer.status, text)
    hello = recording.json("hello.json")
    if hello or recording.find("models.json"):
        paths = hello or ("/version", "/v1/models")
        answers = {path: engine.get(path) for path in paths}
        bare = not hello and "body" not in recording.json("models.json")
        found["models"] = _endpoints({path: answer.body if bare else vars(answer) for path, answer in answers.items()})
    if recording.find("server_info.json"):
        found["server_info"] = lines.key_lines(engine.get("/server_info?config_format=json").body)


def _log(recording: Recording, raw: str) -> list[str]:
    recorded = recording.log or ""
    # Two series were written down in text mode, which turns every carriage return into a line end.
    return lines.log_lines(raw, with_shutdown="[shutdown]" in recorded, with_returns="\r" in recorded)


def _metrics(first: str, last: str) -> list[str]:
    start, after = lines.metric_lines(first), lines.metric_lines(last)
    return [*(f"start: {line}" for line in start), *(f"after: {line}" for line in after)]


def _reply(body: Any, headers: Mapping[str, str] | None) -> list[str]:
    return [*lines.header_lines(headers or {}), *lines.body_lines(body)]


def _stream(headers: Mapping[str, str], events: str, streams: Sequence[Sequence[tuple[float, str]]]) -> list[str]:
    framing = lines.framing_lines(streams) if streams else []
    return [*lines.header_lines(headers), *lines.stream_lines(events), *framing]


def _endpoints(answers: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    for path, answer in answers.items():
        whole = isinstance(answer, Mapping) and "headers" in answer
        body = answer.get("body") if whole else answer
        if isinstance(body, str) and body.startswith("{"):
            body = json.loads(body)
        if path == "/metrics":
            body = None
        head = [f"status: {answer['status']}", *lines.header_lines(answer["headers"])] if whole else []
        values = lines.value_lines(body) if isinstance(body, Mapping) else [f"body: {body!r}"]
        found += [f"{path} {line}" for line in (*head, *values)]
    return found


# -- their differences ---------------------------------------------------------------------------------------------


def differences(recorded: Sequence[str], embedded: Sequence[str]) -> list[str]:
    """Lines of one side only, in order: ``- line`` recorded, ``+ line`` embedded."""
    found = []
    for tag, a, b, c, d in SequenceMatcher(None, recorded, embedded, autojunk=False).get_opcodes():
        if tag != "equal":
            found += [f"- {line}" for line in recorded[a:b]] + [f"+ {line}" for line in embedded[c:d]]
    return found


@dataclass(frozen=True)
class Listed:
    """One line of ``differences.yaml`` with its entry's scope."""

    recordings: str
    kind: str
    line: str
    reason: str

    def covers(self, name: str, kind: str, difference: str) -> bool:
        return (
            kind == self.kind
            and fnmatch.fnmatch(name, self.recordings)
            and _pattern(self.line).fullmatch(difference) is not None
        )


@cache
def _pattern(line: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in line.split("*")))


@cache
def listed() -> tuple[Listed, ...]:
    """Every line of ``differences.yaml``."""
    entries = YAML(typ="safe").load(Path(__file__).with_name("differences.yaml").read_text("utf-8"))
    return tuple(
        Listed(entry["recordings"], entry["kind"], line, entry["reason"])
        for entry in entries
        for line in entry["lines"]
    )


def unlisted(name: str, kind: str, found: Sequence[str]) -> list[str]:
    """The differences that no line of the list covers."""
    return [line for line in found if not any(item.covers(name, kind, line) for item in listed())]


def compared() -> dict[tuple[str, str], list[str]]:
    """(recording, kind) to its differences, for every kind that a recording holds."""
    return {
        (name, kind): differences(kept, embedded_surface(name)[kind])
        for name in NAMES
        for kind, kept in recorded_surface(name).items()
    }


def rows() -> list[Row]:
    """One row for each recording and kind. Starts one engine for each recording that has not been compared yet."""
    found = []
    for (name, kind), differing in compared().items():
        missing = len(unlisted(name, kind, differing))
        verdict = "equal" if not differing else f"{len(differing)} listed differences"
        if missing:
            verdict = f"{missing} of {len(differing)} differences are not listed"
        recorded, embedded = recorded_surface(name)[kind], embedded_surface(name)[kind]
        found.append(Row(name, kind, f"{len(recorded)} lines", f"{len(embedded)} lines", verdict))
    return found
