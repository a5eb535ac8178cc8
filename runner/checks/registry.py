"""The registry: a check is a function of the record and its parameters, registered under an invariant's name."""

import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterable
from typing import TypeVar

import runner.checks
from runner.checks.finding import Finding, Judgement, Result
from runner.record.record import Record
from runner.spec.invariants import Invariant, Invariants
from runner.spec.strict import kebab

Parameters = TypeVar("Parameters", bound=Invariant)
CheckFunction = Callable[[Record, Parameters], Iterable[Finding]]

CHECKS: dict[str, Callable[[Record, Invariant], Iterable[Finding]]] = {}
_DUE: dict[str, Callable[[Record], Invariant | None]] = {}
"""Per check, the parameters by which a record has it judged although its plan does not ask for it."""


def check(
    parameters: type[Parameters], due: Callable[[Record], bool] = lambda _: False
) -> Callable[[CheckFunction[Parameters]], CheckFunction[Parameters]]:
    """Register a check for the invariant that takes these parameters; `due` says of which records it is judged though
    the plan does not ask for it. Raises ValueError for a second one."""
    [name] = [
        field_name
        for field_name, field in Invariants.model_fields.items()
        if parameters in (field.annotation, *getattr(field.annotation, "__args__", ()))
    ]

    def register(function: CheckFunction[Parameters]) -> CheckFunction[Parameters]:
        if kebab(name) in CHECKS:
            raise ValueError(f"two checks for {kebab(name)}")

        @functools.wraps(function)
        def judged(record: Record, given: Invariant) -> Iterable[Finding]:
            assert isinstance(given, parameters)
            return function(record, given)

        CHECKS[kebab(name)] = judged
        _DUE[kebab(name)] = lambda record: parameters() if due(record) else None
        return function

    return register


def load_checks() -> None:
    """Import every module of this package, so that each registers its check."""
    for module in pkgutil.iter_modules(runner.checks.__path__):
        importlib.import_module(f"{runner.checks.__name__}.{module.name}")


def run_checks(record: Record) -> list[Result]:
    """Judge every invariant that the plan asks for, or the record itself, in the order of the language."""
    load_checks()
    results = []
    for field_name, asked in record.plan.invariants:
        name = kebab(field_name)
        parameters = _DUE[name](record) if asked is None else asked
        if parameters is None:
            continue
        findings = tuple(CHECKS[name](record, parameters))
        if not findings:
            findings = (Finding(Judgement.INCONCLUSIVE, "nothing-to-judge"),)
        results.append(
            Result(
                name,
                findings,
                parameters.model_dump(mode="json", by_alias=True),
                parameters.allow_inconclusive,
            )
        )
    return results
