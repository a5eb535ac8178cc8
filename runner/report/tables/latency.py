"""`latency`: quantiles of the times of single requests and tokens."""

from runner.analysis.cell import Cell, cells
from runner.analysis.cell_latency import METRICS, OF_TOKENS, quantiles
from runner.analysis.interval import Interval
from runner.analysis.quantile import PERCENTILES
from runner.analysis.stamps import clocks
from runner.analysis.value import Absent
from runner.report.client_times import timed
from runner.report.table import Source, Table, table
from runner.report.tables.rounds import incomplete_notes, marks


@table("latency")
def latency(source: Source) -> list[Table]:
    """Columns: condition, concurrency, metric, p50, p90, p99, over how many values (n), the clock of what was received.

    TTFT: first event that carried a generated token of any channel − sent. TPOT: (last token − first token) ÷
    (completion tokens − tokens of the first event). ITL: (event − the one before) ÷ tokens that it carried, once for
    each of them. Chunk gap: event that carried a token − the one before. E2E: last byte − sent. Tokens are counted from
    usage, never from chunks. All but E2E are of streamed cells alone.

    Quantiles are over the ok measured requests of all rounds together, linear between the nearest ranks; n counts
    requests, for ITL tokens and for chunk gap gaps. p90 takes 10 values and p99 takes 100. Each value is known between
    bounds: the kernel's stamps are exact but for the drift of the wall clock, the client's own (user) may be late by
    its loop lag (p99) and the millisecond below which a timer shows none, and an event behind which the same read held
    more came at any time after the read before; the last token, behind which stand only finish reason, usage and
    [DONE], is taken to have come at most 1 ms before these. A quantile is absent where the same quantile of the lower
    or of the upper bounds is not within 5 % of it (or 20 µs); all are absent where the client was the limit.
    """
    shown = [cell for cell in cells(source.record) if cell.rounds]
    if not shown:
        return []
    words = source.words
    rows = [
        row
        for cell in shown
        for metric in (METRICS if cell.phase.stream else [name for name in METRICS if name not in OF_TOKENS])
        for row in [_row(source, cell, metric)]
    ]
    columns = [
        words("condition"),
        words("concurrency"),
        words("metric"),
        *(f"p{percent}" for percent in PERCENTILES),
        "n",
        words("clock"),
    ]
    plain = [f"C={level}" for level in dict.fromkeys(cell.concurrency for cell in shown if not cell.phase.stream)]
    notes = [
        words("note-quantiles"),
        *([words("note-not-streamed", levels=", ".join(plain))] if plain else []),
        *(note for cell in shown for note in incomplete_notes(source, cell)),
    ]
    return [Table("latency", columns, rows, ["left", "right", "left", *["right"] * 4, "left"], notes)]


def _row(source: Source, cell: Cell, metric: str) -> list[str]:
    found = quantiles(cell, metric)
    clock = ", ".join(clocks(request for round_ in cell.rounds for request in round_.ok)) or "–"
    name = [source.label(cell.arm.id) + marks(cell), str(cell.concurrency), source.words(metric)]
    if isinstance(found, Absent):
        return [*name, *[source.numbers.absent(found)] * len(PERCENTILES), "–", clock]
    times = [timed(_shown(source, found.percentiles[percent]), cell) for percent in PERCENTILES]
    return [*name, *times, source.numbers.count(found.n), clock]


def _shown(source: Source, one: Interval | Absent) -> str:
    return source.numbers.duration(one if isinstance(one, Absent) else one.value)
