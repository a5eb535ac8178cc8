"""A cell: one condition at one concurrency, with all its rounds, and what is wrong with it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from runner.analysis.client_limit import client_limit
from runner.analysis.counters import counter_delta, window_requests
from runner.analysis.latency import client_latencies, mean_latency
from runner.analysis.throughput import throughput
from runner.analysis.value import Absent, Value, mean
from runner.analysis.wall import wall_seconds
from runner.engine import metrics
from runner.plan.model import Arm, PlannedPhase
from runner.record.events import RequestDone
from runner.record.record import Record, Round


@dataclass(frozen=True)
class Cell:
    """One condition at one concurrency. Values are means of the rounds, each computed unrounded."""

    record: Record
    arm: Arm
    phase: PlannedPhase
    concurrency: int

    @property
    def rounds(self) -> list[Round]:
        """All rounds, over replicates."""
        return self.record.rounds(self.arm.id, self.phase.name, self.concurrency)

    @property
    def planned_rounds(self) -> int:
        """How many rounds there should be."""
        return self.phase.rounds * self.record.plan.replicates

    @property
    def failed(self) -> list[RequestDone]:
        """Requests of any role that are not ok: a warm-up that failed has warmed nothing up."""
        return [
            request
            for round_ in self.rounds
            for request in round_.of_role("warm-up", "excluded", "measured")
            if request.verdict != "ok"
        ]

    @property
    def rounds_missing(self) -> Absent | None:
        """How many rounds there are of those planned, or None when all are complete."""
        complete = sum(round_.finished is not None and round_.finished.complete for round_ in self.rounds)
        return None if complete == self.planned_rounds else self._done(complete)

    def _done(self, rounds: int) -> Absent:
        cut = [one.finished.cut_after for one in self.rounds if one.finished is not None and one.finished.cut_after]
        if cut:
            return Absent("rounds-cut", {"done": rounds, "planned": self.planned_rounds, "seconds": cut[0]})
        return Absent("rounds-missing", {"done": rounds, "planned": self.planned_rounds})

    @property
    def incomplete(self) -> Absent | None:
        """Why the cell's figures must not be compared, or None when nothing speaks against it."""
        if self.rounds_missing is not None:
            return self.rounds_missing
        allowed = self.record.plan.limits.max_failed
        if len(self.failed) > allowed:
            return Absent("requests-failed", {"failed": len(self.failed), "allowed": allowed})
        # However many failures are tolerated, a round without any answer is none.
        answered = sum(bool(round_.ok) for round_ in self.rounds)
        return None if answered == self.planned_rounds else self._done(answered)

    @property
    def client_limit(self) -> Absent | None:
        """Why the client's times are not the engine's, by the first round that says so: the client was the limit."""
        return next((limit for round_ in self.rounds if (limit := client_limit(round_)) is not None), None)

    @property
    def wall(self) -> Value:
        """Mean wall time of the rounds, in seconds."""
        return self._mean(wall_seconds)

    @property
    def throughput(self) -> Value:
        """Mean throughput of the rounds, in requests a second."""
        return self._mean(throughput)

    @property
    def mean_latency(self) -> Value:
        """Mean latency of the rounds, in seconds."""
        return self._mean(lambda round_: mean_latency(round_, self.phase))

    @property
    def latencies(self) -> list[float]:
        """The client's single latencies over all rounds, in seconds."""
        return [seconds for round_ in self.rounds for seconds in client_latencies(round_)]

    @property
    def contaminated(self) -> list[Round]:
        """Rounds in which the engine finished more than was sent, tolerated by the spec or not."""
        return [
            round_ for round_ in self.rounds if isinstance(extra := surplus(round_, self.phase), float) and extra > 0
        ]

    def _mean(self, metric: Callable[[Round], Value]) -> Value:
        if not self.rounds:
            return Absent("not-measured")
        return self.rounds_missing or mean([metric(round_) for round_ in self.rounds])


def surplus(round_: Round, phase: PlannedPhase) -> Value:
    """Finished requests in the window beyond those sent; negative when fewer finished than were answered."""
    count = counter_delta(round_, metrics.E2E_COUNT)
    if isinstance(count, Absent):
        return count
    ok, sent = window_requests(round_, warm_up_counted=phase.warm_up_counted)
    if count > sent:
        return count - sent
    return min(count - ok, 0.0)


def cells(record: Record) -> Iterator[Cell]:
    """Every planned cell: by concurrency, then by arm."""
    for phase, concurrency in record.plan.grid:
        for arm in record.plan.arms:
            yield Cell(record, arm, phase, concurrency)


def cell(record: Record, arm: str, concurrency: int) -> Cell:
    """The cell of an arm at a concurrency. Raises KeyError where it is not planned."""
    for phase, level in record.plan.grid:
        if level == concurrency:
            return Cell(record, record.plan.arm(arm), phase, concurrency)
    raise KeyError(concurrency)


def concurrencies(record: Record) -> list[int]:
    """The grid, in the spec's order."""
    return [level for _, level in record.plan.grid]
