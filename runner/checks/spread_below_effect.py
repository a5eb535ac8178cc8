"""The rounds' own spread is smaller than the effect (article, 7-3 and 8-3)."""

from collections.abc import Iterator
from statistics import fmean

from runner.analysis.cell import Cell, concurrencies
from runner.analysis.comparison import Comparison, comparison
from runner.analysis.separation import Separation, separation
from runner.analysis.throughput import throughput
from runner.analysis.value import Absent, Value
from runner.checks.finding import Finding, Judgement
from runner.checks.registry import check
from runner.record.record import Record
from runner.spec.invariants import SpreadBelowEffect


@check(SpreadBelowEffect)
def spread_below_effect(record: Record, parameters: SpreadBelowEffect) -> Iterator[Finding]:
    """Per arm and concurrency above 1: |throughput ratio − 1| against the larger of the two cells' spreads, which
    is (largest − smallest) ÷ mean of the rounds' throughput. Where the spread is not smaller, or another concurrency
    that runs the same batch does not show the effect, the rounds do not tell it from noise: open, not failed."""
    if not record.plan.others:
        yield Finding(Judgement.NOT_APPLICABLE, "one-condition")
    for arm in record.plan.others:
        if parameters.conditions is not None and arm.condition not in parameters.conditions:
            continue
        for level in concurrencies(record):
            if level > 1:
                yield _judge(record, comparison(record, arm.id, level), parameters.factor)
    if record.plan.others and max(concurrencies(record)) == 1:
        yield Finding(Judgement.NOT_APPLICABLE, "only-sequential")


def _judge(record: Record, pair: Comparison, factor: float) -> Finding:
    subject = f"{pair.other.arm.label} C={pair.base.concurrency}"
    found = pair.throughput_ratio
    if isinstance(found, Absent):
        return Finding(Judgement.INCONCLUSIVE, found.reason, found.figures, subject)
    spreads: list[float] = []
    for cell in (pair.base, pair.other):
        spread = _spread(cell)
        if isinstance(spread, Absent):
            return Finding(Judgement.INCONCLUSIVE, spread.reason, spread.figures, subject)
        spreads.append(spread)
    figures: dict[str, float | str] = {"effect": abs(found - 1), "spread": max(spreads), "factor": factor}
    apart = separation(record, pair.other.arm.id, pair.base.concurrency)
    if isinstance(apart, Separation) and apart.unconfirmed:
        levels = ", ".join(f"C={level}" for level in apart.unconfirmed)
        return Finding(Judgement.INCONCLUSIVE, "effect-not-confirmed", {**figures, "levels": levels}, subject)
    if abs(found - 1) > factor * max(spreads):
        return Finding(Judgement.PASS, "effect-above-spread", figures, subject)
    return Finding(Judgement.INCONCLUSIVE, "effect-within-spread", figures, subject)


def _spread(cell: Cell) -> Value:
    if len(cell.rounds) < 2:
        return Absent("one-round", {"n": len(cell.rounds)})
    rates: list[float] = []
    for round_ in cell.rounds:
        rate = throughput(round_)
        if isinstance(rate, Absent):
            return rate
        rates.append(rate)
    return (max(rates) - min(rates)) / fmean(rates)
