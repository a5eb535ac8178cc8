"""Faults on demand: ``SIMULATOR_FAULTS`` is a JSON list of ``{"kind": ..., parameters}``.

The kinds and their parameters are the table in :mod:`runner.simulator.fault_kinds`, printed in ``docs/faults.md``.
Requests are counted as this process receives them, from 1, readiness probes included.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runner.simulator.fault_kinds import KINDS, Parameter, keys_of

SPECULATIVE_FLAGS = ("speculative_config", "spec_method", "spec_model", "spec_tokens")


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault; `parameters` are its JSON object's, defaults filled in."""

    kind: str
    parameters: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.parameters[name]

    def get(self, name: str) -> Any:
        """A parameter that has no default; None if it was not given."""
        return self.parameters.get(name)

    def selects(self, request: int) -> bool:
        """True if the fault applies to the request of this number."""
        if "request" in self.parameters:
            return bool(request == self["request"])
        if "every" in self.parameters and request % self["every"]:
            return False
        return bool(request >= self.parameters.get("from", 1))


class Faults:
    """The faults of one process."""

    def __init__(self, faults: list[Fault]) -> None:
        self._faults = faults

    def of_kind(self, kind: str) -> list[Fault]:
        """All faults of a kind."""
        return [fault for fault in self._faults if fault.kind == kind]

    def parameter(self, kind: str, name: str) -> Any:
        """A parameter of the first fault of a kind; None without one."""
        return next((fault[name] for fault in self.of_kind(kind)), None)

    def of_request(self, number: int) -> dict[str, Fault]:
        """Faults by kind that apply to a request."""
        return {
            fault.kind: fault
            for fault in self._faults
            if KINDS[fault.kind].scope == "request" and fault.selects(number)
        }

    def due(self, kind: str, requests: int) -> list[Fault]:
        """Faults of a kind whose ``after_requests`` has just been reached."""
        return [fault for fault in self.of_kind(kind) if requests == fault["after_requests"]]

    def ignored_flags(self, form: str) -> list[str]:
        """Argparse destinations whose flags are ignored in this form."""
        destinations: list[str] = []
        for fault in self.of_kind("flag-ignored"):
            if fault["form"] == form:
                flag = fault["flag"].removeprefix("--").replace("-", "_")
                destinations += SPECULATIVE_FLAGS if flag == "speculative" else (flag,)
        return destinations

    @property
    def all_ignored_flags(self) -> list[str]:
        """Argparse destinations of every ``flag-ignored``."""
        forms = KINDS["flag-ignored"].parameters["form"].choices
        return [name for form in forms for name in self.ignored_flags(form)]

    @property
    def without_drafts(self) -> bool:
        """True if speculation claims to be on and proposes nothing."""
        return bool(self.ignored_flags("flat-counters"))


def parse(text: str) -> Faults:
    """Faults of the environment variable's value. Raises ValueError, one line, for anything not in the table."""
    try:
        raw = json.loads(text or "[]")
    except json.JSONDecodeError as error:
        raise ValueError(f"SIMULATOR_FAULTS is no JSON: {error}") from None
    if not isinstance(raw, list):
        raise ValueError("SIMULATOR_FAULTS must be a JSON list")  # noqa: TRY004 -- one exception for every bad value
    return Faults([_fault(item) for item in raw])


def _fault(item: object) -> Fault:
    name = item.get("kind") if isinstance(item, dict) else None
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None or not isinstance(item, dict) or not isinstance(name, str):
        raise ValueError(f"no fault {json.dumps(item)}: an object whose kind is one of {', '.join(KINDS)}")
    keys = keys_of(kind)
    given = {key: value for key, value in item.items() if key != "kind"}
    if unknown := [key for key in given if key not in keys]:
        raise ValueError(f"fault {name!r} has no {', '.join(unknown)}: it takes {', '.join(keys) or 'nothing'}")
    if missing := [key for key, parameter in keys.items() if parameter.required and key not in given]:
        raise ValueError(f"fault {name!r} needs {', '.join(missing)}")
    for key, value in given.items():
        if (wanted := _wanted(keys[key], value)) is not None:
            raise ValueError(f"fault {name!r}: {key} must be {wanted}, not {json.dumps(value)}")
    if "request" in given and len({"request", "from", "every"} & set(given)) > 1:
        raise ValueError(f"fault {name!r}: request stands alone, without from and every")
    defaults = {key: parameter.default for key, parameter in keys.items() if parameter.default is not None}
    return Fault(name, {**defaults, **given})


def _wanted(parameter: Parameter, value: object) -> str | None:
    """What a value should have been, in words; None if it is right."""
    if parameter.choices:
        return None if value in parameter.choices else f"one of {', '.join(parameter.choices)}"
    if parameter.type == "text":
        return None if isinstance(value, str) and value else "text"
    number = isinstance(value, int) if parameter.type == "integer" else isinstance(value, int | float)
    least = -sys.float_info.max if parameter.least is None else parameter.least
    most = sys.float_info.max if parameter.most is None else parameter.most
    if number and not isinstance(value, bool) and isinstance(value, int | float) and least <= value <= most:
        return None
    words = "a whole number" if parameter.type == "integer" else "a number"
    words += "" if parameter.least is None else f", {parameter.least:g} or more"
    return words if parameter.most is None else f"{words}, {parameter.most:g} at most"
