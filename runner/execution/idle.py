"""When an engine has finished what was sent to it: the gauges are empty, and the counter has caught up."""

from collections.abc import Sequence

import httpx

from runner.engine import metrics
from runner.engine.exposition import Exposition, delta
from runner.engine.verdict import Verdict
from runner.execution.context import Context
from runner.load.reading import Judged
from runner.sample.scrape import Idle, Scrape, wait_idle
from runner.target.base import RunningEngine


class IdleWatch:
    """Knows what one engine process was sent and has not been seen to finish.

    An answer can reach the client before the counters move: a scrape that races it begins or ends a window in
    the wrong place.
    """

    def __init__(self, context: Context, engine: RunningEngine) -> None:
        self._context, self._engine = context, engine
        self._answered = 0
        self._seen: Exposition | None = None

    def begins(self, scrape: Scrape) -> None:
        """Hear what a process that answers already has finished for others; one that does not answer yet has
        finished nothing."""
        self._seen = scrape.exposition

    def answered(self, judged: Sequence[Judged]) -> None:
        """Hear of exchanges; the ok ones must show in the counter."""
        self._answered += sum(one.verdict is Verdict.OK for one in judged)

    async def idle(self, client: httpx.AsyncClient) -> Idle:
        """The scrape that shows the engine idle and every answered request counted, or the reason why not.

        Waits within the plan's limit, while the engine lives and the run is not stopped.
        """
        found = await wait_idle(
            client,
            self._engine.endpoint,
            self._context.clock,
            timeout=self._context.plan.limits.idle_seconds,
            finished=self._missing,
            alive=lambda: self._engine.exit_code() is None and self._engine.stranger() is None,
            stop=self._context.stop,
        )
        reason = found.reason or self._blind(found.scrape.exposition)
        if reason is None:
            self._seen, self._answered = found.scrape.exposition, 0
        return Idle(found.scrape, reason)

    def _finished(self, now: Exposition) -> float | None:
        """Requests finished since the engine was last seen idle; None where the counter is absent or was reset."""
        if self._seen is None:
            return now.total(metrics.REQUEST_SUCCESS)  # a fresh process counts from 0
        return delta(self._seen, now, metrics.REQUEST_SUCCESS).value

    def _missing(self, now: Exposition) -> str | None:
        finished = self._finished(now)
        if finished is None or finished >= self._answered:
            return None
        return f"finished {finished:g} of {self._answered} requests"

    def _blind(self, now: Exposition | None) -> str | None:
        """Waiting longer does not help where the counter cannot be followed; it is not idleness either."""
        if now is None or self._finished(now) is not None:
            return None
        return f"{metrics.REQUEST_SUCCESS} is not exposed, or was reset"
