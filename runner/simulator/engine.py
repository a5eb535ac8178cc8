"""The step loop: runs the pure scheduler against the clock and hands out each step's tokens at its end.

Deadlines are absolute (previous deadline + step time), so that a timer's granularity or a busy moment
delays one step's delivery but never the pace. When the engine was idle, the pace starts anew.

The scale multiplies waits and nothing else: what a step holds follows from the arrivals and the step times alone.
Arrivals come from outside and are not scaled, so between a reply and the same client's next request the HTTP side
takes its real time, which is 1 / scale times as much of the engine's. Many clients that finish in one step
therefore see a lower throughput the smaller the scale is.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable

from runner.simulator import statistics
from runner.simulator.scheduler import Output, Scheduler
from runner.simulator.sequence import Sequence
from runner.simulator.statistics import StepStatistics
from runner.simulator.step_time import StepTime

Sink = Callable[[Output], None]
_STALL_POLL = 0.05  # seconds


class Engine:
    """One engine core. All methods belong to the event loop's thread.

    `record` gets the statistics of every step before its tokens are handed out. `clock` gives seconds, the same
    that requests carry as ``arrived_at``. It is not the loop's own by default: uvloop's ``time()`` is cut to
    milliseconds, and a queue time taken from two clocks could be negative.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        step_time: StepTime,
        scale: float,
        record: Callable[[StepStatistics], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._scheduler = scheduler
        self._step_time = step_time
        self._scale = scale
        self._record = record
        self._clock = clock
        self._sinks: dict[Sequence, Sink] = {}
        self._work = asyncio.Event()
        self.hung = False
        self._stalled_until = -math.inf

    def submit(self, sequence: Sequence, sink: Sink) -> None:
        """Queue a request; `sink` is called with each of its outputs."""
        self._sinks[sequence] = sink
        self._scheduler.add(sequence)
        if self._stalled_for > 0:
            self._record(statistics.gauges(self._scheduler))
        self._work.set()

    def stall(self, seconds: float | None) -> None:
        """Schedule nothing for so many seconds, or ever again; the gauges go on showing who waits."""
        self._stalled_until = math.inf if seconds is None else self._clock() + seconds

    @property
    def _stalled_for(self) -> float:
        return self._stalled_until - self._clock()

    def abort(self, sequence: Sequence) -> None:
        """Drop a request whose client has gone. Not counted anywhere, as in vLLM."""
        if self._sinks.pop(sequence, None) is not None:
            self._scheduler.abort(sequence)
            if not self.hung:
                self._record(statistics.gauges(self._scheduler))

    def abort_all(self) -> None:
        """End every request with finish reason ``abort``."""
        for sequence, sink in list(self._sinks.items()):
            self.abort(sequence)
            sink(Output(sequence, [], None, "abort"))

    def reset_prefix_cache(self) -> bool:
        """Forget cached blocks; False while requests hold blocks."""
        if self._scheduler.pool.usage > 0:
            return False
        self._scheduler.pool.reset()
        return True

    async def run(self) -> None:
        """Step for ever."""
        deadline = self._clock()
        while True:
            if self.hung or not self._scheduler.has_work:
                self._work.clear()
                await self._work.wait()
                deadline = self._clock()
                continue
            if self._stalled_for > 0:
                await asyncio.sleep(min(self._stalled_for, _STALL_POLL))
                deadline = self._clock()
                continue
            plan = self._scheduler.schedule(self._clock())
            seconds = self._step_time.seconds(plan.total_tokens, len(plan.sequences))
            deadline += seconds * self._scale
            # sleep(0) when late: the server must still get its turn between two steps.
            await asyncio.sleep(max(0.0, deadline - self._clock()))
            result = self._scheduler.complete(plan, self._clock())
            self._record(statistics.of_step(self._scheduler, plan, result))
            for output in result.outputs:
                sink = self._sinks.pop(output.sequence, None) if output.finish else self._sinks.get(output.sequence)
                if sink:
                    sink(output)
