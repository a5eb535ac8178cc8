"""Prometheus text: one scrape as series, and the change between two of them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from prometheus_client.parser import text_string_to_metric_families

from . import metrics

SeriesKey = tuple[str, tuple[tuple[str, str], ...]]
"""Sample name and its labels, sorted by label name."""

MAX_TEXT: Final = 32 * 1024 * 1024
"""Characters of a scrape. One of a real engine has some 50,000."""
MAX_LINE: Final = 65_536
"""Characters of a line of it."""
MAX_SERIES: Final = 200_000
"""Samples of it. A real engine has some 700."""

Reason = Literal["absent", "absent-before", "absent-after", "reset", "mixed-models"]


class ExpositionError(ValueError):
    """The text is no Prometheus exposition; the message says why."""


class MixedModelsError(ValueError):
    """A sum was asked over series of several models without naming one of them."""


@dataclass(frozen=True, slots=True)
class Exposition:
    """One scrape. ``types``: family name (a counter's without ``_total``) to its type."""

    series: dict[SeriesKey, float]
    types: dict[str, str]

    def select(self, name: str, /, **labels: str) -> dict[SeriesKey, float]:
        """The series of the sample ``name`` that carry all of ``labels``."""
        asked = labels.items()
        return {key: value for key, value in self.series.items() if key[0] == name and asked <= dict(key[1]).items()}

    def total(self, name: str, /, **labels: str) -> float | None:
        """Sum over the series of ``name`` that carry ``labels`` (all engines); None when there is none, NaN when one
        of them says NaN.

        Raises MixedModelsError where these series belong to several models and ``labels`` names none.
        """
        found = self.select(name, **labels)
        _refuse_mixture(name, found)
        return sum(found.values()) if found else None

    def label_values(self, name: str, label: str, /, **labels: str) -> frozenset[str]:
        """The values of ``label`` on the series of ``name`` that carry ``labels``."""
        return frozenset(value for key in self.select(name, **labels) for found, value in key[1] if found == label)

    def by_label(self, name: str, label: str, /, **labels: str) -> dict[str, float] | None:
        """Sums of ``name`` by the value of ``label``; None when no such series carries it.

        Raises MixedModelsError as ``total`` does, unless ``label`` is the model's own.
        """
        found = {key: value for key, value in self.select(name, **labels).items() if label in dict(key[1])}
        if label != metrics.MODEL_LABEL:
            _refuse_mixture(name, found)
        sums: dict[str, float] = {}
        for key, value in found.items():
            child = dict(key[1])[label]
            sums[child] = sums.get(child, 0.0) + value
        return sums or None


def _models(series: Mapping[SeriesKey, float]) -> set[str | None]:
    return {dict(labels).get(metrics.MODEL_LABEL) for _, labels in series}


def _refuse_mixture(name: str, series: Mapping[SeriesKey, float]) -> None:
    models = _models(series)
    if len(models) > 1:
        listed = ", ".join(sorted(str(model) for model in models))
        raise MixedModelsError(f"{name} has series of several models ({listed}); name one")


# -------------------------------------------------------------------------------------------------------
# Reading


_UNTYPED: Final = "unknown"  # samples without a TYPE line before them


def parse(
    text: str, names: Sequence[str] | None = None, *, max_line: int = MAX_LINE, max_series: int = MAX_SERIES
) -> Exposition:
    """Read one scrape, whatever text format version its content type names.

    ``names``: the gauges that are wanted, None for everything; usual lines of others are passed over, which is many
    times as fast where a few of a real engine's are wanted. ``max_line``: characters; ``max_series``: count; they and
    ``MAX_TEXT`` guard against a body that is no scrape of one engine.
    Raises ExpositionError for a body that is empty, HTML or JSON, for one that was cut (its last line has no end, or
    a histogram has buckets and no count), for a line that cannot be read, for a series that occurs twice, for a
    family of two types, for a scrape without any series, and beyond the bounds. A body cut exactly between two
    families cannot be told from a whole one: what it lost is absent.
    """
    lines = _lines(text, max_line)
    samples = [_without_exemplar(line) for line in lines]
    count = sum(1 for line in samples if line and not line.startswith("#"))
    if count > max_series:
        raise ExpositionError(f"more than {max_series} series")
    if names is not None:
        samples = ["" if _of_another(line, names) else line for line in samples]
    series: dict[SeriesKey, float] = {}
    types: dict[str, str] = {}
    fault: str | None = None
    try:
        for family in text_string_to_metric_families("\n".join(samples) + "\n"):
            known = types.get(family.name, _UNTYPED)
            if _UNTYPED not in (known, family.type) and known != family.type:
                fault = fault or f"the family {family.name} is a {known} and a {family.type}"
            if known == _UNTYPED:
                types[family.name] = family.type
            for sample in family.samples:
                key = (sample.name, tuple(sorted(sample.labels.items())))
                if key in series:
                    fault = fault or f"the series {_written(key)} occurs twice"
                series[key] = float(sample.value)
    except Exception as error:  # the parser's own faults on foreign text: ValueError, IndexError, KeyError ...
        raise ExpositionError(f"no Prometheus text: {_first_unreadable(samples)}") from error
    if fault := fault or _cut(series, types, lines):
        raise ExpositionError(fault)
    if not series and (names is None or not any(map(_SAMPLE.fullmatch, lines))):
        raise ExpositionError("the body holds no series")
    return Exposition(series, types)


_SAMPLE: Final = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{.*\})? (?:[-+]?[0-9][0-9.eE+-]*|[-+]?Inf|NaN)")
_ABOUT: Final = re.compile(r"# (?:HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) .*")


