"""Are times that the client took those of the engine?"""

from runner.analysis.cell import Cell
from runner.analysis.transport import transport_doubt
from runner.analysis.value import Absent


def client_times_doubt(*cells: Cell) -> Absent | None:
    """Why the client's times in any of these cells are not the engine's: the way to it, or the client as the limit.

    The client's are the wall time of a round, what follows from it, and the times of single requests and tokens.
    """
    for one in cells:
        doubt = transport_doubt(one.record, one.arm.id) or one.client_limit
        if doubt is not None:
            return doubt
    return None
