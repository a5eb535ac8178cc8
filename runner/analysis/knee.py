"""The operating point: where more concurrency stops paying."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from runner.analysis.cell import cell, concurrencies
from runner.analysis.gauges import gauge
from runner.analysis.separation import workload
from runner.analysis.value import Absent, Value
from runner.record.record import Record

MATERIAL_GAIN = 0.10
"""Throughput must grow by more than this from one grid point to the next to have been worth it."""


@dataclass(frozen=True, slots=True)
class GridPoint:
    """One concurrency: throughput in requests a second, and the median of waiting requests."""

    concurrency: int
    throughput: Value
    waiting: Value


@dataclass(frozen=True, slots=True)
class Knee:
    """The knee and the first grid point beyond it; or why none was found."""

    concurrency: int
    beyond: int


def find_knee(points: Sequence[GridPoint]) -> Knee | Absent:
    """The highest concurrency whose gain over the previous grid point, and over every lower one, is material and which
    leaves no queue (article, section 9-4); the lowest one where no gain is.

    Absent when the knee is outside the grid: above it (`knee-not-reached`) where the last point still paid and
    left no queue, below it (`knee-below-grid`) where the first one queues already; and when a throughput, or the
    queue at a point that would decide, is not known.
    """
    ordered = sorted(points, key=lambda point: point.concurrency)
    if ordered and _queues(ordered[0]):
        return Absent("knee-below-grid", {"lowest": ordered[0].concurrency})
    best = 0
    for index, (here, following) in enumerate(itertools.pairwise(ordered), start=1):
        if isinstance(here.throughput, Absent):
            return here.throughput
        if isinstance(following.throughput, Absent):
            return following.throughput
        lower = max(one.throughput for one in ordered[:index] if not isinstance(one.throughput, Absent))
        if min(following.throughput / here.throughput, following.throughput / lower) - 1 > MATERIAL_GAIN:
            if isinstance(following.waiting, Absent):
                return Absent("queue-unknown", {"concurrency": following.concurrency})
            best = best if _queues(following) else index
    if best == len(ordered) - 1:
        return Absent("knee-not-reached", {"highest": ordered[-1].concurrency})
    return Knee(ordered[best].concurrency, ordered[best + 1].concurrency)


def _queues(point: GridPoint) -> bool:
    return not isinstance(point.waiting, Absent) and point.waiting > 0


def knee(record: Record, arm: str) -> Knee | Absent:
    """The knee of an arm over the plan's grid; absent where its phases send different prompts."""
    if len({workload(record, level) for level in concurrencies(record)}) > 1:
        return Absent("phases-differ")
    points = []
    for level in concurrencies(record):
        one = cell(record, arm, level)
        waiting = gauge(one.rounds, lambda sample: sample.waiting)
        points.append(
            GridPoint(
                level,
                one.incomplete or one.throughput,
                waiting if isinstance(waiting, Absent) else waiting.median,
            )
        )
    return find_knee(points)