def _of_another(line: str, names: Sequence[str]) -> bool:
    """Whether a line is certainly about another sample: one that looks odd may be half of a wanted one's."""
    usual = (_ABOUT if line.startswith("#") else _SAMPLE).fullmatch(line)
    return usual is not None and usual[1] not in names


def _lines(text: str, max_line: int) -> list[str]:
    """The lines of a body that may be a scrape."""
    if len(text) > MAX_TEXT:
        raise ExpositionError(f"the body has {len(text)} characters, more than {MAX_TEXT}")
    start = text.lstrip("\ufeff \t\r\n")[:1]
    if not start:
        raise ExpositionError("the body is empty")
    if start in "{[":
        # Prometheus 3 may quote a name in braces, {"a.b"}; no engine's scrape begins so
        raise ExpositionError("the body is JSON, no Prometheus text")
    if start == "<":
        raise ExpositionError("the body is HTML or XML, no Prometheus text")
    lines = text.removeprefix("\ufeff").split("\n")
    for number, line in enumerate(lines, 1):
        if len(line) > max_line:
            raise ExpositionError(f"line {number} has {len(line)} characters, more than {max_line}")
    return lines


def _cut(series: Mapping[SeriesKey, float], types: Mapping[str, str], lines: list[str]) -> str | None:
    """What tells that the body ends too early: half a figure looks like one, and both text formats end every line."""
    if lines[-1].strip(" \t\r"):
        return f"line {len(lines)}, the last one, has no end: the body was cut"
    for name, labels in series:
        base = name.removesuffix("_bucket")
        if base != name and types.get(base) == "histogram":
            key = (base + "_count", tuple(pair for pair in labels if pair[0] != "le"))
            if key not in series:
                return f"the histogram {base} has buckets and no count: the body was cut"
    return None


_EXEMPLAR: Final = re.compile(r"(\s[^\s{}\"#]+)\s+#\s+\{.*$")


def _without_exemplar(line: str) -> str:
    """The line without an OpenMetrics exemplar, which the text parser does not know."""
    line = line.rstrip("\r")
    if line.startswith("#") or " # {" not in line:
        return line
    # after the labels only: a label's value may hold the same characters
    closing = line.rfind("} ", 0, line.rfind(" # {"))
    head, tail = line[: closing + 1], line[closing + 1 :]
    return head + _EXEMPLAR.sub(r"\1", tail)


def _first_unreadable(lines: list[str]) -> str:
    for number, line in enumerate(lines, 1):
        try:
            list(text_string_to_metric_families(line + "\n"))
        except Exception:
            return f"line {number} cannot be read: {line[:80]!r}"
    return "its families contradict each other"


# -------------------------------------------------------------------------------------------------------
# Journal form


def _twin(name: str) -> str:
    """The ``_created`` sample that goes with a counter's or histogram's sample."""
    for suffix in ("_total", "_sum", "_count", "_bucket"):
        if name.endswith(suffix):
            return name.removesuffix(suffix) + "_created"
    return name + "_created"


_TWINS: Final = frozenset(
    _twin(name)
    for name in vars(metrics).values()
    if isinstance(name, str) and name.startswith(metrics.PREFIX) and name.endswith(("_total", "_sum", "_count"))
)


def kept(name: str) -> bool:
    """Whether a journal needs the sample ``name``.

    All of vLLM's own but the buckets (no figure of ours is read from them); ``_created`` only beside a
    counter or histogram that we read, as reset detector; and the start of the process.
    """
    if name == metrics.PROCESS_START:
        return True
    if not name.startswith(metrics.PREFIX) or name.endswith("_bucket"):
        return False
    return not name.endswith("_created") or name in _TWINS


