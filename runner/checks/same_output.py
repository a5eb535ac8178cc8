"""The same text in every condition and repetition."""

from collections.abc import Iterator

from runner.analysis.outputs import answers, first_difference, reference_output, same_text
from runner.checks.finding import Finding, Judgement
from runner.checks.registry import check
from runner.plan.model import Arm
from runner.record.record import Record
from runner.spec.invariants import SameOutput


@check(SameOutput)
def same_output(record: Record, parameters: SameOutput) -> Iterator[Finding]:
    """Every ok request against the baseline's most frequent output for its prompt.

    The baseline's own repetitions are judged too: where it differs from itself, a difference between
    conditions proves nothing.
    """
    collected = list(answers(record))
    for prompt in record.plan.sent_prompts:
        reference = reference_output(record, prompt)
        if reference is None:
            yield Finding(Judgement.INCONCLUSIVE, "no-output", {"prompt": prompt})
            continue
        for arm in record.plan.arms:
            outputs = [one.output_id for one in collected if one.arm == arm.id and one.prompt == prompt]
            yield _judge(record, arm, prompt, reference, outputs, parameters.max_different)


def _judge(record: Record, arm: Arm, prompt: str, reference: str, outputs: list[str | None], allowed: int) -> Finding:
    kept = [one for one in outputs if one is not None]
    if not kept:
        return Finding(Judgement.INCONCLUSIVE, "no-output", {"prompt": prompt}, arm.label)
    different = [one for one in kept if not same_text(record, reference, one)]
    figures: dict[str, str | int] = {
        "n": len(outputs),
        "kept": len(kept),
        "different": len(different),
        "prompt": prompt,
        "allowed": allowed,
    }
    if not different and len(kept) < len(outputs):
        return Finding(Judgement.INCONCLUSIVE, "outputs-partly-kept", figures, arm.label)
    if not different:
        return Finding(Judgement.PASS, "outputs-equal", figures, arm.label)
    first = first_difference(record, reference, different[0])
    figures |= {
        "character": first.character,
        "token": first.token if first.token is not None else "?",
        "reference": first.reference,
        "other": first.other,
    }
    if len(different) > allowed:
        return Finding(Judgement.FAIL, "outputs-differ", figures, arm.label)
    judgement = Judgement.PASS if len(kept) == len(outputs) else Judgement.INCONCLUSIVE
    return Finding(judgement, "outputs-differ", figures, arm.label)
