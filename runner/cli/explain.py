"""`run explain ID`: what a table shows and by which formula, or what an invariant judges and its parameters."""

import inspect
import sys
import textwrap
from argparse import ArgumentParser
from collections.abc import Iterator

from runner.checks.registry import CHECKS, load_checks
from runner.exit_code import ExitCode
from runner.report.table import TABLES, load_tables
from runner.report.words import Words
from runner.spec.invariants import Invariant, Invariants
from runner.spec.nearest import nearest
from runner.spec.strict import kebab
from runner.spec.tables import TABLE_IDS

_INVARIANTS = {kebab(name): name for name in Invariants.model_fields}


def main(argv: list[str]) -> int:
    """0; 2 for an id that is neither a table nor an invariant."""
    parser = ArgumentParser(
        prog="run explain",
        description="Say what a table shows and by which formula, or what an invariant judges.",
    )
    parser.add_argument("id", nargs="*", metavar="ID", help="a table or an invariant; none lists them all")
    ids = parser.parse_args(argv).id
    unknown = [one for one in ids if one not in TABLE_IDS and one not in _INVARIANTS]
    if unknown:
        found = nearest(unknown[0], [*TABLE_IDS, *_INVARIANTS])
        meant = f'did you mean "{found}"?' if found else "`run explain` lists them."
        print(f'run explain: neither a table nor an invariant is called "{unknown[0]}"; {meant}', file=sys.stderr)
        return ExitCode.INVALID
    load_tables()
    load_checks()
    print("\n\n".join("\n".join(_explain(one)) for one in ids) if ids else "\n".join(_list()))
    return 0


def _list() -> Iterator[str]:
    korean, english = Words("ko"), Words("en")
    yield "tables:"
    for name in TABLE_IDS:
        yield f"  {name:<26}{english(f'table.{name}')} ({korean(f'table.{name}')})"
    yield "invariants:"
    for invariant in _INVARIANTS:
        yield f"  {invariant:<26}{english(f'check.{invariant}')} ({korean(f'check.{invariant}')})"


def _explain(name: str) -> Iterator[str]:
    if name in TABLE_IDS:
        yield f"table {name}: {Words('en')(f'table.{name}')} ({Words('ko')(f'table.{name}')})"
        yield _prose(inspect.getdoc(TABLES[name]))
    if name in _INVARIANTS:
        parameters = _parameters(name)
        yield f"invariant {name}: {Words('en')(f'check.{name}')} ({Words('ko')(f'check.{name}')})"
        yield _prose(inspect.getdoc(parameters))
        yield _prose(inspect.getdoc(CHECKS[name]))
        for field_name, field in parameters.model_fields.items():
            default = "required" if field.is_required() else f"default {field.get_default()!r}"
            yield f"  {kebab(field_name)} ({default}): {field.description or ''}".rstrip(" :")


def _parameters(name: str) -> type[Invariant]:
    annotation = Invariants.model_fields[_INVARIANTS[name]].annotation
    candidates = (annotation, *getattr(annotation, "__args__", ()))
    return next(one for one in candidates if isinstance(one, type) and issubclass(one, Invariant))


def _prose(text: str | None) -> str:
    paragraphs = (text or "").split("\n\n")
    return "\n".join(textwrap.fill(" ".join(one.split()), 100, break_on_hyphens=False) for one in paragraphs)