_ESCAPES: Final = {"\\": "\\\\", "\n": "\\n", '"': '\\"'}
_TO_ESCAPE: Final = re.compile(r'[\\\n"]')
_UNESCAPES: Final = {"\\\\": "\\", "\\n": "\n", '\\"': '"'}
_LABEL: Final = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\\n]|\\[\\n"])*)"(?:,|$)')


def _written(key: SeriesKey) -> str:
    name, labels = key
    if not labels:
        return name
    pairs = (f'{label}="{_TO_ESCAPE.sub(_escape, value)}"' for label, value in labels)
    return f"{name}{{{','.join(pairs)}}}"


def _escape(found: re.Match[str]) -> str:
    return _ESCAPES[found[0]]


def _read_key(written: str) -> SeriesKey:
    name, brace, rest = written.partition("{")
    if not brace:
        return name, ()
    labels: list[tuple[str, str]] = []
    position, end = 0, len(rest) - 1
    while position < end:
        found = _LABEL.match(rest, position, end)
        if found is None:
            break
        labels.append((found[1], re.sub(r'\\[\\n"]', lambda escape: _UNESCAPES[escape[0]], found[2])))
        position = found.end()
    if not rest.endswith("}") or position != end or not labels:
        raise ExpositionError(f"no series key: {written[:200]!r}")
    return name, tuple(labels)


def to_json(exposition: Exposition, keep: Callable[[str], bool] = kept) -> dict[str, float]:
    """Compact form for a journal: ``name{label="value",...}`` to value, for the sample names that ``keep``
    takes."""
    return {_written(key): value for key, value in exposition.series.items() if keep(key[0])}


def from_json(written: Mapping[str, float]) -> Exposition:
    """The reverse of ``to_json``: the same series, values and labels to the bit; types are not kept.

    Raises ExpositionError for a key that ``to_json`` cannot have written.
    """
    return Exposition({_read_key(key): float(value) for key, value in written.items()}, {})


# -------------------------------------------------------------------------------------------------------
# Change over a window


@dataclass(frozen=True, slots=True)
class Delta:
    """The change of a counter over a window: exactly one of ``value`` and ``reason`` is set.

    ``detail``: with a reason, what was seen, in words.
    """

    value: float | None
    reason: Reason | None
    detail: str = ""


def delta(before: Exposition, after: Exposition, name: str, /, **labels: str) -> Delta:
    """Change of the counter ``name`` (or a histogram's ``_sum``, ``_count``) over the series that carry
    ``labels``.

    - ``absent``: no such series in either scrape. Never 0.
    - ``mixed-models``: series of several models and none is named.
    - ``reset``: the process start changed, a member's ``_created`` changed, or a member decreased or is no finite
      number. A detector that one of the scrapes lacks is not used.
    - ``absent-after``: a member of before is gone.
    - ``absent-before``: a member of after is new and cannot be taken to have been 0. A new label child (a
      finish reason that had not occurred) counts from 0 only if the same engine of the same model exposed
      another series of the same sample before: then the family was there and the child was not. A new
      engine, a new model, or a family that was not there may have counted before the window.
    """
    old, new = before.select(name, **labels), after.select(name, **labels)
    if not old and not new:
        return Delta(None, "absent", f"{name} is in neither scrape")
    if len(_models(old | new)) > 1:
        listed = ", ".join(sorted(str(model) for model in _models(old | new)))
        return Delta(None, "mixed-models", f"{name} has series of several models ({listed})")
    if reset := _restarted(before, after) or _went_back(before, after, old, new):
        return Delta(None, "reset", reset)
    for key in sorted(old.keys() ^ new.keys()):
        if key in old:
            return Delta(None, "absent-after", f"{_written(key)} is gone")
        if not _family_known(before, key):
            return Delta(None, "absent-before", f"{_written(key)} is new")
    return Delta(sum(value - old.get(key, 0.0) for key, value in sorted(new.items())), None)


def _restarted(before: Exposition, after: Exposition) -> str | None:
    old, new = before.select(metrics.PROCESS_START), after.select(metrics.PROCESS_START)
    if old and new and old != new:
        return f"{metrics.PROCESS_START} changed: the server process is another one"
    return None


def _went_back(
    before: Exposition, after: Exposition, old: Mapping[SeriesKey, float], new: Mapping[SeriesKey, float]
) -> str | None:
    """What tells that a member of both scrapes began anew between them."""
    for key in sorted(old.keys() & new.keys()):
        twin = (_twin(key[0]), key[1])
        born, born_after = before.series.get(twin), after.series.get(twin)
        if born is not None and born_after is not None and born != born_after:
            return f"{_written(twin)} changed: the counter began anew"
        if not -math.inf < old[key] <= new[key] < math.inf:  # in this form NaN counts as a reset too
            return f"{_written(key)} went from {old[key]:g} to {new[key]:g}"
    return None


def _family_known(before: Exposition, key: SeriesKey) -> bool:
    place = {label: value for label, value in key[1] if label in (metrics.ENGINE_LABEL, metrics.MODEL_LABEL)}
    return bool(before.select(key[0], **place))
