"""How much of the prompts the prefix cache had already."""

from collections.abc import Sequence

from runner.analysis.counters import counter_delta
from runner.analysis.value import Value, combine, ratio
from runner.engine import metrics
from runner.record.record import Round


def prefix_hit_ratio(rounds: Sequence[Round]) -> Value:
    """Δhits ÷ Δqueries, both in tokens, summed over the rounds' windows (vLLM counts a request's tokens when it is
    first looked up). Absent as `division-by-zero` where nothing was looked up."""
    queries: Value = 0.0
    hits: Value = 0.0
    for round_ in rounds:
        queries = combine(lambda a, b: a + b, queries, counter_delta(round_, metrics.PREFIX_CACHE_QUERIES))
        hits = combine(lambda a, b: a + b, hits, counter_delta(round_, metrics.PREFIX_CACHE_HITS))
    return ratio(hits, queries)
