"""`draft-counters`: drafts, draft tokens, acceptance (article, 5-1)."""

from runner.analysis.acceptance import Drafting, drafting, speculates
from runner.analysis.cell import Cell, cells
from runner.analysis.counters import summed_delta
from runner.analysis.value import Absent, Value, ratio
from runner.engine import metrics
from runner.report.table import Source, Table, table
from runner.report.tables.round_counts import contamination_notes


@table("draft-counters")
def draft_counters(source: Source) -> list[Table]:
    """Per condition that speculates, over its lowest concurrency: drafts, draft tokens (drafts × tokens per
    draft), accepted tokens, acceptance rate (accepted ÷ draft tokens), accepted per draft (accepted ÷ drafts)."""
    words = source.words
    speculating = list(speculating_cells(source))
    tables = []
    for cell in speculating:
        counted = drafting(cell.rounds)
        requests = summed_delta(cell.rounds, metrics.E2E_COUNT)
        tables.append(
            Table(
                "draft-counters",
                ["key", words("value"), words("reading")],
                _rows(source, counted, requests),
                ["left", "right", "left"],
                [
                    words("note-drafts-window", label=source.named(cell.arm.id), concurrency=cell.concurrency),
                    *(note for one in cell.contaminated for note in contamination_notes(source, cell, one)),
                ],
                subject=source.label(cell.arm.id) if len(speculating) > 1 else "",
            )
        )
    return tables


def speculating_cells(source: Source) -> list[Cell]:
    """Per arm that speculates, its cell at the lowest concurrency."""
    found: dict[str, Cell] = {}
    for cell in cells(source.record):
        if cell.rounds and speculates(source.record, cell.arm.id):
            known = found.get(cell.arm.id)
            if known is None or cell.concurrency < known.concurrency:
                found[cell.arm.id] = cell
    return [found[arm.id] for arm in source.record.plan.arms if arm.id in found]


def _rows(source: Source, counted: Drafting, requests: Value) -> list[list[str]]:
    words, numbers = source.words, source.numbers
    drafts, tokens, accepted = (
        numbers.count(value) for value in (counted.drafts, counted.draft_tokens, counted.accepted)
    )
    n = numbers.count(requests)
    per_request: Value = ratio(counted.drafts, requests)
    return [
        [
            words("drafts"),
            drafts,
            words("per-request", n=n, value=_short(numbers.plain(per_request, 2))),
        ],
        [words("draft-tokens"), tokens, _product(source, counted, drafts)],
        [words("accepted"), accepted, words("all-counted", n=n)],
        [words("acceptance-rate"), numbers.percent(counted.rate), words("quotient", a=accepted, b=tokens)],
        [
            words("accepted-per-draft"),
            _pieces(source, counted.accepted_per_draft),
            words("quotient", a=accepted, b=drafts),
        ],
    ]


def _product(source: Source, counted: Drafting, drafts: str) -> str:
    each = counted.tokens_per_draft
    return source.words("drafts-times", drafts=drafts, tokens=_short(source.numbers.plain(each, 2)))


def _pieces(source: Source, value: Value) -> str:
    shown = source.numbers.plain(value, 2)
    return shown if isinstance(value, Absent) else source.words("pieces", value=shown)


def _short(text: str) -> str:
    """`8.00` as `8`: a whole number says that the count divides evenly."""
    return text.removesuffix(".00")
