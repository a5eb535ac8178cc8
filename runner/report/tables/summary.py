"""`summary`: the speed-up per concurrency (article, top and 9-3)."""

from math import comb

from runner.analysis.cell import cells, concurrencies
from runner.analysis.comparison import Comparison, comparison
from runner.analysis.confounding import confounders
from runner.analysis.separation import separation
from runner.analysis.value import Absent
from runner.plan.model import Arm
from runner.report.client_times import timed
from runner.report.markdown import code
from runner.report.table import Source, Table, table
from runner.report.tables.rounds import incomplete_notes


@table("summary")
def summary(source: Source) -> list[Table]:
    """Columns: concurrency, condition (where several are compared), mean throughput ÷ the baseline's (at
    concurrency 1 the baseline's mean latency ÷ this one's), and whether the ranges overlap.

    The ratio is of unrounded means. Ranges: of the rounds' throughput, at concurrency 1 of single requests. They are
    separated where the worst pair of samples shows a ratio above 1 (or the best one below), at this concurrency and at
    every other one that runs the same batch: at or above max-num-seqs, with the same prompts.

    In all tables § marks what the client timed, where the way to the engine makes its times doubtful, or the client
    was the limit.
    """
    others = source.record.plan.others
    if not others:
        return []
    words, numbers = source.words, source.numbers
    several = len(others) > 1
    rows = []
    for level in concurrencies(source.record):
        for arm in others:
            pair = comparison(source.record, arm.id, level)
            named = [source.label(arm.id)] if several else []
            ratio = timed(numbers.ratio(pair.speedup), pair.base, pair.other)
            rows.append(
                [str(level) + doubt(pair), *named, ratio, timed(separated(source, pair), pair.base, pair.other)]
            )
    columns = [words("concurrency"), *([words("condition")] if several else []), words("speedup"), words("separation")]
    notes = [words("note-summary")]
    notes += [note for cell in cells(source.record) if cell.rounds for note in incomplete_notes(source, cell)]
    for arm in others:
        changed = differing(source.record.plan.arm(source.record.plan.baseline), arm)
        notes.append(words("note-differs", label=source.named(arm.id), names=", ".join(map(code, changed)) or "–"))
        notes += _chance(source, arm)
        found = [source.confounder(one) for one in confounders(source.record, arm)]
        if found:
            notes.append(words("note-confounded", label=source.named(arm.id), features=", ".join(found)))
    return [Table("summary", columns, rows, notes=notes)]


def doubt(pair: Comparison) -> str:
    """Marks of a ratio that rests on a contaminated round (※) or on a cell with failed requests (‡)."""
    sides = (pair.base, pair.other)
    return " ※" * any(one.contaminated for one in sides) + " ‡" * any(one.failed for one in sides)


def separated(source: Source, pair: Comparison) -> str:
    """Whether the two ranges of throughput overlap, in a word; and which concurrency does not confirm it."""
    mean = pair.speedup
    if isinstance(mean, Absent):
        return source.numbers.absent(mean)
    found = separation(source.record, pair.other.arm.id, pair.base.concurrency, base=pair.base.arm.id)
    if isinstance(found, Absent):
        return source.words("one-round-short") if found.reason == "one-round" else source.numbers.absent(found)
    if found.unconfirmed:
        levels = ", ".join(f"C={level}" for level in found.unconfirmed)
        return source.words("not-confirmed", levels=levels)
    return source.words({"faster": "separated", "slower": "slower-separated"}.get(found.verdict, "not-separated"))


def differing(base: Arm, arm: Arm) -> list[str]:
    """What the spec gives the two arms differently: arguments, environment variables, request fields."""
    pairs = (("", base.wanted, arm.wanted), ("env ", base.env, arm.env), ("request ", base.request, arm.request))
    return [
        f"{kind}{name}"
        for kind, one, two in pairs
        for name in dict.fromkeys([*one, *two])
        if (name in one, one.get(name)) != (name in two, two.get(name))
    ]


def _chance(source: Source, arm: Arm) -> list[str]:
    """How often ranges of so few rounds do not overlap by chance: 2 of the (n + m choose n) orders of the rounds."""
    counts = {
        (len(pair.base.rounds), len(pair.other.rounds))
        for level in concurrencies(source.record)
        if level != 1
        for pair in [comparison(source.record, arm.id, level)]
    }
    return [
        source.words("note-chance", base=n, other=m, chance=2 / comb(n + m, n))
        for n, m in sorted(counts)
        if n > 1 and m > 1
    ]
