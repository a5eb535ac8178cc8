"""How much of the prompts the prefix cache had already."""

from collections.abc import Sequence

from runner.analysis.counters import summed_delta
from runner.analysis.value import Value, ratio
from runner.engine import metrics
from runner.record.record import Round


def prefix_hit_ratio(rounds: Sequence[Round]) -> Value:
    """Δhits ÷ Δqueries, both in tokens, summed over the rounds' windows (vLLM counts a request's tokens when it is
    first looked up). Absent as `division-by-zero` where nothing was looked up."""
    return ratio(summed_delta(rounds, metrics.PREFIX_CACHE_HITS), summed_delta(rounds, metrics.PREFIX_CACHE_QUERIES))
