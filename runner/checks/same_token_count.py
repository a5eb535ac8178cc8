"""The same number of completion tokens in every condition and repetition."""

from collections.abc import Iterator

from runner.analysis.outputs import answers
from runner.checks.finding import Finding, Judgement
from runner.checks.registry import check
from runner.record.record import Record
from runner.spec.invariants import SameTokenCount


@check(SameTokenCount)
def same_token_count(record: Record, parameters: SameTokenCount) -> Iterator[Finding]:
    """Per prompt, over all ok requests of all arms, by the server's usage. Without usage nothing is known:
    chunks are not tokens."""
    collected = list(answers(record))
    for prompt in record.plan.sent_prompts:
        own = [one for one in collected if one.prompt == prompt]
        counts = [one.request.completion_tokens for one in own]
        known = [count for count in counts if count is not None]
        arms = {one.arm for one in own}
        missing = [arm.label for arm in record.plan.arms if arm.id not in arms]
        if missing or not known or len(known) < len(counts):
            yield Finding(Judgement.INCONCLUSIVE, "tokens-unknown", {"prompt": prompt})
            continue
        low, high = min(known), max(known)
        figures = {
            "prompt": prompt,
            "low": low,
            "high": high,
            "n": len(known),
            "tolerance": parameters.tolerance,
        }
        if high - low > parameters.tolerance:
            yield Finding(Judgement.FAIL, "token-counts-differ", figures)
        elif high > low:
            yield Finding(Judgement.PASS, "token-counts-near", figures)
        else:
            yield Finding(Judgement.PASS, "token-counts-equal", figures)
