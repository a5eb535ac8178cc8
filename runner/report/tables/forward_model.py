"""`forward-model`: is the speed-up what the counters let expect? (article, 5-3)."""

from runner.analysis.acceptance import speculates
from runner.analysis.cell import cell, concurrencies
from runner.analysis.comparison import Comparison, comparison
from runner.analysis.forward import ForwardModel, forward_model
from runner.analysis.value import Value, combine
from runner.report.client_times import timed
from runner.report.table import Source, Table, table


@table("forward-model")
def forward_model_table(source: Source) -> list[Table]:
    """Rows per request, at the lowest concurrency: drafts; accepted tokens; tokens of draft steps (accepted +
    drafts); the rest (completion tokens − those); plain steps (one token each); decode forwards of this condition
    (drafts + plain steps) and of the baseline (one a token); predicted speed-up (completion tokens ÷ forwards);
    measured; deviation (predicted ÷ measured − 1). Then the form with the step's cost: tokens per decode step × step
    time of the baseline ÷ step time of this condition; what was measured over the same windows (the baseline's mean
    end-to-end latency ÷ this condition's, of the engines' histograms); and the deviation from that."""
    arms = [arm for arm in source.record.plan.others if speculates(source.record, arm.id)]
    base = source.record.plan.baseline
    tables = []
    if speculates(source.record, base):
        return []
    level = min(concurrencies(source.record))
    for arm in arms:
        own = cell(source.record, arm.id, level)
        if not own.rounds:
            continue
        model = forward_model(cell(source.record, base, level), own)
        pair = comparison(source.record, arm.id, level)
        words = source.words
        tables.append(
            Table(
                "forward-model",
                [words("item"), words("calculation"), words("value")],
                _rows(source, model, pair, (source.label(arm.id), source.label(base))),
                ["left", "left", "right"],
                [words("note-reconstruction"), words("note-step-cost")],
                subject=source.label(arm.id) if len(arms) > 1 else "",
            )
        )
    return tables


def _rows(source: Source, model: ForwardModel, pair: Comparison, labels: tuple[str, str]) -> list[list[str]]:
    words, numbers = source.words, source.numbers
    label, base = labels

    def short(value: Value) -> str:
        return numbers.plain(value, 2).removesuffix(".00")

    def times(value: Value) -> str:
        return words("occasions", value=short(value)) if isinstance(value, float) else short(value)

    def tokens(value: Value) -> str:
        return words("pieces", value=short(value)) if isinstance(value, float) else short(value)

    def deviation(predicted: Value, found: Value) -> str:
        return numbers.change(combine(lambda p, m: p / m - 1, predicted, found))

    requests = numbers.count(model.requests)
    total = short(model.completion_tokens)
    per_step = numbers.plain(model.tokens_per_step, 3)
    return [
        [words("drafts-a-request"), words("per-requests", n=requests), times(model.drafts)],
        [words("accepted-a-request"), words("per-requests", n=requests), tokens(model.accepted)],
        [words("tokens-of-drafts"), f"{short(model.accepted)} + {short(model.drafts)}", tokens(model.of_drafts)],
        [words("other-tokens"), f"{total} − {short(model.of_drafts)}", tokens(model.plain_steps)],
        [words("plain-steps"), words("one-a-token"), times(model.plain_steps)],
        [
            words("decode-forwards", label=label),
            f"{short(model.drafts)} + {short(model.plain_steps)}",
            times(model.steps),
        ],
        [words("decode-forwards", label=base), words("one-a-token"), times(model.completion_tokens)],
        [words("predicted-speedup"), f"{total} ÷ {short(model.steps)}", numbers.ratio(model.predicted)],
        [words("measured-speedup"), "", timed(numbers.ratio(pair.speedup), pair.base, pair.other)],
        [words("deviation"), "", timed(deviation(model.predicted, pair.speedup), pair.base, pair.other)],
        [
            words("predicted-with-step-cost"),
            f"{per_step} × {numbers.plain(model.step_time_ratio, 3)}",
            numbers.ratio(model.with_step_cost),
        ],
        [words("measured-in-window"), "", numbers.ratio(model.measured_in_window)],
        [words("deviation"), "", deviation(model.with_step_cost, model.measured_in_window)],
    ]
