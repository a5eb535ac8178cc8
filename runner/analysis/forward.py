"""The forward model: the speed-up that the counters let expect (article, 5-3)."""

from dataclasses import dataclass
from statistics import fmean

from runner.analysis.acceptance import drafting, tokens_per_decode_step
from runner.analysis.cell import Cell
from runner.analysis.counters import counter_delta, window_requests
from runner.analysis.value import Absent, Value, combine, ratio
from runner.engine import metrics


@dataclass(frozen=True, slots=True)
class ForwardModel:
    """Of one arm against the baseline at one concurrency; counts are per request.

    A draft step emits its accepted tokens and one more, every other step emits one: a reconstruction, which takes
    the cost of a step to be the same in both arms (`predicted`). `with_step_cost` drops that: tokens per decode
    step × step time of the baseline ÷ step time of the other, all three from the engine's own histograms.
    """

    requests: int
    drafts: Value
    accepted: Value
    completion_tokens: Value
    tokens_per_step: Value
    step_time_ratio: Value

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
    windows = [window_requests(r, warm_up_counted=other.phase.warm_up_counted)[0] for r in other.rounds]
    requests = sum(windows)
    counted = drafting(other.rounds)
    return ForwardModel(
        requests=requests,
        drafts=counted.contradiction or ratio(counted.drafts, float(requests)),
        accepted=counted.contradiction or ratio(counted.accepted, float(requests)),
        completion_tokens=_completion_tokens(other),
        tokens_per_step=tokens_per_decode_step(other.rounds),
        step_time_ratio=ratio(_step_time(base), _step_time(other)),
    )


def _completion_tokens(cell: Cell) -> Value:
    tokens = [request.completion_tokens for round_ in cell.rounds for request in round_.ok]
    known = [count for count in tokens if count is not None]
    if not known or len(known) < len(tokens):
        return Absent("series-absent", {"name": "usage.completion_tokens"})
    return fmean(known)


def _step_time(cell: Cell) -> Value:
    """Mean seconds of a decode step: Δsum ÷ Δcount of the inter-token histogram, one sample per step and request."""
    sums: Value = 0.0
    counts: Value = 0.0
    for round_ in cell.rounds:
        sums = combine(lambda a, b: a + b, sums, counter_delta(round_, metrics.ITL_SUM))
        counts = combine(lambda a, b: a + b, counts, counter_delta(round_, metrics.ITL_COUNT))
    return ratio(sums, counts)
