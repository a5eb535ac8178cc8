"""Is the condition in force? Judgement over what the engine logged, exposed and said of itself.

An option that was given need not be one that works: vLLM logs the arguments before it builds its configuration.
So each argument is looked for twice, as parsed and as configured, and "nothing tells" is ``unknown``, never a pass.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from .exposition import Exposition
from .log import ARGUMENTS_LINE, SPECULATIVE_KEY, LogEvidence
from .printed import Repr
from .served import ServedModel
from .server_info import ServerInfo
from .sources import SERVER_INFO, Shown, Sources, shown
from .speculation import COUNTERS, Told, is_speculative, speculative_fields, told
from .values import same, same_resolved, same_variable


class InForce(StrEnum):
    """Verdict on one argument."""

    IN_FORCE = "in-force"
    """The engine's configuration shows it."""
    PARSED = "parsed"
    """Parsed as wanted; no line of the configuration and no series shows this option at all."""
    DIFFERS = "differs"
    IGNORED = "ignored"
    """Parsed as wanted, and the engine's configuration was not built from it; or the engine shows that it does
    without it."""
    MISSING = "missing"
    """Not among the parsed arguments, where it would have to be."""
    UNKNOWN = "unknown"
    """Nothing tells; not a pass."""


CONTRADICTING: Final = (InForce.DIFFERS, InForce.IGNORED, InForce.MISSING)
"""Verdicts that speak against measuring under the condition."""


