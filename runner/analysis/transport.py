"""Are times that the client took those of the engine, or of the way to it?"""

from runner.analysis.value import Absent
from runner.record.record import Record


def transport_doubt(record: Record, *arms: str) -> Absent | None:
    """Why the client's times of any of these conditions are not the engine's; None where no launch says so.

    The client's are the wall time of a round, what follows from it, and the times of single requests and tokens. What
    the engine's own histograms hold was not taken over the way.
    """
    for arm in arms:
        for engine in record.of_arm(arm):
            if engine.launched is not None and engine.launched.transport_doubt is not None:
                transport = engine.launched.transport or "?"
                return Absent("transport-doubted", {"transport": transport, "why": engine.launched.transport_doubt})
    return None
