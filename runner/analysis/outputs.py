"""What the engine answered, and where two answers first differ."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from runner.record.events import RequestDone
from runner.record.record import Record

_ROLES = ("warm-up", "excluded", "measured")


@dataclass(frozen=True, slots=True)
class Answer:
    """One ok request of an arm: the prompt's name, and the ids and size of what came back."""

    arm: str
    prompt: str
    output_id: str | None
    request: RequestDone


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """Where two texts part: position in characters, in tokens where both have ids, and a few characters of each."""

    character: int
    token: int | None
    reference: str
    other: str


def answers(record: Record) -> Iterator[Answer]:
    """Every ok request of every round."""
    for round_ in record.all_rounds():
        for request in round_.of_role(*_ROLES):
            if request.verdict == "ok":
                body = record.bodies.get(request.body_id)
                yield Answer(round_.arm, body.prompt if body else "?", request.output_id, request)


def reference_output(record: Record, prompt: str) -> str | None:
    """The id of the baseline's most frequent output for a prompt; the earliest of equals."""
    counts = Counter(
        one.output_id
        for one in answers(record)
        if one.arm == record.plan.baseline and one.prompt == prompt and one.output_id is not None
    )
    return counts.most_common(1)[0][0] if counts else None


def same_text(record: Record, first: str, second: str) -> bool:
    """Whether two outputs say the same; token ids decide only where both have them."""
    if first == second:
        return True
    one, two = record.outputs[first], record.outputs[second]
    if one.token_ids is not None and two.token_ids is not None and one.token_ids != two.token_ids:
        return False
    return (one.text, one.reasoning) == (two.text, two.reasoning)


def first_difference(record: Record, reference: str, other: str) -> FirstDifference:
    """Where two different outputs part."""
    one, two = record.outputs[reference], record.outputs[other]
    texts = (one.reasoning + one.text, two.reasoning + two.text)
    at = _parting(*texts)
    token = None
    if one.token_ids is not None and two.token_ids is not None:
        token = _parting(one.token_ids, two.token_ids)
    return FirstDifference(at, token, texts[0][at : at + 20], texts[1][at : at + 20])


def _parting(first: str | list[int], second: str | list[int]) -> int:
    for index, (a, b) in enumerate(zip(first, second, strict=False)):
        if a != b:
            return index
    return min(len(first), len(second))
