"""The forward model: the speed-up that the counters let expect (article, 5-3)."""

from dataclasses import dataclass
from statistics import fmean

from runner.analysis.acceptance import drafting, tokens_per_decode_step
from runner.analysis.cell import Cell
from runner.analysis.counters import summed_delta
from runner.analysis.value import Absent, Value, combine, ratio
from runner.engine import metrics


@dataclass(frozen=True, slots=True)
class ForwardModel:
    """Of one arm against the baseline at one concurrency; counts are per request.

    A draft step emits its accepted tokens and one more, every other step emits one: a reconstruction, which takes
    the cost of a step to be the same in both arms (`predicted`). `with_step_cost` drops that: tokens per decode
    step × step time of the baseline ÷ step time of the other, all three from the engine's own histograms. Those hold
    every request of the window, excluded and foreign ones too, and so does `measured_in_window`: the baseline's mean
    end-to-end latency ÷ the other's, of the same engines' histograms over the same windows.
    """

    requests: Value
    drafts: Value
    accepted: Value
    completion_tokens: Value
    tokens_per_step: Value
    step_time_ratio: Value
    measured_in_window: Value

    @property
    def of_drafts(self) -> Value:
        """Tokens that draft steps emit: accepted + drafts."""
        return combine(lambda a, d: a + d, self.accepted, self.drafts)

    @property
    def plain_steps(self) -> Value:
        """Steps without a draft, one token each: completion tokens − those of draft steps."""
        return combine(lambda n, d: n - d, self.completion_tokens, self.of_drafts)

    @property
    def steps(self) -> Value:
        """Decode steps of a request: drafts + plain steps."""
        return combine(lambda d, p: d + p, self.drafts, self.plain_steps)

    @property
    def predicted(self) -> Value:
        """Completion tokens ÷ steps."""
        return ratio(self.completion_tokens, self.steps)

    @property
    def with_step_cost(self) -> Value:
        """Tokens per decode step × step time ratio."""
        return combine(lambda tokens, time: tokens * time, self.tokens_per_step, self.step_time_ratio)


def forward_model(base: Cell, other: Cell) -> ForwardModel:
    """The model of `other` against `base`, over all their rounds' windows."""
    requests = summed_delta(other.rounds, metrics.E2E_COUNT)
    counted = drafting(other.rounds)
    return ForwardModel(
        requests=requests,
        drafts=counted.contradiction or ratio(counted.drafts, requests),
        accepted=counted.contradiction or ratio(counted.accepted, requests),
        completion_tokens=_completion_tokens(other),
        tokens_per_step=tokens_per_decode_step(other.rounds),
        step_time_ratio=ratio(_mean(base, *_STEP), _mean(other, *_STEP)),
        measured_in_window=ratio(_mean(base, *_LATENCY), _mean(other, *_LATENCY)),
    )


_STEP = (metrics.ITL_SUM, metrics.ITL_COUNT)
"""One sample per decode step and request."""
_LATENCY = (metrics.E2E_SUM, metrics.E2E_COUNT)


def _completion_tokens(cell: Cell) -> Value:
    tokens = [request.completion_tokens for round_ in cell.rounds for request in round_.ok]
    known = [count for count in tokens if count is not None]
    if not known or len(known) < len(tokens):
        return Absent("series-absent", {"name": "usage.completion_tokens"})
    return fmean(known)


def _mean(cell: Cell, sums: str, counts: str) -> Value:
    """Δsum ÷ Δcount of a histogram over the cell's windows, in seconds."""
    return ratio(summed_delta(cell.rounds, sums), summed_delta(cell.rounds, counts))
