"""What a run did not check: the author's notes, and what follows from the record itself."""

from runner.analysis.cell import cells
from runner.analysis.confounding import confounders
from runner.analysis.knee import knee
from runner.analysis.value import Absent
from runner.report.markdown import escape
from runner.report.table import Source


def computed_gaps(source: Source, empty_tables: list[str]) -> list[str]:
    """One sentence per gap, in Markdown. `empty_tables`: ids of tables that had nothing to show."""
    record, words = source.record, source.words
    plan = record.plan
    gaps = [words("gap-simulated")] if record.started.simulated else []
    for cell in cells(record):
        if cell.incomplete is not None:
            why = words(cell.incomplete.reason, **cell.incomplete.figures)
            gaps.append(words("gap-cell", label=source.label(cell.arm.id), level=cell.concurrency, why=why))
    for arm in plan.others:
        features = [source.feature(one.feature) for one in confounders(record, arm)]
        if features:
            gaps.append(words("gap-confounded", label=source.named(arm.id), features=", ".join(features)))
    if not any(phase.stream for phase in plan.phases):
        gaps.append(words("gap-ttft"))
    if plan.others and plan.invariants.same_output is None:
        gaps.append(words("gap-outputs"))
    gaps += [
        words("gap-concurrency", level=level, requests=phase.requests)
        for phase, level in plan.grid
        if level > phase.requests
    ]
    if len(plan.sent_prompts) == 1:
        gaps.append(words("gap-one-prompt"))
    if plan.replicates == 1:
        gaps.append(words("gap-one-replicate"))
    if plan.others and (plan.order == "as-written" or plan.replicates == 1):
        gaps.append(words("gap-order"))
    if not any(sample.gpu_utilization is not None for one in record.all_rounds() for sample in one.samples):
        gaps.append(words("gap-gpu"))
    for arm in plan.arms:
        found = knee(record, arm.id)
        if isinstance(found, Absent):
            why = words(found.reason, **found.figures)
            gaps.append(words("gap-knee", label=source.named(arm.id), why=escape(why)))
    gaps += [words("gap-table", table=name) for name in empty_tables]
    return gaps
