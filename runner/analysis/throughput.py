"""Request throughput of a round."""

from runner.analysis.value import Value, combine
from runner.analysis.wall import wall_seconds
from runner.record.record import Round


def throughput(round_: Round) -> Value:
    """Requests a second: ok measured requests ÷ wall time (article, sections 7-1 and 7-3).

    Failed requests are not in the numerator, and the time they took is not given back.
    """
    return combine(lambda count, wall: count / wall, float(len(round_.ok)), wall_seconds(round_))