class Absent(StrEnum):
    """The type of ``ABSENT``: nothing was found. Not None, which an engine may print."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT


@dataclass(frozen=True, slots=True)
class ArgumentEvidence:
    """One argument, wanted against found. ``parsed`` and ``configured`` may be ``ABSENT``; ``source``: where that was
    found on which the verdict rests, None where nothing was."""

    name: str
    wanted: object
    parsed: object
    configured: object
    verdict: InForce
    reason: str
    quote: str | None = None
    source: str | None = None


def judge(
    wanted: Mapping[str, object],
    log: LogEvidence | None,
    exposition: Exposition | None,
    info: ServerInfo | None = None,
    models: tuple[ServedModel, ...] | None = None,
) -> list[ArgumentEvidence]:
    """One verdict for each wanted argument (``arguments.wanted``), in its order; where none is about speculation and
    the engine speculates all the same, one more that says so.

    An argument that is not among the parsed ones may equal vLLM's default, which it does not print: unknown, unless
    the configuration tells, which the log, ``cache_config_info``, ``/server_info`` or ``/v1/models`` may show. Two of
    them that show two values contradict each other, and so the argument. One that was parsed as wanted and that
    nothing shows beyond that is ``parsed``, which is less than in force. Speculation has a reader of its own: its
    default is None, so it must have been parsed, its configuration is always printed, though not every field of it, and
    where neither is to be seen the counters that exist tell whether it is on, and how many tokens it drafts.
    """
    sources = Sources(log, exposition, info, models)
    found = [
        (_judge_speculative if is_speculative(name) else _judge_plain)(name, value, sources)
        for name, value in wanted.items()
    ]
    return found if any(map(is_speculative, wanted)) else [*found, *_unasked(sources)]


def judge_environment(env: Mapping[str, str], info: ServerInfo | None) -> list[ArgumentEvidence]:
    """One verdict for each variable that an engine should have in its environment, for one that was not started here.

    ``/server_info`` lists the variables that vLLM itself knows and that have a value, but for those whose name holds
    KEY; of others, a plugin's own among them, nothing tells.
    """
    return [_judge_variable(name, text, info) for name, text in env.items()]


def _judge_variable(name: str, text: str, info: ServerInfo | None) -> ArgumentEvidence:
    listed = info.environment if info is not None else None
    found = ABSENT if listed is None else listed.get(name, ABSENT)
    agrees = None if found is ABSENT else same_variable(text, found)
    shows = f"{SERVER_INFO} shows {found!r}"

    def verdict(one: InForce, reason: str, quote: str | None = None) -> ArgumentEvidence:
        source = None if one is InForce.UNKNOWN and found is ABSENT else SERVER_INFO
        return ArgumentEvidence(f"env.{name}", text, ABSENT, found, one, reason, quote, source)

    if found is not ABSENT:
        quote = f"{name}: {found}"
        if agrees is None:
            return verdict(InForce.UNKNOWN, f"{shows}, which cannot be compared", quote)
        return verdict(*((InForce.IN_FORCE, f"{SERVER_INFO} shows it") if agrees else (InForce.DIFFERS, shows)), quote)
    if listed is None:
        return verdict(InForce.UNKNOWN, f"there is no {SERVER_INFO}")
    return verdict(InForce.UNKNOWN, f"{SERVER_INFO} does not list it")


def _judge_plain(name: str, value: object, sources: Sources) -> ArgumentEvidence:
    found = shown(name, sources)
    parsed: object = ABSENT
    if sources.log is not None and sources.log.non_default_args is not None:
        parsed = sources.log.non_default_args.get(name, ABSENT)
    fits = None if parsed is ABSENT else same(value, parsed)
    resolved = [same_resolved(name, value, one.value) for one in found]

    def verdict(one: InForce, reason: str, *at: Shown) -> ArgumentEvidence:
        by = at or tuple(found[:1])
        quote = "; ".join(each.quote for each in by if each.quote) or None
        source = ", ".join(each.source for each in by) or (None if parsed is ABSENT else ARGUMENTS_LINE)
        return ArgumentEvidence(name, value, parsed, by[0].value if by else ABSENT, one, reason, quote, source)

    if fits is False:
        return verdict(InForce.DIFFERS, f"vLLM parsed {parsed!r}")
    if pair := _disagreeing(found, resolved):
        one, other = pair
        shows = f"{one.source} shows {one.value!r}, {other.source} {other.value!r}"
        return verdict(InForce.DIFFERS, shows, one, other)
    if True in resolved:
        at = found[resolved.index(True)]
        return verdict(InForce.IN_FORCE, f"{at.source} shows it", at)
    if False in resolved:
        at = found[resolved.index(False)]
        if fits is True:
            return verdict(InForce.IGNORED, f"parsed as wanted, but {at.source} shows {at.value!r}", at)
        return verdict(InForce.DIFFERS, f"{at.source} shows {at.value!r}", at)
    if fits is True and not found:
        return verdict(InForce.PARSED, "parsed as wanted; the engine's configuration does not show this option")
    if found and parsed is ABSENT and sources.log is None:
        at = found[0]
        return verdict(InForce.UNKNOWN, f"{at.source} shows {at.value!r}, which may be its resolution")
    if fits is True:
        at = found[0]
        resolution = f"parsed as wanted; {at.source} shows {at.value!r}, which may be its resolution"
        return verdict(InForce.UNKNOWN, resolution)
    return verdict(InForce.UNKNOWN, _why_unknown(parsed, sources))


def _disagreeing(found: Sequence[Shown], resolved: Sequence[bool | None]) -> tuple[Shown, Shown] | None:
    """Two sources of which one shows the wanted value and the other does not, or that show two that can be compared."""
    for (one, fits), (other, fits_too) in itertools.combinations(zip(found, resolved, strict=True), 2):
        comparable = not isinstance(one.value, Repr) and not isinstance(other.value, Repr)
        if {fits, fits_too} == {True, False} or (comparable and same(one.value, other.value) is False):
            return one, other
    return None


def _why_unknown(parsed: object, sources: Sources) -> str:
    if sources.log is None:
        lacks = f"{SERVER_INFO} does not show it" if sources.info is not None else f"there is no {SERVER_INFO}"
        return f"there is no log, and {lacks}"
    if sources.log.non_default_args is None:
        return "the log has no line of non-default args"
    if parsed is not ABSENT:
        return f"vLLM prints it as {parsed!r}, which cannot be compared"
    return "not among the non-default args: it equals vLLM's default, or it was not given"


# ------------------------------------------------------------------------------------------------------
# Speculation


def _judge_speculative(name: str, value: object, sources: Sources) -> ArgumentEvidence:
    parsed_fields = _parsed_speculation(sources.log)
    asked = speculative_fields(name, value)
    whole = name == SPECULATIVE_KEY
    parsed: object = (
        (parsed_fields or ABSENT)
        if whole
        else next((parsed_fields[key] for key in asked if key in parsed_fields), ABSENT)
    )
    stated = _stated(sources)
    verdict, reason, at = _speculative_verdict(asked, parsed_fields, sources.log, stated)
    seen = at if verdict is InForce.PARSED else at or stated[:1]
    return ArgumentEvidence(
        name,
        value,
        parsed,
        _configured_speculation(seen, asked, whole=whole),
        verdict,
        reason,
        "; ".join(one.quote for one in seen) or None,
        ", ".join(one.source for one in seen) or (None if parsed is ABSENT else ARGUMENTS_LINE),
    )


def _parsed_speculation(log: LogEvidence | None) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, item in ((log.non_default_args if log else None) or {}).items():
        if is_speculative(key) and item is not None:
            found |= speculative_fields(key, item)
    return found


def _stated(sources: Sources) -> list[Told]:
    """What says whether the engine speculates. The counters speak where the configuration is not to be seen: one that
    is seen and has none of them is another finding."""
    every = told(sources)
    return [one for one in every if one.source != COUNTERS] or every


def _configured_speculation(seen: Sequence[Told], asked: Mapping[str, object], *, whole: bool) -> object:
    if not seen:
        return ABSENT
    if any(one.speculative is None for one in seen):
        return None
    fields = seen[0].fields
    if whole:
        return {key: fields[key] for key in asked if key in fields} or ABSENT
    return next((fields[key] for key in asked if key in fields), ABSENT)


def _speculative_verdict(
    asked: Mapping[str, object], parsed: Mapping[str, object], log: LogEvidence | None, stated: Sequence[Told]
) -> tuple[InForce, str, Sequence[Told]]:
    """Verdict, reason, and the sources that it rests on."""
    if not asked:
        return InForce.UNKNOWN, "the wanted value is no speculative configuration", ()
    logged = log is not None and log.non_default_args is not None
    if logged and (lacking := [key for key in asked if key not in parsed]):
        return InForce.MISSING, f"not among the non-default args: {', '.join(lacking)}", ()
    for key, item in asked.items():
        if logged and same(item, parsed[key]) is False:
            return InForce.DIFFERS, f"vLLM parsed {key} {parsed[key]!r}", ()
    for one in stated:
        if one.speculative is None:
            return InForce.IGNORED, f"{'parsed as wanted, but ' * logged}{_says_none(one)}", (one,)
        if unlike := [key for key, item in asked.items() if one.agrees(key, item) is False]:
            return InForce.DIFFERS, _shows(one, unlike[0]), (one,)
    for one in stated:
        if all(one.agrees(key, item) for key, item in asked.items()):
            return InForce.IN_FORCE, _in_force(one), (one,)
    certain = logged and all(same(item, parsed[key]) for key, item in asked.items())
    if certain and log is not None and log.speculative is not None:
        telling = [one for one in stated if any(one.agrees(key, item) for key, item in asked.items())]
        untold = [key for key, item in asked.items() if not any(one.agrees(key, item) for one in telling)]
        if untold:
            return InForce.PARSED, f"parsed as wanted; nothing tells what became of {', '.join(untold)}", telling
        return InForce.IN_FORCE, f"{' and '.join(one.source for one in telling)} show the speculation", telling
    return InForce.UNKNOWN, _why_unknown_speculation(asked, parsed, log, stated), ()


def _says_none(one: Told) -> str:
    return {
        COUNTERS: "the engine exposes its metrics and none of speculation's, which exist wherever it is configured",
        SERVER_INFO: f"{SERVER_INFO} says {SPECULATIVE_KEY} null",
    }.get(one.source, f"the engine's configuration says {SPECULATIVE_KEY}=None")


def _shows(one: Told, key: str) -> str:
    found = one.fields[key]
    where = "" if one.source not in (SERVER_INFO, COUNTERS) else f"{one.source}: "
    return where + {
        "method": f"the engine speculates by the method {str(found)!r}",
        "num_speculative_tokens": f"the engine drafts {found} tokens",
        "model": f"the engine drafts with the model {found!r}",
    }.get(key, f"{key} is {found!r}")


def _in_force(one: Told) -> str:
    if one.source == COUNTERS:
        return "the draft counters exist, with one position for each of these tokens"
    return f"{one.source} shows the speculation"


def _why_unknown_speculation(
    asked: Mapping[str, object], parsed: Mapping[str, object], log: LogEvidence | None, stated: Sequence[Told]
) -> str:
    if log is not None and log.non_default_args is not None:
        if log.speculative is None:
            return "parsed as wanted; the log has no line of the engine's configuration"
        uncertain = [key for key, item in asked.items() if same(item, parsed[key]) is None]
        return f"what vLLM printed cannot be compared: {', '.join(uncertain)}"
    why = "there is no log" if log is None else "the log has no line of non-default args"
    if not stated:
        return f"{why}, and nothing else tells of speculation"
    untold = [key for key, item in asked.items() if stated[0].agrees(key, item) is None]
    return f"{why}; by {stated[0].source} it speculates, and nothing tells its {', '.join(untold)}"


def _unasked(sources: Sources) -> list[ArgumentEvidence]:
    """An engine that speculates although nobody asked for it."""
    found = [one for one in told(sources) if one.speculative is not None]
    if not found:
        return []
    configured = {key: value for key, value in found[0].fields.items() if key in _TELLING} or str(found[0].speculative)
    where = ", ".join(one.source for one in found)
    return [
        ArgumentEvidence(
            SPECULATIVE_KEY,
            None,
            _parsed_speculation(sources.log) or ABSENT,
            configured,
            InForce.DIFFERS,
            f"not asked for, and yet the engine speculates: {where}",
            "; ".join(one.quote for one in found),
            where,
        )
    ]


_TELLING: Final = ("method", "model", "num_speculative_tokens")
