"""Two roads to the mean latency: the engine's histogram, and the client's wall time (article, 7-3)."""

from runner.analysis.latency import server_mean_latency
from runner.analysis.value import Value, combine
from runner.analysis.wall import wall_seconds
from runner.plan.model import PlannedPhase
from runner.record.record import Round

ENOUGH_WAVES = 4
"""Below so many waves (requests ÷ concurrency) the concurrency is not kept up for most of the round, and the wall
time over-estimates the latency by the ramps at both ends."""


def latency_by_wall(round_: Round) -> Value:
    """Wall time × concurrency ÷ ok requests, in seconds: Little's law for a closed loop that is always full."""
    count = float(len(round_.ok))
    return combine(lambda wall, n: wall * round_.concurrency / n, wall_seconds(round_), count)


def disagreement(round_: Round, phase: PlannedPhase) -> Value:
    """Latency by the wall ÷ the histogram's mean − 1."""
    return combine(lambda wall, server: wall / server - 1, latency_by_wall(round_), server_mean_latency(round_, phase))


def waves(round_: Round) -> float:
    """Measured requests ÷ concurrency."""
    return len(round_.of_role("measured")) / round_.concurrency
