"""What one request brought, as it came: nothing of it has been read yet."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from runner.load.stamps import Note

OUTCOMES = ("complete", "closed", "reset", "not-http", "refused", "timed-out", "interrupted")
"""How a request may end, as its connection and its slot see it."""


@dataclass(slots=True)
class Arrival:
    """One request that is over, and each read of its answer.

    Times are nanoseconds of the monotonic clock. `connect_ns` are those at which its connection was asked for and was
    open, None where one was open already. `outcome` is one of `OUTCOMES`.
    """

    index: int
    planned_ns: int
    connect_ns: tuple[int, int] | None
    sent_ns: int | None
    ended_ns: int
    outcome: str
    detail: str
    data: Sequence[bytes] = ()
    notes: Sequence[Sequence[Note]] = ()
    seen: Sequence[int] = field(default=())
