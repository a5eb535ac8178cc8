"""What a run took is given back: the last taken first, each told of, whatever goes wrong with another."""

import asyncio
import contextlib
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from runner.record.events import BaselineRestored, BaselineSaved, Event
from runner.record.parts import Compared
from runner.target.base import TargetError
from runner.target.kubernetes.calls import written
from runner.target.kubernetes.cluster_error import ClusterError
from runner.target.kubernetes.hold import NotOurs


@dataclass(frozen=True, slots=True)
class Outcome:
    """Why something is not as it was (None: it is), its facts before and after, and fields of it that differ."""

    reason: str | None = None
    compared: tuple[Compared, ...] = ()
    differences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Taken:
    """Something that this run takes or makes, and how it is given back.

    `hastily` makes the writes for that and waits for nothing, where `back` was interrupted; it blocks, and says what
    was done. `deleted` is the command by which a person does it where the object is not there any more.
    """

    saved: BaselineSaved
    back: Callable[[], Awaitable[Outcome]]
    hastily: Callable[[], str]
    deleted: str


async def give_back(taken: list[Taken], emit: Callable[[Event], None]) -> None:
    """Put everything back, the last taken first, and say of each whether it is what it was; `taken` is empty then. What
    fails keeps nothing else from being put back. Interrupted, it waits for nothing any more, and writes all the same.
    Raises nothing but the interruption, and that last."""
    interrupted: asyncio.CancelledError | None = None
    while taken:
        one = taken.pop()
        started = time.monotonic()
        if interrupted is None:
            try:
                found, by_hand = await _tried(one, one.back)
            except asyncio.CancelledError as error:
                interrupted = error
        if interrupted is not None:
            try:
                found, by_hand = await _tried(one, partial(_hastily, one))
            except asyncio.CancelledError as error:
                interrupted = error
                found, by_hand = Outcome("interrupted before it was known to be done"), one.saved.by_hand
        _tell(one.saved, found, by_hand, round(time.monotonic() - started, 3), emit)
    if interrupted is not None:
        raise interrupted


async def _tried(taken: Taken, back: Callable[[], Awaitable[Outcome]]) -> tuple[Outcome, str]:
    """What came of it, and the command by which a person does it. Raises CancelledError alone."""
    by_hand = taken.saved.by_hand
    try:
        return await back(), by_hand
    except NotOurs as error:
        return Outcome(str(error), (), tuple(error.lines())), taken.deleted if error.deleted else by_hand
    except (ClusterError, TargetError) as error:
        return Outcome(str(error)), by_hand
    except Exception as error:  # a bug of ours, or a full disk: the rest is to be put back all the same
        return Outcome(f"{type(error).__name__}: {error}"), by_hand


async def _hastily(taken: Taken) -> Outcome:
    done = await written(taken.hastily)
    return Outcome(f"interrupted before it was done; {done}")


def _tell(saved: BaselineSaved, found: Outcome, by_hand: str, seconds: float, emit: Callable[[Event], None]) -> None:
    """Where the journal cannot be written, say it to the terminal at least."""
    try:
        emit(
            BaselineRestored(
                what=saved.what,
                how=saved.how,
                restored=found.reason is None,
                reason=found.reason,
                compared=list(found.compared),
                differences=list(found.differences),
                by_hand=by_hand,
                seconds=seconds,
            )
        )
    except Exception as error:
        done = "restored" if found.reason is None else f"NOT restored: {found.reason}"
        with contextlib.suppress(OSError, ValueError):
            print(f"{saved.what}: {done} (this could not be recorded: {error})", file=sys.stderr)
            if found.reason is not None:
                print(f"  | by hand: {by_hand}", file=sys.stderr, flush=True)
