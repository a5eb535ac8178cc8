"""What is known of the load generator in a cell."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from runner.analysis.cell import Cell
from runner.analysis.in_flight import achieved_concurrency, asked
from runner.analysis.stamps import clocks
from runner.analysis.value import Absent, Value
from runner.record.parts import ProcessWatched


@dataclass(frozen=True, slots=True)
class ClientFacts:
    """Of several rounds and processes the worst, but for `upper_bounds`, which is over all events.

    `achieved` is the lowest, the lags (p99, seconds), the shares of a processor and the drift (seconds, either way)
    are the highest. `queued` is the share of a round's time in which a process could run and waited for a processor.
    `upper_bounds` is the share of token events of which the stamp says only by when they had come. `why_user` says why
    the kernel did not stamp.
    """

    processes: Value
    asked: int
    achieved: Value
    loop_lag: Value
    read_lag: Value
    cpu: Value
    queued: Value
    clocks: list[str]
    why_user: list[str]
    upper_bounds: Value
    drift: Value


def client_facts(cell: Cell) -> ClientFacts | None:
    """The facts of a cell's rounds; None where neither the client watched itself nor the stamps say what was in flight.

    A figure that one of the rounds does not have is absent: the worst of the others is not the worst.
    """
    achieved = _lowest([achieved_concurrency(round_) for round_ in cell.rounds])
    watched = [process for round_ in cell.rounds if round_.client is not None for process in round_.client.processes]
    if not watched and isinstance(achieved, Absent):
        return None
    whole = bool(watched) and all(round_.client is not None and round_.client.processes for round_ in cell.rounds)

    def worst(read: Callable[[ProcessWatched], float | None], why: str) -> Value:
        return _highest(map(read, watched), why) if whole else Absent("client-unwatched")

    per_round = [len(round_.client.processes) for round_ in cell.rounds if round_.client is not None]
    events = [one.events for round_ in cell.rounds for one in round_.ok if one.events is not None]
    stamps = sum(len(one.at_ns) for one in events)
    return ClientFacts(
        processes=float(max(per_round)) if whole else Absent("client-unwatched"),
        asked=max(asked(round_) for round_ in cell.rounds),
        achieved=achieved,
        loop_lag=worst(lambda one: None if one.loop_lag_p99_ns is None else one.loop_lag_p99_ns / 1e9, "no-timer"),
        read_lag=worst(lambda one: None if one.read_lag_p99_ns is None else one.read_lag_p99_ns / 1e9, "no-read-lag"),
        cpu=worst(lambda one: one.cpu_seconds / one.seconds if one.seconds else None, "not-said"),
        queued=worst(
            lambda one: None if one.queued_seconds is None or not one.seconds else one.queued_seconds / one.seconds,
            "not-said",
        ),
        clocks=clocks(request for round_ in cell.rounds for request in round_.ok),
        why_user=list(dict.fromkeys(one.why_user for one in watched if one.why_user is not None)),
        upper_bounds=sum(len(one.bounds) for one in events) / stamps if stamps else Absent("not-streamed"),
        drift=worst(lambda one: abs(one.drift_ns) / 1e9, "not-said"),
    )


def _highest(values: Iterable[float | None], why: str) -> Value:
    known = []
    for value in values:
        if value is None:
            return Absent(why)
        known.append(value)
    return max(known)


def _lowest(values: Iterable[Value]) -> Value:
    known = []
    for value in values:
        if isinstance(value, Absent):
            return value
        known.append(value)
    return min(known) if known else Absent("not-measured")
