"""``python -m runner.simulator faults``: the table of faults as a page of Markdown, which is ``docs/faults.md``."""

from __future__ import annotations

from collections.abc import Mapping

from runner.simulator.fault_kinds import KINDS, SELECTION, Kind, Parameter

_HEAD = """\
# Faults on demand of the embedded engine

Printed by `python -m runner.simulator faults` from the table in `runner/simulator/fault_kinds.py`; a test holds the two
equal, and the experiments in `tests/e2e` hold the last column to what `run` does.

The engine reads them from the environment variable `SIMULATOR_FAULTS`, a JSON list of objects such as
`[{"kind": "http-error", "status": 503, "request": 20}]`; under `embedded: {faults: [...]}` the site file gives them to
every engine, and a condition's `env` to its own. What is not in this table (an unknown kind or key, a wrong type) ends
the process with exit code 2 and one line.

Requests are numbered as the process receives them, from 1: the readiness probe is usually the first, the proof request
the second. Seconds are real ones; the time scale does not apply to them.
"""


_NOT_READ = "nothing: the embedded engine has no GPU; of an engine that has one, the samples have no figures"


def page() -> str:
    """The whole page."""
    parts = [_HEAD, f"A fault of a reply may also say which requests it applies to: {_list(SELECTION)}\n"]
    parts.append("| kind | parameters | what a client sees | what `run` says |\n|---|---|---|---|")
    parts += [_row(name, kind) for name, kind in KINDS.items()]
    return "\n".join(parts) + "\n"


def _row(name: str, kind: Kind) -> str:
    own = _list(kind.parameters) if kind.parameters else "none of its own" if kind.scope == "request" else "none"
    said = "; or ".join(f"exit {one.exit}: {one.words}" for one in kind.outcomes) or _NOT_READ
    selectable = " †" if kind.scope == "request" else ""
    return f"| `{name}`{selectable} | {own} | {kind.seen} | {said} |"


def _list(parameters: Mapping[str, Parameter]) -> str:
    return "; ".join(_parameter(name, one) for name, one in parameters.items())


def _parameter(name: str, one: Parameter) -> str:
    kind = " \\| ".join(f"`{choice}`" for choice in one.choices) or one.type
    optional = "" if one.required else f", default `{one.default}`" if one.default is not None else ", optional"
    return f"`{name}` ({kind}{optional}): {one.text}"
