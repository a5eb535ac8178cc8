"""`client`: the load generator itself, and whether it kept up."""

from runner.analysis.cell import Cell, cells
from runner.analysis.client import ClientFacts, client_facts
from runner.analysis.value import Absent, Value
from runner.report.table import Source, Table, table
from runner.report.tables.rounds import marks


@table("client")
def client(source: Source) -> list[Table]:
    """Columns: condition, concurrency, processes of the load generator, requests in flight asked for (the concurrency,
    or all there are) and achieved (time in flight between the first and the last sending ÷ that span, and its share
    of what was asked), loop lag (p99 of how late a timer fired), read lag (p99 of reading after the kernel's stamp),
    share of a processor used, share of the time spent waiting for one, the clock of what was received, the share of
    token events of which the stamp is only an upper bound, and the drift of the wall clock over a round.

    Of several rounds and processes each figure is the worst one: the lowest achieved, the highest of the others; the
    share of upper bounds is over all events of the cell. The client was the limit where it achieved less than 95 % of
    more than one while sending went on for two requests one after another (the time for which connections took to open
    is not held against it), or where its lag (of its reads, by the user clock of its timers; p99, of fewer than 100
    reads the median) is above 10 ms and above 5 % of the median duration of a round's requests; then its times are
    marked § and the latencies are absent.
    """
    known = [(cell, facts) for cell in cells(source.record) if (facts := client_facts(cell)) is not None]
    if not known:
        return []
    words = source.words
    columns = [
        words("condition"),
        words("concurrency"),
        words("processes"),
        words("asked"),
        words("achieved"),
        words("loop-lag"),
        words("read-lag"),
        words("cpu-share"),
        words("queued-share"),
        words("clock"),
        words("upper-bounds"),
        words("clock-drift"),
    ]
    rows = [_row(source, cell, facts) for cell, facts in known]
    aligns = ["left", *["right"] * 8, "left", "right", "right"]
    return [Table("client", columns, rows, aligns, [words("note-client")])]


def _row(source: Source, cell: Cell, facts: ClientFacts) -> list[str]:
    numbers = source.numbers
    limited = " §" * (cell.client_limit is not None)
    return [
        source.label(cell.arm.id) + marks(cell) + limited,
        str(cell.concurrency),
        numbers.count(facts.processes),
        numbers.count(facts.asked),
        _achieved(source, facts.achieved, facts.asked),
        numbers.duration(facts.loop_lag),
        numbers.duration(facts.read_lag),
        numbers.percent(facts.cpu),
        numbers.percent(facts.queued),
        ", ".join(facts.clocks) or "–",
        numbers.percent(facts.upper_bounds),
        numbers.duration(facts.drift),
    ]


def _achieved(source: Source, achieved: Value, asked: int) -> str:
    if isinstance(achieved, Absent):
        return source.numbers.absent(achieved)
    return f"{source.numbers.plain(achieved, 2)} ({source.numbers.percent(achieved / asked)})"
